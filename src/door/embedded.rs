//! The tree in this process.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ostler_supervisors::actors::{Config, OpenLimits, OwnerKind, Reader, System, TaskAnswer, TreeRow};
use ostler_supervisors::clock;
use ostler_supervisors::contract::{
    CancelCause, Delegation, Event, HarnessId, InteractionId, InteractionResponse, OwnerId, Position, SessionId,
    SessionSpec, TaskId,
};
use ostler_supervisors::keeper::KeeperProgram;
use ostler_supervisors::ledger::TaskRow;
use ostler_supervisors::machines::task::StrayPolicy;
use ostler_supervisors::owners::{self, Owners};
use tokio::sync::RwLock;

use super::{Door, EventLine, Events};
use crate::config::{ControlGroups, Settings};
use crate::error::{Failure, Kind};
use crate::ledger::{SqliteLedger, SqliteOptions};

/// Bytes of lines under assembly, over all runtimes of this process.
const FRAME_BUDGET: usize = 512 << 20;

/// How long answers to other processes may take at the end.
const ANSWERS: Duration = Duration::from_secs(2);

/// How an embedded tree is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EmbeddedOptions {
    /// What kind of owner this process is.
    pub kind: OwnerKind,
    /// The soft limit of open files that agents get, where that of this process is not meant for them.
    pub open_files: Option<u64>,
}

impl EmbeddedOptions {
    /// Of a process that serves one command.
    pub const RUN: Self = Self { kind: OwnerKind::Run, open_files: None };
}

/// A tree in this process, with its store.
#[derive(Clone)]
pub struct Embedded {
    /// The handle.
    pub system: System,
    /// This process, as an owner.
    pub owner: OwnerId,
    /// When it was started, in milliseconds since the Unix epoch.
    pub started_ms: u64,
    owners: PathBuf,
    /// Held for reading by whoever answers another process.
    pub(super) answering: Arc<RwLock<()>>,
}

impl Embedded {
    /// Opens the store and starts the tree.
    ///
    /// # Errors
    ///
    /// [`Kind::StoreUnavailable`] or [`Kind::Configuration`].
    pub async fn start(settings: &Settings, options: EmbeddedOptions) -> Result<Self, Failure> {
        let io = |what: &str, error: std::io::Error| {
            Failure::new(Kind::StoreUnavailable, format!("{what} {} cannot be used: {error}", settings.state.display()))
        };
        settings.make_state()?;
        let ledger = SqliteLedger::open(SqliteOptions {
            busy_timeout: settings.busy_timeout,
            max_pages: settings.ledger_mib.map(|mib| (mib * 256).min(u32::MAX.into()) as u32),
            ..SqliteOptions::new(settings.ledger_path())
        });
        let ledger = Arc::new(ledger.await?);
        let owners =
            Owners::register(&settings.owners(), options.kind).map_err(|error| io("the owners' folder of", error))?;
        let owner = owners.own().clone();
        let config = Config {
            ledger,
            owners,
            runs: settings.state.join("run"),
            keeper: KeeperProgram { open_files: options.open_files, ..keeper_program() },
            harnesses: settings.build()?,
            health: match options.kind {
                // Whoever runs one task has his own patience.
                OwnerKind::Run => None,
                OwnerKind::Serve => Some(settings.state.join("harnesses.json")),
            },
            limits: match options.kind {
                // Whoever runs one task has no use for a second keeper.
                OwnerKind::Run => OpenLimits { spare_keepers: 0, ..settings.limits },
                OwnerKind::Serve => settings.limits,
            },
            memory: settings.memory.clone(),
            orphan_grace: match options.kind {
                OwnerKind::Run => Duration::ZERO,
                OwnerKind::Serve => settings.orphan_grace,
            },
            leaf_parent: match settings.control_groups {
                ControlGroups::Try => ostler_keeper::usable_leaf_parent(),
                ControlGroups::Never => None,
            },
            strays: match options.kind {
                OwnerKind::Run => StrayPolicy::End,
                OwnerKind::Serve => StrayPolicy::Keep,
            },
            frame_budget: FRAME_BUDGET,
            umask: umask(),
        };
        let (system, owners) = (System::start(config).await?, settings.owners());
        Ok(Self { system, owner, started_ms: clock::wall_ms(), owners, answering: Arc::default() })
    }

