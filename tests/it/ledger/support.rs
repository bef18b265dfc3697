//! Stores and rows for the suite.

use std::path::Path;
use std::sync::Arc;

use ostler::ledger::{MemoryLedger, SqliteLedger, SqliteOptions};
use ostler_supervisors::contract::event::kinds;
use ostler_supervisors::contract::{Event, Position, SessionId, SessionSpec, TaskId};
use ostler_supervisors::ledger::{Change, Commit, Ledger, SessionRow, SessionState, Urgency};
use serde_json::value::RawValue;

/// A store under test; its folder lives as long as it does.
pub struct Store {
    pub name: &'static str,
    pub ledger: Arc<dyn Ledger>,
    _folder: tempfile::TempDir,
}

/// Every store.
pub async fn stores() -> Vec<Store> {
    let folder = tempfile::tempdir().expect("a folder");
    let sqlite = sqlite(folder.path()).await;
    vec![
        Store {
            name: "memory",
            ledger: Arc::new(MemoryLedger::default()),
            _folder: tempfile::tempdir().expect("a folder"),
        },
        Store { name: "sqlite", ledger: Arc::new(sqlite), _folder: folder },
    ]
}

/// The SQLite store in this folder.
pub async fn sqlite(folder: &Path) -> SqliteLedger {
    SqliteLedger::open(SqliteOptions::new(folder.join("ledger.sqlite"))).await.expect("opens")
}

pub fn session(name: &str) -> SessionId {
    name.parse().expect("an id")
}

pub fn session_row(name: &str) -> SessionRow {
    SessionRow {
        id: session(name),
        harness: "scripted".parse().expect("an id"),
        spec: SessionSpec { directory: "/work".into(), model: None },
        owner: "owner".parse().expect("an id"),
        state: SessionState::Open,
        native: None,
        created_ms: 1,
    }
}

pub fn event(position: u64, data: &str) -> Event {
    let task: TaskId = "task_1".parse().expect("an id");
    Event {
        position: Position(position),
        run: Some((task, position)),
        at_ms: 1_700_000_000_000 + position,
        kind: kinds::MESSAGE_DELTA,
        data: RawValue::from_string(format!(r#"{{"text":"{data}"}}"#)).expect("JSON"),
    }
}

/// A commit of `count` events from this position on.
pub fn commit(name: &str, from: u64, count: u64) -> Commit {
    let events = (from..from + count).map(|position| event(position, &format!("{name} {position}"))).collect();
    Commit { session: session(name), expected_next: Position(from), events, changes: Vec::new() }
}

/// Makes a session.
pub async fn make(ledger: &dyn Ledger, name: &str) {
    let changes = vec![Change::Session(session_row(name))];
    let made = Commit { session: session(name), expected_next: Position(1), events: Vec::new(), changes };
    append(ledger, made).await;
}

/// Commits, and expects success.
pub async fn append(ledger: &dyn Ledger, commit: Commit) {
    let results = ledger.commit(&[commit], Urgency::Normal).await.expect("stored");
    assert_eq!(results, vec![Ok(())]);
}

/// The whole stream of a session, read in steps of this size.
pub async fn stream(ledger: &dyn Ledger, name: &str, step: usize) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    loop {
        let next = ledger.read(&session(name), Position(events.len() as u64 + 1), step).await.expect("readable");
        if next.is_empty() {
            return events;
        }
        events.extend(next);
    }
}

/// Asserts that positions are 1, 2, 3 … and the texts those of [`commit`].
pub fn assert_whole(events: &[Event], name: &str, count: u64) {
    assert_eq!(events.len() as u64, count, "{name}");
    for (index, found) in events.iter().enumerate() {
        assert_eq!(found, &event(index as u64 + 1, &format!("{name} {}", index + 1)));
    }
}
