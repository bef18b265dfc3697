//! One Ostler process: its tree, and the handle by which every door speaks to it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use actix::prelude::*;
use serde_json::json;
use thiserror::Error;
use tokio::sync::{oneshot, watch};

use super::claim::Purpose;
use super::harnesses::{Configured, Harnesses, Replaced};
use super::hub::{Hub, Reader};
use super::journal::{Draft, Flush, FlushOf, Journal, JournalState, Store};
use super::opens::{DescribeStarts, DismissSpares, OpenLimits, Opens, Starts};
use super::reaper::{Reap, Reaped};
use super::render;
use super::root::{Root, Services};
use super::session::{
    Answer, CancelTask, CloseMode, CloseSession, Load, Session, SessionError, StartTask, TaskAnswer, Wait,
};
use super::sessions::{self, All, DescribeAll, Find, Loaded, TreeRow};
use super::stall;
use crate::contract::event::kinds;
use crate::contract::{
    CancelCause, Delegation, HarnessId, InteractionId, InteractionResponse, OwnerId, Position, SessionId, SessionSpec,
    TaskId,
};
use crate::framer::Budget;
use crate::harness::{Harness, HarnessError};
use crate::keeper::{KeeperProgram, Keepers};
use crate::ledger::{Change, Ledger, TaskRow};
use crate::machines::task::StrayPolicy;
use crate::memory::MemorySource;
use crate::owners::Owners;

pub use crate::owners::OwnerKind;

/// What a process is configured with.
pub struct Config {
    /// Where facts are stored.
    pub ledger: Arc<dyn Ledger>,
    /// Who owns what; holds this process's own lock.
    pub owners: Owners,
    /// Where runtimes' folders are.
    pub runs: PathBuf,
    /// How keepers are started.
    pub keeper: KeeperProgram,
    /// The configured harnesses.
    pub harnesses: Vec<Harness>,
    /// The file in which the next process finds how the harnesses stand, if it is to.
    pub health: Option<PathBuf>,
    /// Limits of starts.
    pub limits: OpenLimits,
    /// Where the kernel says how much memory is left.
    pub memory: MemorySource,
    /// How long a keeper waits for an owner.
    pub orphan_grace: Duration,
    /// Where control group leaves can be made.
    pub leaf_parent: Option<PathBuf>,
    /// What becomes of processes that finished tasks left.
    pub strays: StrayPolicy,
    /// Bytes of lines under assembly, over all runtimes.
    pub frame_budget: usize,
    /// The file mode mask of agents.
    pub umask: u32,
}

/// Why a process cannot start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// The tree did not come up.
    #[error("the supervision tree did not come up")]
    Tree,
}

/// What a shutdown may take beside the budget of the harnesses' ladders.
const SLACK: Duration = Duration::from_secs(5);

/// How long keepers whose trees are gone may take to be gone themselves.
const REAPED: Duration = Duration::from_secs(2);

/// What the root makes its children of.
pub(super) struct Parts {
    pub(super) ledger: Arc<dyn Ledger>,
    pub(super) hub: Arc<Hub>,
    pub(super) state: watch::Sender<JournalState>,
    pub(super) harnesses: Configured,
    pub(super) health: Option<PathBuf>,
    pub(super) limits: OpenLimits,
    pub(super) memory: MemorySource,
    owners: Arc<Owners>,
    runs: PathBuf,
    pub(super) keepers: Keepers,
    orphan_grace: Duration,
    leaf_parent: Option<PathBuf>,
    strays: StrayPolicy,
    frames: Arc<Budget>,
    umask: u32,
    draining: Arc<AtomicBool>,
}

impl Parts {
    pub(super) fn environment(&self, journal: Addr<Journal>, opens: Addr<Opens>, harnesses: Addr<Harnesses>) -> Env {
        Env {
            ledger: self.ledger.clone(),
            journal,
            journal_state: self.state.subscribe(),
            opens,
            harnesses,
            configured: self.harnesses.clone(),
            owner: self.owners.own().clone(),
            kind: self.owners.kind(),
            owners: self.owners.clone(),
            runs: self.runs.clone(),
            keepers: self.keepers.clone(),
            orphan_grace: self.orphan_grace,
            leaf_parent: self.leaf_parent.clone(),
            strays: self.strays,
            frames: self.frames.clone(),
            umask: self.umask,
            draining: self.draining.clone(),
        }
    }
}

