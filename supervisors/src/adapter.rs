//! The trait by which one kind of harness is spoken to.
//!
//! An adapter is a machine without I/O: frames and orders in, facts and messages out, timers by request. It never
//! touches a process, a clock or a channel, so a capture of a real harness is its test and a fuzzer its enemy. Its
//! state can be taken as a small versioned snapshot and restored from one, so that a turn survives the daemon.

mod answer;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::capability::Capabilities;
use crate::contract::{
    AgentUsage, ClearReason, Delegation, EffectKind, FailureKind, InteractionId, InteractionRequest,
    InteractionResponse, MessageId, MessageRole, NativeId, RateLimit, SessionSpec, StopReason, TaskId, WarningKind,
    WorkId, WorkStatus,
};
use crate::ledger::OutboxThen;

pub use answer::Answer;

/// The largest snapshot an adapter may have, in bytes.
pub const MAX_SNAPSHOT: usize = 8 * 1024;

/// One frame of an agent's output, as the framer cut it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A whole line without its end; valid UTF-8.
    Line(&'a str),
    /// A line that is not UTF-8.
    InvalidUtf8 {
        /// How long it was.
        bytes: u64,
    },
    /// A line longer than the cap; it was dropped.
    TooLong {
        /// How long it was.
        bytes: u64,
    },
    /// The output ended inside a line. It is never read as a whole one.
    Incomplete {
        /// What there was of it, where it is UTF-8.
        text: &'a str,
    },
}

/// What an adapter is told.
#[derive(Debug, Clone, Copy)]
pub enum Told<'a> {
    /// The agent's program runs; its output may already have begun.
    Started,
    /// One frame of its standard output.
    Frame(Frame<'a>),
    /// Its standard output was read to its end.
    OutputEnded,
    /// Work is delegated; at most one task at a time, and only after [`Fact::Ready`].
    Submit {
        /// The task.
        task: &'a TaskId,
        /// What is asked.
        delegation: &'a Delegation,
    },
    /// The running task is to be interrupted.
    Interrupt,
    /// An open request is answered.
    Respond {
        /// Which.
        interaction: &'a InteractionId,
        /// How.
        response: &'a InteractionResponse,
    },
}

/// Whether an agent is started for one task or for a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifetime {
    /// The program is the task: it starts with the prompt and ends with it.
    Task,
    /// The program serves many tasks of one session.
    Session,
}

/// How an agent's program is to be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// Arguments after those of the recipe.
    pub arguments: Vec<String>,
}

/// A message to the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its bytes, the end of the line included.
    pub bytes: Vec<u8>,
    /// What follows it.
    pub then: OutboxThen,
}

/// How an agent reported the end of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "report")]
pub enum EndReport {
    /// It ended with a result.
    Completed {
        /// Why it stopped.
        stop_reason: StopReason,
    },
    /// It failed.
    Failed {
        /// Its kind.
        kind: FailureKind,
        /// What it said.
        message: String,
    },
    /// It was interrupted.
    Interrupted,
    /// It ended in a way the adapter does not know.
    Unknown {
        /// What it said.
        status: String,
    },
}

