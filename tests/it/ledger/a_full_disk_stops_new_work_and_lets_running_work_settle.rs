//! No room: new work is refused, the reserve lets running work settle, and nothing stored is lost.

use std::path::Path;
use std::process::Command;

use ostler::ledger::{SqliteLedger, SqliteOptions};
use ostler_supervisors::ledger::{Ledger, LedgerError, Urgency};

use super::support::*;

/// Commits from this position on until there is no room; returns the last position stored, and why it is the last.
async fn fill(ledger: &SqliteLedger, mut next: u64, urgency: Urgency) -> (u64, LedgerError) {
    loop {
        match ledger.commit(&[commit("a", next, 200)], urgency).await {
            Ok(results) => assert_eq!(results, vec![Ok(())]),
            Err(error) => return (next - 1, error),
        }
        next += 200;
        assert!(next < 10_000_000, "it is never full");
    }
}

const LIMIT: u64 = 512;
const RESERVE: u64 = 64;

async fn limited(folder: &Path, pages: u64) -> SqliteLedger {
    let mut options = SqliteOptions::new(folder.join("ledger.sqlite"));
    options.max_pages = Some(pages as u32);
    options.reserve_bytes = RESERVE * 4096;
    SqliteLedger::open(options).await.expect("opens")
}

#[tokio::test]
async fn at_a_configured_size_new_work_ends_and_running_work_settles() {
    let folder = tempfile::tempdir().expect("a folder");
    let ledger = limited(folder.path(), LIMIT).await;
    make(&ledger, "a").await;
    let (stored, why) = fill(&ledger, 1, Urgency::Normal).await;
    assert!(matches!(why, LedgerError::AtLimit { mib: 2 }), "{why:?}");
    let settled = ledger.commit(&[commit("a", stored + 1, 200)], Urgency::Settlement).await;
    assert_eq!(settled.expect("the reserve has room"), vec![Ok(())]);
    // What a settlement may use is nothing to new work.
    let refused = ledger.commit(&[commit("a", stored + 201, 200)], Urgency::Normal).await;
    assert!(matches!(refused, Err(LedgerError::AtLimit { mib: 2 })), "{refused:?}");
    assert_whole(&stream(&ledger, "a", 1000).await, "a", stored + 200);
    let (settled, why) = fill(&ledger, stored + 201, Urgency::Settlement).await;
    assert!(matches!(why, LedgerError::AtLimit { mib: 2 }), "{why:?}");
    assert!(folder.path().join("ledger.reserve").exists(), "the disk has room, and its reserve is not what is missing");
    ledger.close().await;
    let pages = std::fs::metadata(ledger.path()).expect("a file").len() / 4096;
    assert!((LIMIT + RESERVE / 2..=LIMIT + RESERVE).contains(&pages), "{pages} pages");
    drop(ledger);
    let raised = limited(folder.path(), 2 * LIMIT).await;
    append(&raised, commit("a", settled + 1, 200)).await;
    assert_whole(&stream(&raised, "a", 1000).await, "a", settled + 200);
}

#[tokio::test]
async fn a_file_that_is_larger_than_a_new_limit_still_settles_what_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let ledger = limited(folder.path(), LIMIT).await;
    make(&ledger, "a").await;
    let (stored, _) = fill(&ledger, 1, Urgency::Normal).await;
    ledger.close().await;
    drop(ledger);
    let smaller = limited(folder.path(), LIMIT / 2).await;
    let (same, why) = fill(&smaller, stored + 1, Urgency::Normal).await;
    assert!(matches!(why, LedgerError::AtLimit { mib: 1 }), "{why:?}");
    assert_eq!(same, stored);
    let settled = smaller.commit(&[commit("a", stored + 1, 200)], Urgency::Settlement).await;
    assert_eq!(settled.expect("the reserve has room"), vec![Ok(())]);
}

/// A small disk of its own; needs root, and is skipped with a word where that is missing.
struct Disk(tempfile::TempDir);

impl Disk {
    fn mount(mebibytes: u32) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let size = format!("size={mebibytes}m");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(folder.path()).output();
        let mounted = mounted.is_ok_and(|output| output.status.success());
        if !mounted {
            eprintln!("no disk can be mounted here: only the configured sizes are tested");
        }
        mounted.then_some(Self(folder))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("-l").arg(self.path()).status();
        assert!(unmounted.is_ok_and(|status| status.success()));
    }
}

#[tokio::test]
async fn on_a_real_disk_the_reserve_settles_and_freed_room_goes_on() {
    let Some(disk) = Disk::mount(16) else { return };
    let mut options = SqliteOptions::new(disk.path().join("ledger.sqlite"));
    options.reserve_bytes = 2 << 20;
    // With a limit as well, it is the disk that is said to be full.
    options.max_pages = Some(64 * 256);
    let ledger = SqliteLedger::open(options).await.expect("opens");
    make(&ledger, "a").await;
    let ballast = disk.path().join("ballast");
    std::fs::write(&ballast, vec![1; 9 << 20]).expect("written");
    let (stored, why) = fill(&ledger, 1, Urgency::Normal).await;
    assert!(matches!(why, LedgerError::Full), "{why:?}");
    assert!(matches!(ledger.commit(&[commit("a", stored + 1, 200)], Urgency::Normal).await, Err(LedgerError::Full)));
    let settled = ledger.commit(&[commit("a", stored + 1, 200)], Urgency::Settlement).await;
    assert_eq!(settled.expect("the reserve has room"), vec![Ok(())]);
    std::fs::remove_file(&ballast).expect("removed");
    append(&ledger, commit("a", stored + 201, 200)).await;
    assert_whole(&stream(&ledger, "a", 1000).await, "a", stored + 400);
    ledger.close().await;
}
