//! The embedded default: SQLite in WAL mode, fully synchronous, one writer connection, group commit.

mod compact;
mod error;
mod file;
mod limit;
mod read;
mod reserve;
mod write;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use ostler_supervisors::contract::{Event, OwnerId, Position, RuntimeId, SessionId, TaskId};
use ostler_supervisors::ledger::{
    AppendError, Commit, Compaction, InteractionRow, Ledger, LedgerError, OutboxItem, RuntimeState, SessionRow,
    TaskRow, Urgency,
};
use sqlx::ConnectOptions;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use tokio::sync::Mutex;

use limit::{Room, SizeLimit};
use reserve::Reserve;
use write::Writer;

/// How a SQLite ledger is opened.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    /// The database file; its folder exists.
    pub path: PathBuf,
    /// How long another process may hold the lock before [`LedgerError::Busy`].
    pub busy_timeout: Duration,
    /// The largest size of the file, in pages of 4 KiB; `None` for the disk's.
    pub max_pages: Option<u32>,
    /// The size of the reserve that lets running tasks settle, in bytes: on a full disk, and beyond the largest size.
    pub reserve_bytes: u64,
}

impl SqliteOptions {
    /// The defaults for a file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), busy_timeout: Duration::from_secs(5), max_pages: None, reserve_bytes: 4 << 20 }
    }
}

/// Bytes written to the WAL between two checkpoints.
const CHECKPOINT_EVERY: u64 = 8 << 20;

/// A ledger in one SQLite file.
pub struct SqliteLedger {
    path: PathBuf,
    writer: Mutex<Writer>,
    readers: SqlitePool,
    maintenance: Mutex<SqliteConnection>,
    reserve: Reserve,
    since_checkpoint: AtomicU64,
}

impl SqliteLedger {
    /// Opens or creates the file, and brings its schema up to date.
    ///
    /// # Errors
    ///
    /// [`LedgerError::Foreign`], [`LedgerError::Newer`] or [`LedgerError::Corrupt`] for a file that is not to be
    /// touched, and is not; [`LedgerError::Held`], [`LedgerError::Busy`], [`LedgerError::Full`].
    pub async fn open(options: SqliteOptions) -> Result<Self, LedgerError> {
        let _alone = file::lock(&options.path, options.busy_timeout).await?;
        if file::check(&options.path)? == file::Found::Nothing {
            file::create(&options.path, options.busy_timeout).await?;
        }
        let wrap = |doing| error::mapper(&options.path, doing);
        let base = connect_options(&options);
        let mut writer = base.connect().await.map_err(wrap("open"))?;
        file::migrate(&mut writer, &options.path).await?;
        let limit = match options.max_pages {
            Some(pages) => {
                let limit = SizeLimit::set(&mut writer, pages, options.reserve_bytes).await;
                Some(limit.map_err(wrap("limit its size"))?)
            }
            None => None,
        };
        let maintenance = base.connect().await.map_err(wrap("open"))?;
        let readers = SqlitePoolOptions::new().max_connections(4).min_connections(0);
        let readers = readers.connect_lazy_with(reader_options(&options));
        Ok(Self {
            reserve: Reserve::make(&options.path, options.reserve_bytes),
            path: options.path,
            writer: Mutex::new(Writer::new(writer, limit)),
            readers,
            maintenance: Mutex::new(maintenance),
            since_checkpoint: AtomicU64::new(0),
        })
    }

    fn wrap(&self, doing: &'static str) -> impl Fn(sqlx::Error) -> LedgerError + use<'_> {
        error::mapper(&self.path, doing)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    async fn commit_once(&self, batch: &[Commit], room: Room) -> Result<Vec<Result<(), AppendError>>, LedgerError> {
        let mut writer = self.writer.lock().await;
        writer.give(room).await.map_err(self.wrap("set its largest size"))?;
        let done = match writer.commit(batch).await {
            Ok(done) => done,
            Err(failure) => return Err(writer.refused(failure, &self.path).await),
        };
        drop(writer);
        self.since_checkpoint.fetch_add(done.bytes, Ordering::Relaxed);
        Ok(done.results)
    }

    /// Moves the WAL into the file, apart from the writer; what readers still need stays.
    async fn checkpoint(&self) -> Result<(), LedgerError> {
        let Ok(mut connection) = self.maintenance.try_lock() else { return Ok(()) };
        self.since_checkpoint.store(0, Ordering::Relaxed);
        let checkpoint = sqlx::query("PRAGMA wal_checkpoint(PASSIVE)").execute(&mut *connection).await;
        checkpoint.map(drop).map_err(self.wrap("checkpoint"))
    }
}

fn reader_options(options: &SqliteOptions) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(&options.path)
        .read_only(true)
        .busy_timeout(options.busy_timeout)
        .disable_statement_logging()
}

fn connect_options(options: &SqliteOptions) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(&options.path)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(options.busy_timeout)
        .pragma("wal_autocheckpoint", "0")
        .pragma("journal_size_limit", "67108864")
        .disable_statement_logging()
}

