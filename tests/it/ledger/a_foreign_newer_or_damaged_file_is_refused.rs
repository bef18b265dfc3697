//! A file that is not ours, not yet known or not whole is named, and left as it is.

use std::fs;
use std::path::PathBuf;

use ostler::ledger::{SqliteLedger, SqliteOptions};
use ostler_supervisors::contract::Position;
use ostler_supervisors::ledger::{Ledger, LedgerError};

use super::support::*;

async fn refusal(path: &PathBuf) -> LedgerError {
    let before = fs::read(path).expect("readable");
    let error = SqliteLedger::open(SqliteOptions::new(path)).await.err().expect("refused");
    assert_eq!(fs::read(path).expect("readable"), before, "the file was touched");
    error
}

#[tokio::test]
async fn a_file_that_is_no_database() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ledger.sqlite");
    fs::write(&path, "somebody's notes, longer than nothing").expect("written");
    assert!(matches!(refusal(&path).await, LedgerError::Foreign { why: "it is no SQLite file", .. }));
}

#[tokio::test]
async fn a_database_of_another_program() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ledger.sqlite");
    let made = std::process::Command::new("sqlite3").arg(&path).arg("create table t(x)").status().expect("sqlite3");
    assert!(made.success());
    assert!(matches!(refusal(&path).await, LedgerError::Foreign { why: "another program made it", .. }));
}

#[tokio::test]
async fn a_ledger_of_a_newer_ostler() {
    let folder = tempfile::tempdir().expect("a folder");
    let ledger = sqlite(folder.path()).await;
    let path = ledger.path().to_owned();
    ledger.close().await;
    drop(ledger);
    let raised = std::process::Command::new("sqlite3").arg(&path).arg("pragma user_version = 99").status();
    assert!(raised.expect("sqlite3").success());
    let error = refusal(&path).await;
    assert!(matches!(error, LedgerError::Newer { found: 99, known: 1, .. }), "{error}");
    assert!(error.to_string().contains("version 99"));
}

#[tokio::test]
async fn a_flipped_byte_in_a_stored_blob_is_found_and_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let ledger = sqlite(folder.path()).await;
    make(&ledger, "a").await;
    append(&ledger, commit("a", 1, 50)).await;
    let path = ledger.path().to_owned();
    ledger.close().await;
    drop(ledger);
    let mut bytes = fs::read(&path).expect("readable");
    let at = bytes.windows(8).position(|window| window == b"\"a 33\"}\x01").expect("the event's text") + 3;
    bytes[at] ^= 1;
    fs::write(&path, bytes).expect("written");
    let ledger = sqlite(folder.path()).await;
    let error = ledger.read(&session("a"), Position(1), 10).await.expect_err("damaged");
    assert!(matches!(&error, LedgerError::Corrupt { what, .. } if what.contains("checksum")), "{error}");
}

#[tokio::test]
async fn a_file_cut_in_the_middle() {
    let folder = tempfile::tempdir().expect("a folder");
    let ledger = sqlite(folder.path()).await;
    make(&ledger, "a").await;
    for from in (1..2000).step_by(100) {
        append(&ledger, commit("a", from, 100)).await;
    }
    let path = ledger.path().to_owned();
    ledger.close().await;
    drop(ledger);
    let bytes = fs::read(&path).expect("readable");
    fs::write(&path, &bytes[..bytes.len() / 2]).expect("written");
    let opened = SqliteLedger::open(SqliteOptions::new(&path)).await;
    let error = match opened {
        Err(error) => error,
        Ok(ledger) => ledger.read(&session("a"), Position(1), 5000).await.expect_err("damaged"),
    };
    assert!(matches!(error, LedgerError::Corrupt { .. }), "{error:?}");
}
