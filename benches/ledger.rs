//! Events per CPU second of the SQLite ledger against a raw group commit of the same bytes, in one run.
//!
//! `cargo bench --bench ledger`. What counts: events of about 300 bytes, commits of 64 events per session and batch,
//! user and system time of this process, at 1 and at 500 sessions. The disk's own fsync time stands beside it.
#![expect(clippy::expect_used, reason = "a benchmark that cannot run has no figures")]

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use ostler::ledger::{SqliteLedger, SqliteOptions};
use ostler_supervisors::contract::event::kinds;
use ostler_supervisors::contract::{Event, Position, SessionId, SessionSpec};
use ostler_supervisors::ledger::{Change, Commit, Ledger, SessionRow, SessionState, Urgency};
use serde_json::value::RawValue;
use sqlx::ConnectOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};

const PER_COMMIT: u64 = 64;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let folder = tempfile::tempdir_in(".").expect("a folder");
    println!("fsync of 4 KiB: {:?} (median of 50)", fsync_time(folder.path()));
    for (sessions, rounds) in [(1, 4000), (500, 40)] {
        let events = sessions * rounds * PER_COMMIT;
        let raw = raw(&folder.path().join(format!("raw-{sessions}")), sessions, rounds).await;
        let own = own(&folder.path().join(format!("own-{sessions}")), sessions, rounds).await;
        let (raw, own) = (events as f64 / raw.as_secs_f64(), events as f64 / own.as_secs_f64());
        println!(
            "{sessions:>3} sessions: {own:>9.0} events per CPU second, raw group commit {raw:>9.0}, ratio {:.2}",
            own / raw
        );
    }
}

fn cpu() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("usage");
    let sum = usage.user_time() + usage.system_time();
    Duration::from_micros((sum.tv_sec() * 1_000_000 + sum.tv_usec()) as u64)
}

fn fsync_time(folder: &Path) -> Duration {
    let mut file = std::fs::File::create(folder.join("fsync")).expect("a file");
    let mut times: Vec<Duration> = (0..50)
        .map(|_| {
            file.write_all(&[7; 4096]).expect("written");
            let start = Instant::now();
            file.sync_data().expect("synced");
            start.elapsed()
        })
        .collect();
    times.sort();
    times[25]
}

fn events(from: u64) -> Vec<Event> {
    let text = "x".repeat(250);
    let event = |position| Event {
        position: Position(position),
        run: Some(("task_1".parse().expect("id"), position)),
        at_ms: 1_700_000_000_000 + position,
        kind: kinds::MESSAGE_DELTA,
        data: RawValue::from_string(format!(r#"{{"text":"{text}"}}"#)).expect("JSON"),
    };
    (from..from + PER_COMMIT).map(event).collect()
}

async fn own(path: &Path, sessions: u64, rounds: u64) -> Duration {
    let ledger = SqliteLedger::open(SqliteOptions::new(path)).await.expect("opens");
    let ids: Vec<SessionId> = (0..sessions).map(|number| format!("s{number}").parse().expect("id")).collect();
    for id in &ids {
        let row = SessionRow {
            id: id.clone(),
            harness: "bench".parse().expect("id"),
            spec: SessionSpec { directory: "/".into(), model: None },
            owner: "bench".parse().expect("id"),
            state: SessionState::Open,
            native: None,
            created_ms: 0,
        };
        let changes = vec![Change::Session(row)];
        let made = Commit { session: id.clone(), expected_next: Position(1), events: Vec::new(), changes };
        ledger.commit(&[made], Urgency::Normal).await.expect("made");
    }
    let batches: Vec<Vec<Commit>> = (0..rounds).map(|round| batch(&ids, round * PER_COMMIT + 1)).collect();
    let start = cpu();
    for batch in &batches {
        let results = ledger.commit(batch, Urgency::Normal).await.expect("stored");
        assert!(results.iter().all(Result::is_ok));
    }
    let used = cpu() - start;
    ledger.close().await;
    used
}

fn batch(ids: &[SessionId], from: u64) -> Vec<Commit> {
    let commit = |id: &SessionId| Commit {
        session: id.clone(),
        expected_next: Position(from),
        events: events(from),
        changes: Vec::new(),
    };
    ids.iter().map(commit).collect()
}

/// The same bytes, one row a session and commit, one transaction a batch, and no other table.
async fn raw(path: &Path, sessions: u64, rounds: u64) -> Duration {
    let mut connection = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .disable_statement_logging()
        .connect()
        .await
        .expect("opens");
    sqlx::query("CREATE TABLE blobs (id INTEGER PRIMARY KEY, events BLOB)")
        .execute(&mut connection)
        .await
        .expect("made");
    let blob = ostler_supervisors::ledger::pack(&events(1));
    let start = cpu();
    for _ in 0..rounds {
        sqlx::query("BEGIN IMMEDIATE").execute(&mut connection).await.expect("begins");
        for _ in 0..sessions {
            let insert = sqlx::query("INSERT INTO blobs (events) VALUES (?)").bind(&blob[..]);
            insert.execute(&mut connection).await.expect("inserted");
        }
        sqlx::query("COMMIT").execute(&mut connection).await.expect("commits");
    }
    cpu() - start
}
