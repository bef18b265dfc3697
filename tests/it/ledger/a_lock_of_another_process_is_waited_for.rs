//! Another process holds the write lock: short is waited for, long is said.

use std::time::{Duration, Instant};

use ostler::ledger::{SqliteLedger, SqliteOptions};
use ostler_supervisors::ledger::{Ledger, LedgerError, Urgency};

use super::support::*;
use crate::support::holder::Holder;

#[tokio::test]
async fn held_longer_than_the_timeout_it_is_busy_and_nothing_is_stored() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = SqliteOptions::new(folder.path().join("ledger.sqlite"));
    options.busy_timeout = Duration::from_millis(200);
    let ledger = SqliteLedger::open(options).await.expect("opens");
    make(&ledger, "a").await;
    let holder = Holder::hold(ledger.path());
    let asked = Instant::now();
    let refused = ledger.commit(&[commit("a", 1, 1)], Urgency::Normal).await;
    assert!(matches!(refused, Err(LedgerError::Busy)), "{refused:?}");
    assert!(asked.elapsed() >= Duration::from_millis(150));
    assert_whole(&stream(&ledger, "a", 10).await, "a", 0);
    holder.release();
    append(&ledger, commit("a", 1, 1)).await;
}

#[tokio::test]
async fn held_for_a_while_it_is_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let ledger = sqlite(folder.path()).await;
    make(&ledger, "a").await;
    let holder = Holder::hold(ledger.path());
    let release = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(500));
        holder.release();
    });
    append(&ledger, commit("a", 1, 3)).await;
    release.join().expect("released");
    assert_whole(&stream(&ledger, "a", 10).await, "a", 3);
}

#[tokio::test]
async fn one_that_is_being_made_by_another_process_is_waited_for_and_no_longer_than_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = SqliteOptions::new(folder.path().join("ledger.sqlite"));
    options.busy_timeout = Duration::from_millis(200);
    let lock = std::fs::File::create(folder.path().join("ledger.lock")).expect("made");
    lock.lock().expect("locked");
    let refused = SqliteLedger::open(options.clone()).await.err();
    assert!(matches!(refused, Some(LedgerError::Held)), "{refused:?}");
    assert!(!options.path.exists(), "nothing was made");
    options.busy_timeout = Duration::from_secs(60);
    let release = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        drop(lock);
    });
    SqliteLedger::open(options).await.expect("opens");
    release.join().expect("released");
}
