//! No room: new work is refused, the reserve lets running work settle, and nothing stored is lost.

use std::path::Path;
use std::process::Command;

use ostler::ledger::{SqliteLedger, SqliteOptions};
use ostler_supervisors::ledger::{Ledger, LedgerError, Urgency};

use super::support::*;

async fn fill(ledger: &SqliteLedger) -> u64 {
    let mut next = 1;
    loop {
        match ledger.commit(&[commit("a", next, 200)], Urgency::Normal).await {
            Ok(results) => assert_eq!(results, vec![Ok(())]),
            Err(LedgerError::Full) => return next - 1,
            Err(error) => panic!("{error:?}"),
        }
        next += 200;
        assert!(next < 10_000_000, "the disk is never full");
    }
}

#[tokio::test]
async fn at_a_configured_size() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = SqliteOptions::new(folder.path().join("ledger.sqlite"));
    options.max_pages = Some(256);
    let ledger = SqliteLedger::open(options).await.expect("opens");
    make(&ledger, "a").await;
    let stored = fill(&ledger).await;
    assert_whole(&stream(&ledger, "a", 1000).await, "a", stored);
    assert!(matches!(ledger.commit(&[commit("a", stored + 1, 200)], Urgency::Normal).await, Err(LedgerError::Full)));
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
            eprintln!("no disk can be mounted here: only the configured size is tested");
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
    let ledger = SqliteLedger::open(options).await.expect("opens");
    make(&ledger, "a").await;
    let ballast = disk.path().join("ballast");
    std::fs::write(&ballast, vec![1; 9 << 20]).expect("written");
    let stored = fill(&ledger).await;
    assert!(matches!(ledger.commit(&[commit("a", stored + 1, 200)], Urgency::Normal).await, Err(LedgerError::Full)));
    let settled = ledger.commit(&[commit("a", stored + 1, 200)], Urgency::Settlement).await;
    assert_eq!(settled.expect("the reserve has room"), vec![Ok(())]);
    std::fs::remove_file(&ballast).expect("removed");
    append(&ledger, commit("a", stored + 201, 200)).await;
    assert_whole(&stream(&ledger, "a", 1000).await, "a", stored + 400);
    ledger.close().await;
}