/// What an adapter found out. Order is the order of the frames.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fact {
    /// The agent takes tasks now.
    Ready,
    /// The agent cannot be brought to take tasks.
    NotReady {
        /// Why, for a person.
        message: String,
    },
    /// The harness no longer has the session that was to be resumed; this agent takes no tasks.
    NativeLost {
        /// What it said.
        message: String,
    },
    /// The harness has this session.
    NativeSession {
        /// Its own id.
        id: NativeId,
        /// Whether it has shown that it stored it.
        stored: bool,
    },
    /// The agent confirmed that it took the task.
    Accepted,
    /// The agent said explicitly that it did not take the task.
    NotAccepted {
        /// What it said.
        message: String,
    },
    /// Progress has begun.
    Began,
    /// A fragment of a message.
    MessageDelta {
        /// Which message.
        message: MessageId,
        /// For whom.
        role: MessageRole,
        /// The fragment.
        text: String,
    },
    /// The whole text of a message; not to be appended to its fragments.
    MessageCompleted {
        /// Which message.
        message: MessageId,
        /// For whom.
        role: MessageRole,
        /// The text.
        text: String,
    },
    /// A named tool run.
    Tool {
        /// Which work.
        work: WorkId,
        /// The tool's name.
        name: String,
        /// Where it stands.
        status: WorkStatus,
        /// Its arguments, in the vendor's shape.
        arguments: Option<String>,
        /// Its result or error, in the vendor's shape.
        result: Option<String>,
    },
    /// An external effect.
    Effect {
        /// Which work.
        work: WorkId,
        /// Its kind.
        kind: EffectKind,
        /// Where it stands.
        status: WorkStatus,
        /// The command, the query, the reason.
        description: Option<String>,
        /// What it printed so far, or in all.
        output: Option<String>,
        /// The exit code of a command.
        exit_code: Option<i32>,
        /// Paths known to have changed.
        paths: Vec<String>,
    },
    /// A request opened.
    Asked(InteractionRequest),
    /// The agent confirmed that it took the answer.
    AnswerConfirmed(InteractionId),
    /// A request closed without our answer.
    Withdrawn(InteractionId, ClearReason),
    /// Cumulative usage; replaces what was said before.
    Usage {
        /// Of the task.
        task: AgentUsage,
        /// Of the session.
        session: Option<AgentUsage>,
    },
    /// Something to fix while the requirements still hold.
    Warning {
        /// What it is about.
        kind: WarningKind,
        /// What it says.
        message: String,
    },
    /// The provider takes no more for now: why a failure that follows came.
    RateLimited(RateLimit),
    /// How much work of the task the protocol shows open.
    OpenWork(usize),
    /// The task's end, as the agent reports it.
    End(EndReport),
    /// A frame that is no message of the protocol.
    Noise {
        /// What it was, in a few words.
        what: String,
    },
    /// An event of the agent's own, for harnesses that speak in events.
    Event {
        /// Its type, already normalised.
        kind: crate::contract::EventKind,
        /// Its payload: a JSON object.
        data: serde_json::Value,
    },
}

/// Frames by what became of them; the sum is the number of frames read (rules 13).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FrameCounts {
    /// Became facts, or were answers that the adapter waited for.
    pub mapped: u64,
    /// Of no meaning here; only their kind was noted.
    pub noted: u64,
    /// Dropped by a redundancy rule.
    pub redundant: u64,
}

/// A snapshot that this build cannot restore.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the adapter's snapshot cannot be restored: {0}")]
pub struct SnapshotError(pub String);

/// One agent's side of a protocol.
pub trait Adapter: Send {
    /// Takes what happened, and says what follows from it.
    fn tell(&mut self, told: Told<'_>, answer: &mut Answer);

    /// Whether the agent takes a task now; false from before [`Fact::Ready`], and true from then on.
    fn is_ready(&self) -> bool;

    /// The state, versioned, without any output text; at most [`MAX_SNAPSHOT`] bytes.
    fn snapshot(&self) -> Vec<u8>;

    /// What became of the frames so far.
    fn counts(&self) -> FrameCounts;
}

/// How a native interrupt works, if there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterruptMode {
    /// By a message of the protocol.
    Native,
    /// There is none: the tree is stopped.
    None,
}

/// What a session is opened with.
#[derive(Debug, Clone, Copy)]
pub struct OpenContext<'a> {
    /// The session's configuration.
    pub spec: &'a SessionSpec,
    /// The harness's own session to resume.
    pub resume: Option<&'a NativeId>,
    /// The task it is opened for, where the program is the task.
    pub task: Option<(&'a TaskId, &'a Delegation)>,
}

/// What a new process has of the session it goes on with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResumeKind {
    /// All of it: the harness read its own store.
    ExactResume,
    /// What was said, told to it again.
    ContextReplay,
    /// Nothing.
    FreshSession,
}

impl ResumeKind {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::ExactResume => "exact-resume",
            Self::ContextReplay => "context-replay",
            Self::FreshSession => "fresh-session",
        }
    }
}

/// A kind of adapter: makes and restores machines for agents.
pub trait AdapterKind: Send + Sync {
    /// Whether a program serves one task or a session.
    fn lifetime(&self) -> Lifetime;

    /// What it can do at most. A harness may be configured to less.
    fn capabilities(&self) -> Capabilities;

    /// How a program is started.
    fn start(&self, context: OpenContext<'_>) -> Start;

    /// What its resume restores.
    fn resume_kind(&self) -> ResumeKind {
        ResumeKind::ExactResume
    }

    /// Why a program with this command line cannot be given this prompt, if it cannot; for a person.
    fn refuses(&self, prompt: &str, command: &[String]) -> Option<&'static str> {
        let _any = (prompt, command);
        None
    }

    /// A machine for a fresh program.
    fn open(&self, context: OpenContext<'_>) -> Box<dyn Adapter>;

    /// The machine of a program that has been running.
    ///
    /// # Errors
    ///
    /// [`SnapshotError`] for bytes of another version; the runtime is then stopped.
    fn restore(&self, snapshot: &[u8]) -> Result<Box<dyn Adapter>, SnapshotError>;
}
