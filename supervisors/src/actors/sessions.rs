//! Every session of this process, spread over arbiters; one that fails is rebuilt from the ledger.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::claim::Purpose;
use super::guard::{ChildExited, ExitGuard};
use super::journal::{Flush, FlushOf};
use super::root::Child;
use super::session::{Describe, Found, Load, Session, SessionError};
use super::system::Env;
use crate::clock;
use crate::contract::{HarnessId, RuntimeId, SessionId, TaskId};
use crate::ledger::SessionRow;
use crate::tree::{ChildSpec, Decision, Intensity, RestartType, Strategy, Supervisor};

/// How often one session may be rebuilt before it is left alone.
const RESTARTS: usize = 3;
const PERIOD: Duration = Duration::from_secs(10);

/// One session as the tree shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeRow {
    /// The session.
    pub session: SessionId,
    /// Its harness.
    pub harness: HarnessId,
    /// The task that runs in it.
    pub task: Option<TaskId>,
    /// Its runtime.
    pub runtime: Option<RuntimeId>,
    /// `busy`, `idle` with a warm runtime, or `hibernated` without one.
    pub state: String,
    /// After so many milliseconds its runtime is closed, if nobody has a use for it until then.
    pub hibernates_in_ms: Option<u64>,
}

/// The actor of a session; it is loaded if it is not, once, however many ask.
#[derive(Message)]
#[rtype(result = "Result<(Addr<Session>, Loading), SessionError>")]
pub(super) struct Find {
    pub(super) session: SessionId,
    pub(super) load: Load,
    pub(super) purpose: Purpose,
}

/// Whose asking loaded it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loading {
    /// This one's, as it was wanted.
    Ours,
    /// Somebody else's.
    Others,
}

/// Somebody who asked for a session that is being loaded.
struct Waiting {
    load: Load,
    purpose: Purpose,
    reply: oneshot::Sender<Result<(Addr<Session>, Loading), SessionError>>,
}

/// The actor of a session, if it is loaded.
#[derive(Message)]
#[rtype(result = "Option<Addr<Session>>")]
pub(super) struct Loaded(pub(super) SessionId);

/// Nothing of this session runs: it leaves the memory.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Unused(pub(super) SessionId);

/// Somebody gave it work meanwhile.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct StillUsed {
    pub(super) session: SessionId,
    pub(super) actor: Addr<Session>,
}

/// Everybody who is loaded.
#[derive(Message)]
#[rtype(result = "Vec<Addr<Session>>")]
pub(super) struct All;

/// The whole tree.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct DescribeAll(pub(super) oneshot::Sender<Vec<TreeRow>>);

pub(super) struct Sessions {
    env: Arc<Env>,
    arbiters: Vec<Arbiter>,
    actors: HashMap<SessionId, Addr<Session>>,
    /// Looking for what is left of a session changes it, so that only one may look, and only while nobody has it.
    loading: HashMap<SessionId, Vec<Waiting>>,
    /// Those on their way out of memory, and who asked for them meanwhile: one is there at a time.
    leaving: HashMap<SessionId, Vec<Waiting>>,
    trees: HashMap<SessionId, Supervisor<()>>,
    pub(super) guard: ExitGuard<Child>,
}

impl Sessions {
    pub(super) fn new(env: Arc<Env>, guard: ExitGuard<Child>) -> Self {
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        let arbiters = (0..count).map(|_| Arbiter::new()).collect();
        let (actors, loading, leaving, trees) = Default::default();
        Self { env, arbiters, actors, loading, leaving, trees, guard }
    }

    fn start(&mut self, found: Found, own: Addr<Self>) -> Addr<Session> {
        let id = found.row.id.clone();
        let (env, guard) = (self.env.clone(), ExitGuard::new(own.clone().recipient(), id.clone()));
        let mut hasher = DefaultHasher::new();
        id.hash(&mut hasher);
        let arbiter = &self.arbiters[hasher.finish() as usize % self.arbiters.len()];
        let actor = Session::start_in_arbiter(&arbiter.handle(), move |_| Session::new(env, found, own, guard));
        let tree = self.trees.entry(id.clone());
        let tree = tree.or_insert_with(|| Supervisor::new(Strategy::OneForOne, Intensity::new(RESTARTS, PERIOD)));
        tree.started(ChildSpec { key: (), restart: RestartType::Transient, shutdown: Duration::from_secs(5) });
        self.actors.insert(id, actor.clone());
        actor
    }

    fn find(&mut self, id: SessionId, waiting: Waiting, ctx: &mut Context<Self>) {
        if let Some(actor) = self.loaded(&id) {
            // Whoever is gone does not mind.
            let _gone = waiting.reply.send(Ok((actor, Loading::Others)));
        } else if let Some(others) = self.leaving.get_mut(&id).or_else(|| self.loading.get_mut(&id)) {
            others.push(waiting);
        } else {
            let read = read(self.env.clone(), id.clone(), waiting.load, waiting.purpose);
            self.loading.insert(id.clone(), vec![waiting]);
            ctx.spawn(read.into_actor(self).map(move |found, sessions, ctx| sessions.found(&id, found, ctx)));
        }
    }

    fn loaded(&self, id: &SessionId) -> Option<Addr<Session>> {
        self.actors.get(id).filter(|actor| actor.connected()).cloned()
    }