/// What every actor below the root has at hand.
pub(super) struct Env {
    pub(super) ledger: Arc<dyn Ledger>,
    pub(super) journal: Addr<Journal>,
    pub(super) journal_state: watch::Receiver<JournalState>,
    pub(super) opens: Addr<Opens>,
    pub(super) harnesses: Addr<Harnesses>,
    configured: Configured,
    pub(super) owner: OwnerId,
    pub(super) kind: OwnerKind,
    pub(super) owners: Arc<Owners>,
    pub(super) runs: PathBuf,
    pub(super) keepers: Keepers,
    pub(super) orphan_grace: Duration,
    pub(super) leaf_parent: Option<PathBuf>,
    pub(super) strays: StrayPolicy,
    pub(super) frames: Arc<Budget>,
    pub(super) umask: u32,
    /// Everything is being closed: nothing new is accepted.
    pub(super) draining: Arc<AtomicBool>,
}

impl Env {
    pub(super) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }

    /// A configured harness.
    pub(super) fn harness(&self, id: &HarnessId) -> Option<Arc<Harness>> {
        self.configured.get(id)
    }
}

/// A handle on one process's tree. All doors use it, and none has logic of its own about tasks.
#[derive(Clone)]
pub struct System {
    services: watch::Receiver<Option<Services>>,
    state: watch::Receiver<JournalState>,
    ledger: Arc<dyn Ledger>,
    hub: Arc<Hub>,
    harnesses: Configured,
}

impl System {
    /// Starts the tree. Needs a running actix system.
    ///
    /// # Errors
    ///
    /// [`StartError`].
    pub async fn start(config: Config) -> Result<Self, StartError> {
        let (state, state_seen) = watch::channel(JournalState::Writing);
        let (services, mut services_seen) = watch::channel(None);
        let hub = Arc::new(Hub::default());
        let harnesses = Configured::default();
        harnesses.replace(config.harnesses);
        let parts = Parts {
            ledger: config.ledger.clone(),
            hub: hub.clone(),
            state,
            harnesses: harnesses.clone(),
            health: config.health,
            limits: config.limits,
            memory: config.memory,
            owners: Arc::new(config.owners),
            runs: config.runs,
            keepers: Keepers::new(config.keeper),
            orphan_grace: config.orphan_grace,
            leaf_parent: config.leaf_parent,
            strays: config.strays,
            frames: Budget::new(config.frame_budget),
            umask: config.umask,
            draining: Arc::default(),
        };
        Root::new(parts, services).start();
        services_seen.wait_for(Option::is_some).await.map_err(|_| StartError::Tree)?;
        Ok(Self { services: services_seen, state: state_seen, ledger: config.ledger, hub, harnesses })
    }

    fn services(&self) -> Result<Services, SessionError> {
        self.services.borrow().clone().ok_or(SessionError::Interrupted)
    }

    async fn find(&self, session: &SessionId, purpose: Purpose) -> Result<Addr<Session>, SessionError> {
        let find = Find { session: session.clone(), load: Load::Asked, purpose };
        let found = self.services()?.sessions.send(find).await;
        Ok(found.map_err(|_| SessionError::Interrupted)??.0)
    }

    /// Puts these harnesses into force: for sessions that are opened or get a new runtime from now on. What runs keeps
    /// what it was started with.
    ///
    /// # Errors
    ///
    /// [`SessionError::Interrupted`]; nothing changed.
    pub fn replace_harnesses(&self, harnesses: Vec<Harness>) -> Result<(), SessionError> {
        let services = self.services()?;
        self.harnesses.replace(harnesses);
        // One for each time somebody asks for it.
        services.env.harnesses.do_send(Replaced);
        Ok(())
    }

    /// The ledger, for reading.
    pub fn ledger(&self) -> &Arc<dyn Ledger> {
        &self.ledger
    }

    /// Whether the ledger takes what it is given.
    pub fn journal_state(&self) -> JournalState {
        self.state.borrow().clone()
    }

    /// Whether the tree is up.
    pub fn is_up(&self) -> bool {
        self.services.borrow().is_some()
    }

    /// Adopts, collects and sweeps what earlier owners left. While the ledger cannot be written it waits.
    ///
    /// # Errors
    ///
    /// [`SessionError::Ledger`]; [`SessionError::NotTakenOver`] if another process is at it, unless this one is a daemon,
    /// which waits.
    ///
    /// # Cancel safety
    ///
    /// It goes on when the future is dropped.
    pub async fn reap(&self) -> Result<Reaped, SessionError> {
        let (reply, done) = oneshot::channel();
        self.services()?.reaper.do_send(Reap(reply));
        done.await.map_err(|_| SessionError::Interrupted)?
    }

