//! One logical context: claims, starts, serialises, blocks, closes.

mod accept;
mod begin;
mod block;
mod close;
mod idle;
mod news;
mod refusal;
mod tasks;
mod unused;

use std::collections::HashMap;
use std::sync::Arc;

use actix::prelude::*;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::sync::oneshot;

use super::guard::{ChildExited, ExitGuard};
use super::opens::StartRefused;
use super::runtime::{Order, Runtime, TreeEnd};
use super::sessions::Sessions;
use super::system::Env;
use super::task::{LetGo, Task};
use crate::contract::{CancelCause, Delegation, InteractionId, InteractionResponse, RuntimeId, SessionId, TaskId};
use crate::file_lock::LockError;
use crate::harness::{Harness, HarnessError};
use crate::ledger::{AppendError, LedgerError, NativeSession, SessionRow, TaskRow};
use crate::machines::Millis;
use crate::machines::close::Close;
use crate::machines::context::{Context as ContextMachine, ContextError};

pub(super) use begin::{Found, FoundRuntime, Load, last_task};
pub use refusal::{Refusal, RefusalReason};

/// Why a session does not do what it is asked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SessionError {
    /// Its context takes no task.
    #[error(transparent)]
    Context(#[from] ContextError),
    /// No harness of that name, or it fails all the time.
    #[error(transparent)]
    Harness(#[from] HarnessError),
    /// There is no room for another start.
    #[error(transparent)]
    NoRoom(#[from] StartRefused),
    /// There is no such session.
    #[error("session {0} is not known; `ostler session list` shows those that are")]
    UnknownSession(SessionId),
    /// There is no such task.
    #[error("task {0} is not known; `ostler task list` shows those that are")]
    UnknownTask(TaskId),
    /// Another live process has the session.
    #[error("session {session} belongs to another running Ostler ({owner}); use it through that one")]
    Foreign {
        /// The session.
        session: SessionId,
        /// Its owner.
        owner: String,
    },
    /// It is a daemon's, which is gone; its work may go on meanwhile.
    #[error(
        "session {0} waits for its daemon: `ostler serve` goes on with it; or close it with `ostler session close {0}`"
    )]
    Awaited(SessionId),
    /// The ledger takes nothing new.
    #[error("nothing new is accepted: {0}")]
    Stalled(String),
    /// Another process is at taking over what earlier owners left, and does not get on with it.
    #[error("what earlier owners left cannot be taken over now; try again later")]
    NotTakenOver(#[from] LockError),
    /// The ledger has not taken everything that it was given.
    #[error("what was said last is not stored: {0}")]
    NotStored(String),
    /// Processes of it outlive every signal, or cannot be reached.
    #[error(
        "session {0} is not closed: processes of it outlive every signal, or cannot be reached; they are watched on, so \
         try again later"
    )]
    NotClosed(SessionId),
    /// What ran in it is being ended.
    #[error("what ran in session {0} is being ended; try again in a moment")]
    Ending(SessionId),
    /// Ostler is shutting down.
    #[error("nothing new is accepted: Ostler is shutting down")]
    Draining,
    /// The ledger cannot be read.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The id of a task is that of another one.
    #[error("task {0} is another one already; make a new id")]
    TaskTaken(TaskId),
    /// The prompt is longer than any agent is given.
    #[error("the prompt has {bytes} bytes; at most {most} are taken")]
    PromptTooLong {
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        most: usize,
    },
    /// Another model needs another process, and the harness could not go on from its own store in it.
    #[error("session {0} cannot change its model: its harness has stored nothing of it yet; start a new session")]
    ModelFixed(SessionId),
    /// The harness cannot be given this prompt.
    #[error("the prompt is not taken: {0}")]
    PromptUnfit(&'static str),
    /// The ledger refused what was to be stored.
    #[error(transparent)]
    Refused(#[from] AppendError),
    /// An actor ended while it was asked; its supervisor restarts it.
    #[error("the session's supervisor was interrupted; try again")]
    Interrupted,
}

/// How an answer to an interaction went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskAnswer {
    /// The agent took it.
    Accepted,
    /// It is proven undelivered, and may be given again.
    NotDelivered,
    /// Nobody knows whether it was taken; it cannot be given again.
    Unconfirmed,
    /// There is no such open request, or the answer does not fit it.
    Refused,
}