    /// All who waited get its actor. An error is for the one who asked first; the others ask for themselves.
    fn found(&mut self, id: &SessionId, found: Result<Found, SessionError>, ctx: &mut Context<Self>) {
        let found = found.map(|found| (self.start(found, ctx.address()), Loading::Ours));
        let mut waiting = self.loading.remove(id).unwrap_or_default().into_iter();
        if let Some(first) = waiting.next() {
            let _gone = first.reply.send(found);
        }
        waiting.for_each(|other| self.find(id.clone(), other, ctx));
    }
}

/// What is left of a session, which becomes ours.
async fn read(env: Arc<Env>, id: SessionId, load: Load, purpose: Purpose) -> Result<Found, SessionError> {
    // What the ended actors of this session handed on comes first.
    let (done, flushed) = oneshot::channel();
    env.journal.do_send(Flush { of: FlushOf::Session(id.clone()), done });
    flushed.await.map_err(|_| SessionError::Interrupted)?;
    let row = env.claim(&id, purpose).await?;
    let runtime = super::reaper::found_runtime(&env, &row).await?;
    Ok(Found::read(&env, row, runtime, load).await?)
}

impl Actor for Sessions {
    type Context = Context<Self>;

    fn stopped(&mut self, _: &mut Self::Context) {
        self.arbiters.iter().for_each(|arbiter| {
            arbiter.stop();
        });
    }
}

impl Handler<Find> for Sessions {
    type Result = ResponseFuture<Result<(Addr<Session>, Loading), SessionError>>;

    fn handle(&mut self, find: Find, ctx: &mut Self::Context) -> Self::Result {
        let (reply, found) = oneshot::channel();
        self.find(find.session, Waiting { load: find.load, purpose: find.purpose, reply }, ctx);
        Box::pin(async { found.await.unwrap_or(Err(SessionError::Interrupted)) })
    }
}

impl Handler<Loaded> for Sessions {
    type Result = Option<Addr<Session>>;

    fn handle(&mut self, loaded: Loaded, _: &mut Self::Context) -> Self::Result {
        self.loaded(&loaded.0)
    }
}

impl Handler<All> for Sessions {
    type Result = MessageResult<All>;

    fn handle(&mut self, _: All, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.actors.values().filter(|actor| actor.connected()).cloned().collect())
    }
}

impl Handler<DescribeAll> for Sessions {
    type Result = ();

    fn handle(&mut self, all: DescribeAll, ctx: &mut Self::Context) {
        let actors: Vec<_> = self.actors.values().cloned().collect();
        let describe = async move {
            let mut rows = Vec::new();
            for actor in actors {
                rows.extend(actor.send(Describe).await);
            }
            rows.sort_by(|a: &TreeRow, b: &TreeRow| a.session.cmp(&b.session));
            let _gone = all.0.send(rows);
        };
        ctx.spawn(describe.into_actor(self));
    }
}

impl Handler<ChildExited<SessionId>> for Sessions {
    type Result = ();

    fn handle(&mut self, exited: ChildExited<SessionId>, ctx: &mut Self::Context) {
        self.actors.remove(&exited.key);
        let key = exited.key.clone();
        let waited = self.leaving.remove(&exited.key).unwrap_or_default();
        let decision = match self.trees.get_mut(&exited.key) {
            Some(tree) => tree.exited(&(), exited.reason, clock::now()),
            None => Decision::Forget,
        };
        match decision {
            Decision::Restart { .. } => {
                let session = exited.key;
                let (reply, rebuilt) = oneshot::channel();
                self.find(session.clone(), Waiting { load: Load::GoOn, purpose: Purpose::End, reply }, ctx);
                ctx.spawn(rebuilt.into_actor(self).map(move |rebuilt, _, _| {
                    if let Ok(Err(error)) = rebuilt {
                        tracing::error!(%session, %error, "the session could not be rebuilt");
                    }
                }));
            }
            Decision::Escalate { .. } => {
                tracing::error!(session = %exited.key, "the session fails whenever it is rebuilt; it is left alone");
            }
            Decision::Forget => drop(self.trees.remove(&exited.key)),
        }
        waited.into_iter().for_each(|waiting| self.find(key.clone(), waiting, ctx));
    }
}

impl Handler<Unused> for Sessions {
    type Result = ();

    fn handle(&mut self, unused: Unused, _: &mut Self::Context) {
        // Whoever has its address already may still use it: then it stays.
        if self.actors.remove(&unused.0).is_some() {
            self.leaving.insert(unused.0, Vec::new());
        }
    }
}

impl Handler<StillUsed> for Sessions {
    type Result = ();

    fn handle(&mut self, used: StillUsed, _: &mut Self::Context) {
        let StillUsed { session, actor } = used;
        for waiting in self.leaving.remove(&session).unwrap_or_default() {
            // Whoever is gone does not mind.
            let _gone = waiting.reply.send(Ok((actor.clone(), Loading::Others)));
        }
        self.actors.insert(session, actor);
    }
}

/// A new session's row, for its first commit.
pub(super) fn new_row(env: &Env, harness: HarnessId, spec: crate::contract::SessionSpec) -> SessionRow {
    SessionRow {
        id: SessionId::generate(clock::wall_ms()),
        harness,
        spec,
        owner: env.owner.clone(),
        state: crate::ledger::SessionState::Open,
        native: None,
        created_ms: clock::wall_ms(),
    }
}