#[async_trait]
impl Ledger for SqliteLedger {
    async fn commit(&self, batch: &[Commit], urgency: Urgency) -> Result<Vec<Result<(), AppendError>>, LedgerError> {
        let mut result = self.commit_once(batch, Room::Usual).await;
        if urgency == Urgency::Settlement {
            if matches!(result, Err(LedgerError::AtLimit { .. })) {
                result = self.commit_once(batch, Room::WithReserve).await;
            }
            if matches!(result, Err(LedgerError::Full)) && self.reserve.release() {
                result = self.commit_once(batch, Room::WithReserve).await;
            }
        }
        if self.since_checkpoint.load(Ordering::Relaxed) > CHECKPOINT_EVERY {
            if let Err(error) = self.checkpoint().await {
                tracing::warn!(%error, "the ledger's log was not moved into its file; tried again later");
            }
            self.reserve.restore();
        }
        result
    }

    async fn head(&self, session: &SessionId) -> Result<Position, LedgerError> {
        read::head(&self.readers, session).await.map_err(self.wrap("read a head"))
    }

    async fn read(&self, session: &SessionId, from: Position, limit: usize) -> Result<Vec<Event>, LedgerError> {
        read::events(&self.readers, &self.path, session, from, limit).await
    }

    async fn session(&self, id: &SessionId) -> Result<Option<SessionRow>, LedgerError> {
        let query = sqlx::query("SELECT body, native FROM sessions WHERE id = ?").bind(id.as_str());
        Ok(read::sessions(&self.readers, &self.path, query).await?.pop())
    }

    async fn sessions(&self) -> Result<Vec<SessionRow>, LedgerError> {
        let query = sqlx::query("SELECT body, native FROM sessions ORDER BY created_ms DESC, number DESC");
        read::sessions(&self.readers, &self.path, query).await
    }

    async fn task(&self, id: &TaskId) -> Result<Option<TaskRow>, LedgerError> {
        let query = sqlx::query_scalar("SELECT body FROM tasks WHERE id = ?").bind(id.as_str());
        read::one(&self.readers, &self.path, query).await
    }

    async fn tasks(&self, session: Option<&SessionId>) -> Result<Vec<TaskRow>, LedgerError> {
        let query = match session {
            Some(session) => sqlx::query_scalar("SELECT body FROM tasks WHERE session = ? ORDER BY created_ms DESC")
                .bind(session.as_str()),
            None => sqlx::query_scalar("SELECT body FROM tasks ORDER BY created_ms DESC"),
        };
        read::all(&self.readers, &self.path, query).await
    }

    async fn unsettled(&self) -> Result<Vec<TaskRow>, LedgerError> {
        let query = sqlx::query_scalar("SELECT body FROM tasks WHERE state <> 'settled' ORDER BY created_ms");
        read::all(&self.readers, &self.path, query).await
    }

    async fn interactions(&self, task: &TaskId) -> Result<Vec<InteractionRow>, LedgerError> {
        let query = sqlx::query_scalar("SELECT body FROM interactions WHERE task = ? ORDER BY id").bind(task.as_str());
        read::all(&self.readers, &self.path, query).await
    }

    async fn runtimes(&self, owner: Option<&OwnerId>) -> Result<Vec<RuntimeState>, LedgerError> {
        read::runtimes(&self.readers, &self.path, owner).await
    }

    async fn outbox(&self, runtime: &RuntimeId) -> Result<Vec<OutboxItem>, LedgerError> {
        read::outbox(&self.readers, runtime).await.map_err(self.wrap("read an outbox"))
    }

    async fn compact(&self) -> Result<Compaction, LedgerError> {
        let mut writer = self.writer.lock().await;
        let done = match writer.compact().await {
            Ok(done) => done,
            Err(failure) => return Err(writer.refused(failure, &self.path).await),
        };
        drop(writer);
        self.checkpoint().await?;
        Ok(done)
    }

    async fn close(&self) {
        self.readers.close().await;
        if let Err(error) = self.checkpoint().await {
            tracing::warn!(%error, "the ledger's log stays beside its file until the next start");
        }
    }
}