/// Whom a session supervises.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum SessionChild {
    Task(TaskId),
    Runtime(RuntimeId),
}

/// What a runtime has to say about itself.
#[derive(Debug)]
pub(super) enum RuntimeNews {
    Ready,
    NotReady(String),
    /// The harness no longer has what was to be resumed.
    NativeLost(String),
    NotStarted,
    Native(NativeSession),
    /// Its keeper was attached to; whether the agent takes tasks.
    Adopted {
        ready: bool,
    },
    /// The task that was let go of has handed on everything.
    Free,
    Exited,
    /// Its tree is being ended.
    Stopping,
    /// Processes of it outlive every signal, or cannot be reached.
    Leaked,
    /// Nothing more comes of it, and its row is gone.
    Over(TreeEnd),
}

#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct FromRuntime {
    pub(super) runtime: RuntimeId,
    pub(super) news: RuntimeNews,
}

/// The runtime that a task was given to had ended before: it waits for another.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct TaskNotTaken(pub(super) TaskId);

/// A task has its verdict, and it is stored.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct TaskSettled {
    pub(super) row: Box<TaskRow>,
}

/// Delegates work; answers once the task's row is committed. The same again is the same task.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct StartTask {
    pub(super) task: TaskId,
    pub(super) delegation: Delegation,
    pub(super) reply: Starter,
}

/// Who is told that a task was accepted.
pub(super) type Starter = oneshot::Sender<Result<(), SessionError>>;

/// Waits for a verdict.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Wait {
    pub(super) task: TaskId,
    pub(super) reply: oneshot::Sender<Result<TaskRow, SessionError>>,
}

/// Cancels a task; answers once the request is in force.
#[derive(Message)]
#[rtype(result = "Result<(), SessionError>")]
pub(super) struct CancelTask {
    pub(super) task: TaskId,
    pub(super) cause: CancelCause,
}

/// Answers a request of a task.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Answer {
    pub(super) task: TaskId,
    pub(super) interaction: InteractionId,
    pub(super) response: InteractionResponse,
    pub(super) reply: oneshot::Sender<TaskAnswer>,
}

/// Ends everything of the session; answers when the kernel has confirmed it.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct CloseSession {
    pub(super) mode: CloseMode,
    pub(super) reply: close::Closer,
}

/// What a close is to the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CloseMode {
    /// The session takes no further task, ever.
    Session,
    /// Its runtime ends; the session can be used again later.
    Runtime(CancelCause),
    /// The same, unless somebody has begun to use it.
    Unused,
}

/// What a session is doing now.
#[derive(Message)]
#[rtype(result = "super::sessions::TreeRow")]
pub(super) struct Describe;

