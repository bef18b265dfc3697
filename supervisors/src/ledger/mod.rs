//! The ledger: facts in one stream per session, and the rows that index them.
//!
//! A [`Commit`] carries what belongs together: events of one session, and the changes of rows (offset, outbox,
//! snapshot, task state) that the same facts caused. It is stored whole or not at all. Appending is
//! compare-and-append: it names the position it expects, so an append of unknown result is simply repeated.
//!
//! Only the journal writes. Readers read from any position and never see a gap: they subscribe first, read history
//! next, and then follow.

mod pack;
mod rows;

use async_trait::async_trait;
use thiserror::Error;

use crate::contract::{Event, InteractionId, OwnerId, Position, RuntimeId, SessionId, TaskId};

pub use pack::{PackError, pack, unpack};
pub use rows::{
    InteractionRow, InteractionState, NativeSession, OutboxItem, OutboxThen, RuntimeRow, RuntimeState, SessionRow,
    SessionState, TaskRow, TaskState,
};

/// What is stored together.
#[derive(Debug, Clone, PartialEq)]
pub struct Commit {
    /// Whose stream.
    pub session: SessionId,
    /// The position of the first event; the stream's next one.
    pub expected_next: Position,
    /// The events, their positions rising by one from `expected_next`. May be empty.
    pub events: Vec<Event>,
    /// The rows that change with them.
    pub changes: Vec<Change>,
}

/// One row's change. Each is idempotent.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Change {
    /// Writes a session; what the harness stored of it is not touched.
    Session(SessionRow),
    /// What the harness itself stored of the session.
    Native {
        /// The session.
        session: SessionId,
        /// What is known of it.
        native: NativeSession,
    },
    /// Writes a task.
    Task(Box<TaskRow>),
    /// Writes an interaction.
    Interaction(InteractionRow),
    /// Writes a runtime; its offset and snapshot are not touched.
    Runtime(RuntimeRow),
    /// The runtime is over and proven empty.
    RuntimeGone(RuntimeId),
    /// Output of the runtime before this offset was turned into facts.
    Offset {
        /// The runtime.
        runtime: RuntimeId,
        /// The end of the last whole frame, or a place inside an over-long one.
        offset: u64,
        /// Whether the offset lies inside a frame whose rest is being discarded.
        discarding: bool,
    },
    /// The adapter's state after those facts.
    Snapshot {
        /// The runtime.
        runtime: RuntimeId,
        /// Versioned bytes of the adapter, at most 8 KiB.
        bytes: Vec<u8>,
    },
    /// A message to the agent, to be sent once this is committed.
    Outbox {
        /// The runtime.
        runtime: RuntimeId,
        /// The message.
        item: OutboxItem,
    },
    /// The keeper accepted the messages up to this number.
    OutboxConfirmed {
        /// The runtime.
        runtime: RuntimeId,
        /// The highest number accepted.
        number: u64,
    },
}

/// How much a commit matters when there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// Refused when the store is full.
    Normal,
    /// May use the reserve: it settles or ends what is running.
    Settlement,
}

/// Why one commit of a batch was not stored. The others are.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AppendError {
    /// The stream is elsewhere: somebody else wrote, or the caller counted wrongly.
    #[error("session {session} is at position {actual}, not where position {expected} would be next")]
    Conflict {
        /// The session.
        session: SessionId,
        /// What the commit expected to be next.
        expected: Position,
        /// The last position stored.
        actual: Position,
    },
    /// No row of this session was ever written.
    #[error("session {0} is not known")]
    UnknownSession(SessionId),
}

impl AppendError {
    /// The error of a commit whose stream is not where it was expected.
    pub fn conflict(commit: &Commit, actual: Position) -> Self {
        Self::Conflict { session: commit.session.clone(), expected: commit.expected_next, actual }
    }
}

