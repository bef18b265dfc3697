//! One actor per configured harness: launch recipe, and a breaker that stops a storm of starts.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use actix::prelude::*;

use super::guard::{ChildExited, ExitGuard};
use super::root::Child;
use crate::adapter::OpenContext;
use crate::clock;
use crate::contract::{Delegation, HarnessId, NativeId, SessionSpec, TaskId};
use crate::harness::{Harness, HarnessError, Plan};
use crate::machines::Millis;
use crate::tree::{Backoff, ChildSpec, Decision, Intensity, RestartType, Strategy, Supervisor};

/// So many failed starts in a row open the breaker.
const FAILURES: usize = 5;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
const HEALTHY: Duration = Duration::from_secs(60);

/// Asks for a plan to start a runtime.
#[derive(Message)]
#[rtype(result = "Result<Plan, HarnessError>")]
pub(super) struct Prepare {
    pub(super) harness: Arc<Harness>,
    pub(super) spec: SessionSpec,
    pub(super) resume: Option<NativeId>,
    pub(super) task: Option<(TaskId, Delegation)>,
}

/// How a start went.
#[derive(Message, Clone)]
#[rtype(result = "()")]
pub(super) struct StartEnded {
    pub(super) harness: HarnessId,
    pub(super) started: bool,
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
    tree: Supervisor<HarnessId>,
    pub(super) guard: ExitGuard<Child>,
}

impl Harnesses {
    pub(super) fn new(configured: Configured, guard: ExitGuard<Child>) -> Self {
        let tree = Supervisor::new(Strategy::OneForOne, Intensity::new(5, Duration::from_secs(10)));
        Self { configured, actors: BTreeMap::new(), tree, guard }
    }

    fn start(&mut self, id: &HarnessId, supervisor: Recipient<ChildExited<HarnessId>>) {
        let guard = ExitGuard::new(supervisor, id.clone());
        self.actors.insert(id.clone(), HarnessActor::new(id.clone(), guard).start());
        let (key, shutdown) = (id.clone(), Duration::from_secs(1));
        self.tree.started(ChildSpec { key, restart: RestartType::Permanent, shutdown });
    }

    fn start_new(&mut self, ctx: &mut Context<Self>) {
        for harness in self.configured.all() {
            if !self.actors.contains_key(&harness.id) {
                self.start(&harness.id, ctx.address().recipient());
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

    /// One that is configured no more keeps its actor: nobody asks it for anything.
    fn handle(&mut self, _: Replaced, ctx: &mut Self::Context) {
        self.start_new(ctx);
    }
}

impl Handler<ChildExited<HarnessId>> for Harnesses {
    type Result = ();

    fn handle(&mut self, exited: ChildExited<HarnessId>, ctx: &mut Self::Context) {
        match self.tree.exited(&exited.key, exited.reason, clock::now()) {
            Decision::Restart { start, .. } => start.iter().for_each(|id| self.start(id, ctx.address().recipient())),
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

impl Handler<StartEnded> for Harnesses {
    type Result = ();

    fn handle(&mut self, ended: StartEnded, _: &mut Self::Context) {
        if let Some(actor) = self.actors.get(&ended.harness) {
            // One for each start: bounded.
            actor.do_send(ended);
        }
    }
}

/// One configured harness.
pub(super) struct HarnessActor {
    id: HarnessId,
    failures: usize,
    backoff: Backoff,
    retry_at: Option<Millis>,
    _guard: ExitGuard<HarnessId>,
}

impl HarnessActor {
    fn new(id: HarnessId, guard: ExitGuard<HarnessId>) -> Self {
        let backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE, HEALTHY);
        Self { id, failures: 0, backoff, retry_at: None, _guard: guard }
    }
}

impl Actor for HarnessActor {
    type Context = Context<Self>;
}

impl Handler<Prepare> for HarnessActor {
    type Result = Result<Plan, HarnessError>;

    fn handle(&mut self, ask: Prepare, _: &mut Self::Context) -> Self::Result {
        if let Some(at) = self.retry_at.filter(|at| *at > clock::now()) {
            let (id, failures, retry) = (self.id.clone(), self.failures, clock::until(at));
            return Err(HarnessError::Broken { id, failures, retry });
        }
        let task = ask.task.as_ref().map(|(task, delegation)| (task, delegation));
        let context = OpenContext { spec: &ask.spec, resume: ask.resume.as_ref(), task };
        Ok(ask.harness.plan(context))
    }
}

impl Handler<StartEnded> for HarnessActor {
    type Result = ();

    fn handle(&mut self, ended: StartEnded, _: &mut Self::Context) {
        if ended.started {
            (self.failures, self.retry_at) = (0, None);
            self.backoff.started(clock::now());
            return;
        }
        self.failures += 1;
        if self.failures >= FAILURES {
            let now = clock::now();
            self.retry_at = Some(now + self.backoff.failed(now, rand::random()));
        }
    }
}