struct ActiveTask {
    id: TaskId,
    actor: Addr<Task>,
    waiters: Vec<oneshot::Sender<Result<TaskRow, SessionError>>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RuntimeState {
    Starting,
    Ready,
    /// It has still facts of the last task to hand on.
    Leaving,
    Ending,
}

struct ActiveRuntime {
    id: RuntimeId,
    actor: Addr<Runtime>,
    state: RuntimeState,
    ready_timer: Option<SpawnHandle>,
}

/// The actor of one session.
pub(super) struct Session {
    env: Arc<Env>,
    row: SessionRow,
    harness: Arc<Harness>,
    context: ContextMachine,
    task: Option<ActiveTask>,
    /// Who asked for tasks that are being accepted, and what for.
    accepting: HashMap<TaskId, (Delegation, Vec<Starter>)>,
    /// Whether the active task was submitted when it was taken up; a fresh one is not.
    task_was_submitted: bool,
    /// Who had requested its cancel before its row was committed.
    task_cancel: Option<CancelCause>,
    /// Processes older than this are none of the active task's.
    task_since: Millis,
    /// What the program is started with, where the program is the task.
    task_request: Option<(TaskId, Delegation)>,
    runtime: Option<ActiveRuntime>,
    /// Places that were asked for, by tasks that may be over by now.
    acquiring: usize,
    /// Processes that the last task left running on purpose.
    left_running: Vec<i32>,
    /// Runs while the runtime has no work.
    idle_timer: Option<idle::IdleTimer>,
    found: Option<Found>,
    close: Close<u64>,
    closers: Vec<(u64, close::Closer)>,
    /// Why whoever is being closed is cancelled.
    close_cause: CancelCause,
    /// Who is told when the last event is stored, while it is being stored.
    storing_close: Option<Vec<u64>>,
    next_closer: u64,
    sessions: Addr<Sessions>,
    presence: unused::Presence,
    guard: ExitGuard<SessionId>,
}

impl Session {
    pub(super) fn new(env: Arc<Env>, found: Found, sessions: Addr<Sessions>, guard: ExitGuard<SessionId>) -> Self {
        Self {
            harness: env
                .harness(&found.row.harness)
                .unwrap_or_else(|| Arc::new(crate::unconfigured::harness(found.row.harness.clone()))),
            env,
            row: found.row.clone(),
            context: found.context(),
            task: None,
            accepting: HashMap::new(),
            task_was_submitted: false,
            task_cancel: None,
            task_since: Millis(0),
            task_request: None,
            runtime: None,
            acquiring: 0,
            left_running: found.left_running(),
            idle_timer: None,
            found: Some(found),
            close: Close::Open,
            closers: Vec::new(),
            close_cause: CancelCause::Requested,
            storing_close: None,
            next_closer: 0,
            sessions,
            presence: unused::Presence::Here,
            guard,
        }
    }
}

impl Session {
    /// Whether its harness is configured no more.
    fn is_unconfigured(&self) -> bool {
        self.env.harness(&self.row.harness).is_none()
    }
}

impl Actor for Session {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        if let Some(found) = self.found.take() {
            self.take_up(found, ctx);
        }
        self.perhaps_unused(ctx);
    }
}

/// Its children go with it: what they knew is in the ledger, and the rebuilt session starts its own.
impl Drop for Session {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.actor.do_send(LetGo { runtime: None });
        }
        if let Some(runtime) = &self.runtime {
            runtime.actor.do_send(Order::LetGo);
        }
    }
}

impl Handler<ChildExited<SessionChild>> for Session {
    type Result = ();

    fn handle(&mut self, exited: ChildExited<SessionChild>, ctx: &mut Self::Context) {
        if exited.reason.is_orderly() {
            return;
        }
        // Neither is ever restarted alone: what they knew is in the ledger, and the session is rebuilt from it.
        tracing::error!(session = %self.row.id, child = ?exited.key, reason = ?exited.reason, "a child ended unexpectedly");
        ctx.stop();
    }
}

impl Handler<Describe> for Session {
    type Result = MessageResult<Describe>;

    fn handle(&mut self, _: Describe, _: &mut Self::Context) -> Self::Result {
        MessageResult(super::sessions::TreeRow {
            session: self.row.id.clone(),
            harness: self.row.harness.clone(),
            task: self.task.as_ref().map(|task| task.id.clone()),
            runtime: self.runtime.as_ref().map(|runtime| runtime.id.clone()),
            state: match (&self.task, &self.runtime) {
                (Some(_), _) => "busy",
                (None, Some(_)) => "idle",
                (None, None) => "hibernated",
            }
            .to_owned(),
            hibernates_in_ms: self.idle_timer.as_ref().map(idle::IdleTimer::left_ms),
        })
    }
}
