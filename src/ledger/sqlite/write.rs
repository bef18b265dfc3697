//! The writer: a batch in one transaction, few rows in rowid order.

use std::collections::HashMap;
use std::path::Path;

use ostler_supervisors::contract::{Position, SessionId};
use ostler_supervisors::ledger::{
    AppendError, Change, Commit, InteractionRow, LedgerError, OutboxThen, PackError, RuntimeRow, SessionRow, TaskRow,
    pack,
};
use sqlx::sqlite::SqliteConnection;
use sqlx::{QueryBuilder, Row, Sqlite};

use super::limit::{Room, SizeLimit};
use super::{error, read};

/// How many rows one statement inserts.
const ROWS: usize = 100;

/// The one connection that writes, and what it knows of the heads.
pub(super) struct Writer {
    pub(super) connection: SqliteConnection,
    limit: Option<SizeLimit>,
    heads: HashMap<SessionId, Head>,
    next_blob: i64,
    data_version: i64,
}

#[derive(Debug, Clone, Copy)]
struct Head {
    number: i64,
    last: i64,
    blob: i64,
    tail: i64,
}

struct Blob {
    id: i64,
    session: i64,
    first: i64,
    last: i64,
    previous: i64,
    events: Vec<u8>,
}

/// What a commit stored.
pub(super) struct Done {
    pub(super) results: Vec<Result<(), AppendError>>,
    pub(super) bytes: u64,
}

/// Why nothing of a batch was stored.
pub(super) enum WriteFailure {
    Sql(sqlx::Error),
    Row(serde_json::Error),
    Blob(i64, PackError),
}