/// Why a ledger cannot do what it was asked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// No room on the disk.
    #[error("the ledger is full: free space on its disk, then it goes on by itself")]
    Full,
    /// It has the largest size that was configured for it.
    #[error(
        "the ledger has reached its largest size of {mib} MiB: nothing new is stored before ledger.max_mib is raised \
         and Ostler started again"
    )]
    AtLimit {
        /// That size.
        mib: u64,
    },
    /// Another process holds the lock for longer than the timeout.
    #[error("the ledger is locked by another process; it is tried again")]
    Busy,
    /// Another process makes the file or brings it up to date, for longer than the timeout.
    #[error("another process has been making the ledger, or bringing it up to date, for a while; try again later")]
    Held,
    /// The file was written by a newer Ostler.
    #[error("the ledger {path} has schema version {found}, this Ostler knows up to {known}: use a newer Ostler")]
    Newer {
        /// The file.
        path: String,
        /// Its version.
        found: i64,
        /// The newest version known.
        known: i64,
    },
    /// The file is not a ledger of Ostler.
    #[error("{path} is not an Ostler ledger: {why}; it was left as it is")]
    Foreign {
        /// The file.
        path: String,
        /// What it is instead.
        why: &'static str,
    },
    /// The file is damaged.
    #[error("the ledger {path} is damaged ({what}); it was left as it is")]
    Corrupt {
        /// The file.
        path: String,
        /// Where.
        what: String,
    },
    /// Any other failure of the store.
    #[error("the ledger failed to {doing}")]
    Store {
        /// What it was doing.
        doing: &'static str,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// What a compaction step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Compaction {
    /// Blobs merged away.
    pub removed: u64,
    /// Whether another step may find more to do.
    pub more: bool,
}

/// Where facts are stored. One suite judges every implementation.
///
/// # Cancel safety
///
/// Dropping a future of [`Ledger::commit`] leaves it unknown whether the batch was stored; repeat it.
#[async_trait]
pub trait Ledger: Send + Sync + 'static {
    /// Stores a batch: each commit whole or not at all, in order, durable when this returns.
    ///
    /// A commit that is stored already, event for event, succeeds again. Where there is no room, on the disk or below a
    /// configured size, a settlement has that of the reserve.
    ///
    /// # Errors
    ///
    /// [`LedgerError`] if nothing of the batch was stored; per commit, [`AppendError`].
    async fn commit(&self, batch: &[Commit], urgency: Urgency) -> Result<Vec<Result<(), AppendError>>, LedgerError>;

    /// The last position of a session's stream.
    ///
    /// # Errors
    ///
    /// [`LedgerError`].
    async fn head(&self, session: &SessionId) -> Result<Position, LedgerError>;

    /// Events from this position on, in order and without a gap; at least one if there is one, and then about
    /// `limit` of them.
    ///
    /// # Errors
    ///
    /// [`LedgerError::Corrupt`] where a stored blob is damaged.
    async fn read(&self, session: &SessionId, from: Position, limit: usize) -> Result<Vec<Event>, LedgerError>;

    /// One session.
    ///
    /// # Errors
    ///
    /// [`LedgerError`].
    async fn session(&self, id: &SessionId) -> Result<Option<SessionRow>, LedgerError>;

    /// Every session, newest first.
    ///
    /// # Errors
    ///
    /// [`LedgerError`].
    async fn sessions(&self) -> Result<Vec<SessionRow>, LedgerError>;

    /// One task.
    ///
    /// # Errors
    ///
    /// [`LedgerError`].
    async fn task(&self, id: &TaskId) -> Result<Option<TaskRow>, LedgerError>;

    /// Tasks, newest first: of one session, or of all.
    ///
    /// # Errors
    ///
    /// [`LedgerError`].
    async fn tasks(&self, session: Option<&SessionId>) -> Result<Vec<TaskRow>, LedgerError>;

    /// Tasks without a verdict, oldest first.
    ///
    /// # Errors
    ///
    /// [`LedgerError`].
    async fn unsettled(&self) -> Result<Vec<TaskRow>, LedgerError>;

    /// Every interaction of a task.
    ///
    /// # Errors
    ///
    /// [`LedgerError`].
    async fn interactions(&self, task: &TaskId) -> Result<Vec<InteractionRow>, LedgerError>;

    /// One interaction.
    ///
    /// # Errors
    ///
    /// [`LedgerError`].
    async fn interaction(&self, task: &TaskId, id: &InteractionId) -> Result<Option<InteractionRow>, LedgerError> {
        Ok(self.interactions(task).await?.into_iter().find(|row| row.request.id == *id))
    }

    /// Every runtime that is not gone: of one owner, or of all.
    ///
    /// # Errors
    ///
    /// [`LedgerError`].
    async fn runtimes(&self, owner: Option<&OwnerId>) -> Result<Vec<RuntimeState>, LedgerError>;

    /// The messages of a runtime that its keeper has not confirmed, in order.
    ///
    /// # Errors
    ///
    /// [`LedgerError`].
    async fn outbox(&self, runtime: &RuntimeId) -> Result<Vec<OutboxItem>, LedgerError>;

    /// One bounded step of merging long chains of small blobs.
    ///
    /// # Errors
    ///
    /// [`LedgerError`].
    async fn compact(&self) -> Result<Compaction, LedgerError>;

    /// Ends every use of the store; what was committed stays.
    async fn close(&self);
}
