//! One actor per configured harness: launch recipe, and a breaker that stops a storm of starts.

mod memory;
mod one;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use actix::prelude::*;

use super::guard::{ChildExited, ExitGuard};
use super::root::Child;
use crate::clock;
use crate::contract::{Delegation, HarnessId, NativeId, SessionSpec, TaskId};
use crate::harness::{Harness, HarnessError, Plan};
use crate::machines::health::{Input, Standing};
use crate::tree::{ChildSpec, Decision, Intensity, RestartType, Strategy, Supervisor};

use memory::Memory;
use one::{Forgive, HarnessActor};

/// Asks for a plan to start a runtime.
#[derive(Message)]
#[rtype(result = "Result<Plan, HarnessError>")]
pub(super) struct Prepare {
    pub(super) harness: Arc<Harness>,
    pub(super) spec: SessionSpec,
    pub(super) resume: Option<NativeId>,
    pub(super) task: Option<(TaskId, Delegation)>,
}

/// What became of a runtime, or of the permission to start one.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Fate {
    pub(super) harness: Arc<Harness>,
    pub(super) input: Input,
    /// What it failed of, for a person.
    pub(super) why: Option<String>,
}

/// How a harness stands by now.
#[derive(Message)]
#[rtype(result = "()")]
struct Stands {
    harness: HarnessId,
    standing: Standing,
}

/// The configured harnesses in force; they may be replaced while everything runs.
#[derive(Clone, Default)]
pub(super) struct Configured(Arc<RwLock<Vec<Arc<Harness>>>>);

impl Configured {
    pub(super) fn get(&self, id: &HarnessId) -> Option<Arc<Harness>> {
        self.all().into_iter().find(|harness| harness.id == *id)
    }

    pub(super) fn all(&self) -> Vec<Arc<Harness>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn replace(&self, harnesses: Vec<Harness>) {
        let harnesses = harnesses.into_iter().map(Arc::new).collect();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = harnesses;
    }
}

/// The configured harnesses were replaced.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Replaced;

/// Every configured harness.
pub(super) struct Harnesses {
    configured: Configured,
    actors: BTreeMap<HarnessId, Addr<HarnessActor>>,
    memory: Memory,
    tree: Supervisor<HarnessId>,
    pub(super) guard: ExitGuard<Child>,
}

impl Harnesses {
    /// With a file in which how they stand outlives this process, if it is to.
    pub(super) fn new(configured: Configured, file: Option<PathBuf>, guard: ExitGuard<Child>) -> Self {
        let tree = Supervisor::new(Strategy::OneForOne, Intensity::new(5, Duration::from_secs(10)));
        Self { configured, actors: BTreeMap::new(), memory: Memory::read(file), tree, guard }
    }

    fn start(&mut self, id: &HarnessId, own: &Addr<Self>) {
        let guard = ExitGuard::new(own.clone().recipient(), id.clone());
        let actor = HarnessActor::new(id.clone(), self.memory.of(id), own.clone().recipient(), guard);
        self.actors.insert(id.clone(), actor.start());
        let (key, shutdown) = (id.clone(), Duration::from_secs(1));
        self.tree.started(ChildSpec { key, restart: RestartType::Permanent, shutdown });
    }

    fn start_new(&mut self, ctx: &mut Context<Self>) {
        for harness in self.configured.all() {
            if !self.actors.contains_key(&harness.id) {
                self.start(&harness.id, &ctx.address());
            }
        }
    }
}

impl Actor for Harnesses {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.start_new(ctx);
    }
}

impl Handler<Replaced> for Harnesses {
    type Result = ();

    /// One that is configured no more keeps its actor: nobody asks it for anything. What failed before may have been
    /// mended by what is configured now.
    fn handle(&mut self, _: Replaced, ctx: &mut Self::Context) {
        self.actors.values().for_each(|actor| actor.do_send(Forgive));
        self.start_new(ctx);
    }
}

impl Handler<ChildExited<HarnessId>> for Harnesses {
    type Result = ();

    fn handle(&mut self, exited: ChildExited<HarnessId>, ctx: &mut Self::Context) {
        match self.tree.exited(&exited.key, exited.reason, clock::now()) {
            Decision::Restart { start, .. } => start.iter().for_each(|id| self.start(id, &ctx.address())),
            Decision::Escalate { .. } => ctx.stop(),
            Decision::Forget => {}
        }
    }
}

impl Handler<Prepare> for Harnesses {
    type Result = ResponseFuture<Result<Plan, HarnessError>>;

    fn handle(&mut self, ask: Prepare, _: &mut Self::Context) -> Self::Result {
        let actor = self.actors.get(&ask.harness.id).cloned();
        Box::pin(async move {
            let unknown = HarnessError::Unknown(ask.harness.id.clone());
            match actor {
                Some(actor) => actor.send(ask).await.unwrap_or(Err(unknown)),
                None => Err(unknown),
            }
        })
    }
}

impl Handler<Fate> for Harnesses {
    type Result = ();

    fn handle(&mut self, fate: Fate, _: &mut Self::Context) {
        if let Some(actor) = self.actors.get(&fate.harness.id) {
            // A few for each start: bounded.
            actor.do_send(fate);
        }
    }
}

impl Handler<Stands> for Harnesses {
    type Result = ();

    fn handle(&mut self, stands: Stands, ctx: &mut Self::Context) {
        self.memory.set(stands.harness, stands.standing);
        self.remember(ctx);
    }
}

impl Harnesses {
    /// One write at a time; what changes meanwhile is in the next.
    fn remember(&mut self, ctx: &mut Context<Self>) {
        if let Some(write) = self.memory.write() {
            ctx.spawn(write.into_actor(self).map(|(), harnesses, ctx| {
                harnesses.memory.written();
                harnesses.remember(ctx);
            }));
        }
    }
}