    /// Opens a session; no process is started for it yet.
    ///
    /// # Errors
    ///
    /// [`SessionError::Harness`] for one that is not configured, or cannot be what is wanted of it;
    /// [`SessionError::Stalled`] while the ledger cannot be written.
    pub async fn open_session(&self, harness: HarnessId, spec: SessionSpec) -> Result<SessionId, SessionError> {
        let env = self.services()?.env;
        if env.is_draining() {
            return Err(SessionError::Draining);
        }
        if let JournalState::Stalled(why) = self.journal_state() {
            return Err(SessionError::Stalled(why));
        }
        let configured = env.harness(&harness).ok_or_else(|| HarnessError::Unknown(harness.clone()))?;
        configured.takes_model(spec.model.as_deref())?;
        let row = sessions::new_row(&env, harness, spec);
        let id = row.id.clone();
        let data = json!({ "harness": row.harness, "directory": row.spec.directory, "model": row.spec.model });
        let draft = Draft {
            events: vec![render::outside(kinds::SESSION_OPENED, data)],
            changes: vec![Change::Session(row)],
            ..Draft::default()
        };
        let (stored, done) = oneshot::channel();
        let then = Box::new(move |result| drop(stored.send(result)));
        env.journal.do_send(Store { session: id.clone(), draft, then: Some(then) });
        done.await.map_err(|_| SessionError::Interrupted)??;
        Ok(id)
    }

    /// Delegates work under an id that the caller has made; returns once the task's row is committed. The same id and
    /// delegation again are the same task, whatever became of the first answer.
    ///
    /// # Errors
    ///
    /// [`SessionError`]; nothing was accepted. [`SessionError::TaskTaken`] if the id is that of another task.
    ///
    /// # Cancel safety
    ///
    /// A dropped future may have been accepted already: the task is then known by its id.
    pub async fn start_task(
        &self,
        session: &SessionId,
        task: TaskId,
        delegation: Delegation,
    ) -> Result<(), SessionError> {
        let (reply, accepted) = oneshot::channel();
        self.find(session, Purpose::Use).await?.do_send(StartTask { task, delegation, reply });
        accepted.await.map_err(|_| SessionError::Interrupted)?
    }

    /// Waits for a task's verdict.
    ///
    /// # Errors
    ///
    /// [`SessionError::UnknownTask`].
    ///
    /// # Cancel safety
    ///
    /// A dropped future cancels neither the task nor other waiters.
    pub async fn wait(&self, task: &TaskId) -> Result<TaskRow, SessionError> {
        loop {
            let row = self.ledger.task(task).await?.ok_or_else(|| SessionError::UnknownTask(task.clone()))?;
            let (reply, settled) = oneshot::channel();
            let session = match row.outcome {
                None => self.find(&row.session, Purpose::Use).await?,
                // Its session tells when it is free again: whoever knows of the end may ask for the next task at once.
                Some(_) => match self.services()?.sessions.send(Loaded(row.session.clone())).await {
                    Ok(Some(session)) => session,
                    _ => return Ok(row),
                },
            };
            session.do_send(Wait { task: task.clone(), reply });
            if let Ok(row) = settled.await {
                return row;
            }
        }
    }

    /// Requests a task's cancel; returns once the request is in force. A second request is by force.
    ///
    /// # Errors
    ///
    /// [`SessionError::UnknownTask`].
    pub async fn cancel(&self, task: &TaskId, cause: CancelCause) -> Result<(), SessionError> {
        let row = self.ledger.task(task).await?.ok_or_else(|| SessionError::UnknownTask(task.clone()))?;
        if row.outcome.is_some() {
            // A settled task is left as it is: a cancel of it is a no-op (AHP 2.2).
            return Ok(());
        }
        let session = self.find(&row.session, Purpose::End).await?;
        session.send(CancelTask { task: task.clone(), cause }).await.map_err(|_| SessionError::Interrupted)?
    }

    /// Answers a request of a task.
    ///
    /// # Errors
    ///
    /// [`SessionError::UnknownTask`].
    ///
    /// # Cancel safety
    ///
    /// A dropped future does not take the answer back.
    pub async fn respond(
        &self,
        task: &TaskId,
        interaction: InteractionId,
        response: InteractionResponse,
    ) -> Result<TaskAnswer, SessionError> {
        let row = self.ledger.task(task).await?.ok_or_else(|| SessionError::UnknownTask(task.clone()))?;
        if row.outcome.is_some() {
            return Ok(TaskAnswer::Refused);
        }
        let (reply, answered) = oneshot::channel();
        self.find(&row.session, Purpose::Use).await?.do_send(Answer {
            task: task.clone(),
            interaction,
            response,
            reply,
        });
        answered.await.map_err(|_| SessionError::Interrupted)
    }