    /// Ends everything of this process, and leaves nothing behind.
    ///
    /// # Errors
    ///
    /// [`Kind::Internal`] if the tree is down already; what runs is then left to the next owner.
    pub async fn leave(&self, cause: CancelCause) -> Result<(), Failure> {
        self.system.shutdown(cause).await?;
        // Whoever is being answered has his answer first. Nobody is answered from a closed ledger: he is told that this
        // process ended, and asks the store.
        let answered = tokio::time::timeout(ANSWERS, self.answering.clone().write_owned()).await;
        std::mem::forget(answered);
        self.system.ledger().close().await;
        owners::leave(&self.owners, &self.owner);
        Ok(())
    }
}

/// The keeper beside this program, or this program playing it.
pub(crate) fn keeper_program() -> KeeperProgram {
    let own = std::env::current_exe().unwrap_or_else(|_| "ostler".into());
    let beside = own.with_file_name("ostler-keeper");
    if beside.is_file() {
        return KeeperProgram { program: beside, arguments: Vec::new(), open_files: None };
    }
    KeeperProgram { program: own, arguments: vec!["play-keeper".to_owned()], open_files: None }
}

/// The mask of this process, which agents get; read without changing it.
fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    line.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok()).unwrap_or(0o022)
}

#[async_trait(?Send)]
impl Door for Embedded {
    async fn open_session(&self, harness: HarnessId, spec: SessionSpec) -> Result<SessionId, Failure> {
        Ok(self.system.open_session(harness, spec).await?)
    }

    async fn start_task(&self, session: &SessionId, task: &TaskId, delegation: Delegation) -> Result<(), Failure> {
        Ok(self.system.start_task(session, task.clone(), delegation).await?)
    }

    async fn wait(&self, task: &TaskId) -> Result<TaskRow, Failure> {
        Ok(self.system.wait(task).await?)
    }

    async fn cancel(&self, task: &TaskId, cause: CancelCause) -> Result<(), Failure> {
        Ok(self.system.cancel(task, cause).await?)
    }

    async fn respond(
        &self,
        task: &TaskId,
        interaction: InteractionId,
        response: InteractionResponse,
    ) -> Result<TaskAnswer, Failure> {
        Ok(self.system.respond(task, interaction, response).await?)
    }

    async fn close_session(&self, session: &SessionId) -> Result<(), Failure> {
        Ok(self.system.close_session(session).await?)
    }

    async fn tree(&self) -> Result<Vec<TreeRow>, Failure> {
        Ok(self.system.tree().await?)
    }

    async fn events(&self, session: &SessionId, from: Position) -> Result<Box<dyn Events>, Failure> {
        let row = self.system.ledger().session(session).await?;
        let row = row.ok_or_else(|| {
            let text = format!("session {session} is not known; `ostler session list` shows those that are");
            Failure::new(Kind::NotFound, text)
        })?;
        let reader = self.system.read(session, from);
        Ok(Box::new(EmbeddedEvents {
            reader,
            session: session.clone(),
            harness: row.harness,
            read: Vec::new().into_iter(),
        }))
    }
}

/// How many events are rendered before others have their turn.
const TURN: usize = 256;

struct EmbeddedEvents {
    reader: Reader,
    session: SessionId,
    harness: HarnessId,
    /// Read and not yet rendered.
    read: std::vec::IntoIter<Arc<Event>>,
}

#[async_trait(?Send)]
impl Events for EmbeddedEvents {
    async fn next(&mut self) -> Result<Vec<EventLine>, Failure> {
        if self.read.len() == 0 {
            self.read = self.reader.next().await?.into_iter();
        } else {
            tokio::task::yield_now().await;
        }
        let render = |event: Arc<Event>| EventLine::of(&event, &self.session, &self.harness);
        let rendered: Result<_, _> = self.read.by_ref().take(TURN).map(render).collect();
        rendered.map_err(|error| Failure::new(Kind::Internal, format!("an event cannot be shown: {error}")))
    }

    async fn changed(&mut self) -> bool {
        self.reader.changed().await;
        true
    }
}