impl From<sqlx::Error> for WriteFailure {
    fn from(error: sqlx::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<serde_json::Error> for WriteFailure {
    fn from(error: serde_json::Error) -> Self {
        Self::Row(error)
    }
}

impl WriteFailure {
    pub(super) fn into_ledger_error(self, path: &Path) -> LedgerError {
        match self {
            Self::Sql(failure) => error::mapper(path, "write")(failure),
            Self::Row(failure) => error::bad_row(path, &failure),
            Self::Blob(id, failure) => error::damaged(path, id, failure),
        }
    }
}

impl Writer {
    pub(super) fn new(connection: SqliteConnection, limit: Option<SizeLimit>) -> Self {
        Self { connection, limit, heads: HashMap::new(), next_blob: 0, data_version: -1 }
    }

    /// Gives this room to what is written next.
    pub(super) async fn give(&mut self, room: Room) -> Result<(), sqlx::Error> {
        match &mut self.limit {
            Some(limit) => limit.give(&mut self.connection, room).await,
            None => Ok(()),
        }
    }

    /// The ledger's own error. SQLite has one code for a full disk and a file of its largest size: the one that has
    /// less room left is meant.
    pub(super) async fn refused(&mut self, failure: WriteFailure, path: &Path) -> LedgerError {
        let error = failure.into_ledger_error(path);
        let (LedgerError::Full, Some(limit)) = (&error, &self.limit) else { return error };
        match limit.left(&mut self.connection).await {
            Ok(left) if error::room(path).is_none_or(|room| left <= room) => LedgerError::AtLimit { mib: limit.mib() },
            _ => error,
        }
    }

    pub(super) async fn commit(&mut self, batch: &[Commit]) -> Result<Done, WriteFailure> {
        let stored = match self.begin().await {
            Ok(()) => self.store(batch).await,
            Err(error) => Err(error.into()),
        };
        self.finish(stored).await
    }

    /// Takes the write lock, and forgets what another process may have changed.
    pub(super) async fn begin(&mut self) -> Result<(), sqlx::Error> {
        sqlx::query("BEGIN IMMEDIATE").execute(&mut self.connection).await?;
        let version = sqlx::query_scalar("PRAGMA data_version").fetch_one(&mut self.connection).await?;
        if version != self.data_version {
            self.heads.clear();
            let last: Option<i64> =
                sqlx::query_scalar("SELECT max(id) FROM blobs").fetch_one(&mut self.connection).await?;
            self.next_blob = last.unwrap_or(0) + 1;
            self.data_version = version;
        }
        Ok(())
    }

    /// Ends the transaction as the work in it ended.
    pub(super) async fn finish<T>(&mut self, done: Result<T, WriteFailure>) -> Result<T, WriteFailure> {
        let committed = match &done {
            Ok(_) => sqlx::query("COMMIT").execute(&mut self.connection).await.map(drop),
            Err(_) => Ok(()),
        };
        if done.is_err() || committed.is_err() {
            self.data_version = -1;
            // SQLite may have rolled back by itself already, which is what is wanted.
            let _already = sqlx::query("ROLLBACK").execute(&mut self.connection).await;
        }
        committed?;
        done
    }

    async fn store(&mut self, batch: &[Commit]) -> Result<Done, WriteFailure> {
        let (mut blobs, mut changes, mut results) = (Vec::new(), Vec::new(), Vec::new());
        for commit in batch {
            let staged = self.stage(commit).await?;
            results.push(staged.map(|staged| {
                if let Staged::New(blob) = staged {
                    blobs.extend(blob);
                    changes.extend(&commit.changes);
                }
            }));
        }
        let bytes = blobs.iter().map(|blob| blob.events.len() as u64 + 64).sum();
        self.insert_blobs(&blobs).await?;
        self.write_heads(&blobs).await?;
        for change in changes {
            self.apply(change).await?;
        }
        Ok(Done { results, bytes })
    }

    /// Compares, and prepares the append.
    async fn stage(&mut self, commit: &Commit) -> Result<Result<Staged, AppendError>, WriteFailure> {
        let row = commit.changes.iter().find_map(|change| match change {
            Change::Session(row) if row.id == commit.session => Some(row),
            _ => None,
        });
        let Some(mut head) = self.head(&commit.session, row).await? else {
            return Ok(Err(AppendError::UnknownSession(commit.session.clone())));
        };
        if commit.events.is_empty() {
            return Ok(Ok(Staged::New(None)));
        }
        if head.last + 1 != commit.expected_next.0 as i64 {
            return self.repeated(commit, head).await;
        }
        let (first, last) = (head.last + 1, head.last + commit.events.len() as i64);
        let blob = Blob {
            id: self.next_blob,
            session: head.number,
            first,
            last,
            previous: head.blob,
            events: pack(&commit.events),
        };
        self.next_blob += 1;
        head = Head { last, blob: blob.id, tail: head.tail + 1, ..head };
        self.heads.insert(commit.session.clone(), head);
        Ok(Ok(Staged::New(Some(blob))))
    }

    /// An append of unknown result that is simply repeated succeeds again.
    async fn repeated(&mut self, commit: &Commit, head: Head) -> Result<Result<Staged, AppendError>, WriteFailure> {
        let actual = Position(head.last as u64);
        if commit.expected_next.0 as i64 > head.last {
            return Ok(Err(AppendError::conflict(commit, actual)));
        }
        let (session, from) = (&commit.session, commit.expected_next);
        let stored = read::events_on(&mut self.connection, session, from, commit.events.len()).await?;
        let same = stored.len() >= commit.events.len() && stored[..commit.events.len()] == commit.events;
        Ok(if same { Ok(Staged::Stored) } else { Err(AppendError::conflict(commit, actual)) })
    }

    /// The head of a session; made with the session's own row if this is its first commit.
    async fn head(&mut self, session: &SessionId, row: Option<&SessionRow>) -> Result<Option<Head>, WriteFailure> {
        if let Some(head) = self.heads.get(session) {
            return Ok(Some(*head));
        }
        let found = sqlx::query(
            "SELECT s.number, h.last, h.blob, h.tail FROM sessions s JOIN heads h ON h.session = s.number WHERE s.id = ?",
        );
        let found = found.bind(session.as_str()).fetch_optional(&mut self.connection).await?;
        let head = match (found, row) {
            (Some(found), _) => {
                Head { number: found.get(0), last: found.get(1), blob: found.get(2), tail: found.get(3) }
            }
            (None, Some(row)) => self.make_session(row).await?,
            (None, None) => return Ok(None),
        };
        self.heads.insert(session.clone(), head);
        Ok(Some(head))
    }

    async fn make_session(&mut self, row: &SessionRow) -> Result<Head, WriteFailure> {
        let insert =
            sqlx::query_scalar("INSERT INTO sessions (id, created_ms, body) VALUES (?, ?, ?) RETURNING number");
        let insert = insert.bind(row.id.as_str()).bind(row.created_ms as i64).bind(serde_json::to_string(row)?);
        let number: i64 = insert.fetch_one(&mut self.connection).await?;
        let head = sqlx::query("INSERT INTO heads (session, last, blob, tail) VALUES (?, 0, 0, 0)").bind(number);
        head.execute(&mut self.connection).await?;
        Ok(Head { number, last: 0, blob: 0, tail: 0 })
    }

    async fn insert_blobs(&mut self, blobs: &[Blob]) -> Result<(), sqlx::Error> {
        for chunk in blobs.chunks(ROWS) {
            let mut insert: QueryBuilder<Sqlite> =
                QueryBuilder::new("INSERT INTO blobs (id, session, first, last, previous, merged, events) ");
            insert.push_values(chunk, |mut row, blob| {
                row.push_bind(blob.id).push_bind(blob.session).push_bind(blob.first).push_bind(blob.last);
                row.push_bind(blob.previous).push("0").push_bind(&blob.events[..]);
            });
            insert.build().persistent(chunk.len() == 1).execute(&mut self.connection).await?;
        }
        Ok(())
    }

    async fn write_heads(&mut self, blobs: &[Blob]) -> Result<(), sqlx::Error> {
        // The newest blob of each session; blobs are in order.
        let newest: HashMap<i64, &Blob> = blobs.iter().map(|blob| (blob.session, blob)).collect();
        let mut grown: HashMap<i64, i64> = HashMap::new();
        blobs.iter().for_each(|blob| *grown.entry(blob.session).or_default() += 1);
        let newest: Vec<&Blob> = newest.into_values().collect();
        for chunk in newest.chunks(ROWS) {
            let mut upsert: QueryBuilder<Sqlite> = QueryBuilder::new("INSERT INTO heads (session, last, blob, tail) ");
            upsert.push_values(chunk, |mut row, blob| {
                row.push_bind(blob.session).push_bind(blob.last).push_bind(blob.id).push_bind(grown[&blob.session]);
            });
            upsert.push(
                " ON CONFLICT (session) DO UPDATE SET last = excluded.last, blob = excluded.blob, tail = tail + excluded.tail",
            );
            upsert.build().persistent(chunk.len() == 1).execute(&mut self.connection).await?;
        }
        Ok(())
    }

    async fn apply(&mut self, change: &Change) -> Result<(), WriteFailure> {
        match change {
            Change::Session(row) => self.session(row).await,
            Change::Native { session, native } => {
                let update = sqlx::query("UPDATE sessions SET native = ? WHERE id = ?");
                self.run(update.bind(serde_json::to_string(native)?).bind(session.as_str())).await
            }
            Change::Task(row) => self.task(row).await,
            Change::Interaction(row) => self.interaction(row).await,
            Change::Runtime(row) => self.runtime(row).await,
            Change::RuntimeGone(id) => {
                self.run(sqlx::query("DELETE FROM runtimes WHERE id = ?").bind(id.as_str())).await?;
                self.run(sqlx::query("DELETE FROM outbox WHERE runtime = ?").bind(id.as_str())).await
            }
            Change::Offset { runtime, offset, discarding } => {
                let update = sqlx::query("UPDATE runtimes SET consumed = ?, discarding = ? WHERE id = ?");
                self.run(update.bind(*offset as i64).bind(*discarding).bind(runtime.as_str())).await
            }
            Change::Snapshot { runtime, bytes } => {
                let update = sqlx::query("UPDATE runtimes SET snapshot = ? WHERE id = ?");
                self.run(update.bind(&bytes[..]).bind(runtime.as_str())).await
            }
            Change::Outbox { runtime, item } => {
                let insert =
                    sqlx::query("INSERT OR REPLACE INTO outbox (runtime, number, ends, bytes) VALUES (?, ?, ?, ?)");
                let ends = item.then == OutboxThen::EndOfInput;
                self.run(insert.bind(runtime.as_str()).bind(item.number as i64).bind(ends).bind(&item.bytes[..])).await
            }
            Change::OutboxConfirmed { runtime, number } => {
                let delete = sqlx::query("DELETE FROM outbox WHERE runtime = ? AND number <= ?");
                self.run(delete.bind(runtime.as_str()).bind(*number as i64)).await
            }
            _ => Ok(()),
        }
    }

    async fn run(
        &mut self,
        query: sqlx::query::Query<'_, Sqlite, sqlx::sqlite::SqliteArguments>,
    ) -> Result<(), WriteFailure> {
        query.execute(&mut self.connection).await?;
        Ok(())
    }

    async fn session(&mut self, row: &SessionRow) -> Result<(), WriteFailure> {
        let update = sqlx::query("UPDATE sessions SET body = ? WHERE id = ?");
        self.run(update.bind(serde_json::to_string(row)?).bind(row.id.as_str())).await
    }

    async fn task(&mut self, row: &TaskRow) -> Result<(), WriteFailure> {
        let insert =
            sqlx::query("INSERT OR REPLACE INTO tasks (id, session, state, created_ms, body) VALUES (?, ?, ?, ?, ?)");
        let insert = insert.bind(row.id.as_str()).bind(row.session.as_str()).bind(row.state.word());
        self.run(insert.bind(row.created_ms as i64).bind(serde_json::to_string(row)?)).await
    }

    async fn interaction(&mut self, row: &InteractionRow) -> Result<(), WriteFailure> {
        let insert = sqlx::query("INSERT OR REPLACE INTO interactions (task, id, body) VALUES (?, ?, ?)");
        let insert = insert.bind(row.task.as_str()).bind(row.request.id.as_str());
        self.run(insert.bind(serde_json::to_string(row)?)).await
    }

    async fn runtime(&mut self, row: &RuntimeRow) -> Result<(), WriteFailure> {
        let upsert = sqlx::query(
            "INSERT INTO runtimes (id, owner, body) VALUES (?, ?, ?)
             ON CONFLICT (id) DO UPDATE SET owner = excluded.owner, body = excluded.body",
        );
        self.run(upsert.bind(row.id.as_str()).bind(row.owner.as_str()).bind(serde_json::to_string(row)?)).await
    }

    /// What is known of the heads no longer holds.
    pub(super) fn forget_heads(&mut self) {
        self.heads.clear();
    }
}

enum Staged {
    New(Option<Blob>),
    Stored,
}