    /// A lossless reader of a session's events from this position on.
    pub fn read(&self, session: &SessionId, from: Position) -> Reader {
        self.hub.read(self.ledger.clone(), session.clone(), from)
    }

    /// Closes a session for good: its task is cancelled, its runtime ended. Returns when the kernel has confirmed it.
    ///
    /// # Errors
    ///
    /// [`SessionError::UnknownSession`]; [`SessionError::NotClosed`] if processes outlive every signal: it can be tried
    /// again, and is gone on with whenever they end.
    pub async fn close_session(&self, session: &SessionId) -> Result<(), SessionError> {
        let (reply, closed) = oneshot::channel();
        self.find(session, Purpose::End).await?.do_send(CloseSession { mode: CloseMode::Session, reply });
        closed.await.map_err(|_| SessionError::Interrupted)?
    }

    /// What is loaded now.
    ///
    /// # Errors
    ///
    /// [`SessionError::Interrupted`].
    pub async fn tree(&self) -> Result<Vec<TreeRow>, SessionError> {
        let (reply, rows) = oneshot::channel();
        self.services()?.sessions.do_send(DescribeAll(reply));
        rows.await.map_err(|_| SessionError::Interrupted)
    }

    /// How the gate for starts stands.
    ///
    /// # Errors
    ///
    /// [`SessionError::Interrupted`].
    pub async fn starts(&self) -> Result<Starts, SessionError> {
        self.services()?.env.opens.send(DescribeStarts).await.map_err(|_| SessionError::Interrupted)
    }

    /// Accepts nothing any more, ends every runtime by the ladder, in parallel, and waits until what they said is stored,
    /// and until their keepers are reaped. A keeper whose tree outlives the budget goes on ending it, and is not waited
    /// for.
    ///
    /// # Errors
    ///
    /// [`SessionError::NotStored`], as of [`System::flush`]; [`SessionError::Interrupted`].
    pub async fn shutdown(&self, cause: CancelCause) -> Result<(), SessionError> {
        let services = self.services()?;
        // First: a session that is loaded after this has nothing that it could start.
        services.env.draining.store(true, Ordering::SeqCst);
        let sessions = services.sessions.send(All).await.map_err(|_| SessionError::Interrupted)?;
        let mut closing = Vec::new();
        for session in sessions {
            let (reply, closed) = oneshot::channel();
            session.do_send(CloseSession { mode: CloseMode::Runtime(cause), reply });
            closing.push(closed);
        }
        let harnesses = self.harnesses.all();
        let budget = harnesses.iter().map(|harness| harness.deadlines.cancel_budget()).max().unwrap_or_default();
        let all = async {
            for closed in closing {
                // A session that failed meanwhile has let its keeper go; the next owner finds it.
                if let Ok(Err(error)) = closed.await {
                    tracing::error!(%error, "left to its keeper");
                }
            }
        };
        if tokio::time::timeout(budget + SLACK, all).await.is_err() {
            tracing::error!("some runtimes did not end within the budget; their keepers go on ending them");
        }
        let flushed = self.flush().await;
        // One message for each shutdown.
        services.env.opens.do_send(DismissSpares);
        if tokio::time::timeout(REAPED, services.env.keepers.gone()).await.is_err() {
            tracing::warn!("some keepers are not gone yet");
        }
        flushed
    }

    /// Waits until everything said so far is stored.
    ///
    /// # Errors
    ///
    /// [`SessionError::NotStored`] if that takes more than some seconds; what agents said is then still with their
    /// keepers. [`SessionError::Interrupted`].
    pub async fn flush(&self) -> Result<(), SessionError> {
        let (done, flushed) = oneshot::channel();
        self.services()?.env.journal.do_send(Flush { of: FlushOf::Everything, done });
        match tokio::time::timeout(SLACK, flushed).await {
            Ok(flushed) => flushed.map_err(|_| SessionError::Interrupted),
            Err(_) => Err(SessionError::NotStored(match self.journal_state() {
                JournalState::Stalled(why) => why,
                JournalState::Writing => "the ledger takes too long".to_owned(),
            })),
        }
    }

    /// Waits until the ledger has not been written for so long, and returns why not.
    ///
    /// # Cancel safety
    ///
    /// A dropped future changes nothing.
    pub async fn stalled(&self, patience: Duration) -> String {
        stall::lasting(self.state.clone(), patience).await
    }
}
