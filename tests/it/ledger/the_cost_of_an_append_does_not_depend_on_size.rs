//! Pages touched by an append at 1,000 and at 1,000,000 events: counted, not timed.

use ostler_supervisors::ledger::{Ledger, Urgency};

use super::support::*;

/// Bytes that `count` appends add to the log, with nothing moved into the file meanwhile.
async fn bytes_of_appends(ledger: &ostler::ledger::SqliteLedger, from: u64, count: u64) -> u64 {
    ledger.compact().await.expect("compacts");
    let wal = ledger.path().with_extension("sqlite-wal");
    let size = || std::fs::metadata(&wal).map(|m| m.len()).unwrap_or(0);
    let before = size();
    for index in 0..count {
        append(ledger, commit("a", from + index, 1)).await;
    }
    size().saturating_sub(before)
}

#[tokio::test]
async fn at_a_thousand_and_at_a_million_events() {
    let folder = tempfile::tempdir().expect("a folder");
    let ledger = sqlite(folder.path()).await;
    make(&ledger, "a").await;
    append(&ledger, commit("a", 1, 1000)).await;
    let small = bytes_of_appends(&ledger, 1001, 200).await;
    let mut next = 1201;
    while next < 1_000_000 {
        let results = ledger.commit(&[commit("a", next, 2000)], Urgency::Normal).await.expect("stored");
        assert_eq!(results, vec![Ok(())]);
        next += 2000;
    }
    let large = bytes_of_appends(&ledger, next, 200).await;
    assert!(large <= small * 2 + 65_536, "200 appends wrote {small} bytes at 1,000 events and {large} at 1,000,000");
    let read = ledger.read(&session("a"), ostler_supervisors::contract::Position(500_000), 1).await.expect("readable");
    assert_eq!(read.first(), Some(&event(500_000, "a 500000")));
}
