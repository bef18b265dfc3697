//! The root: five children, rest for one.

use std::collections::HashMap;
use std::time::Duration;

use actix::prelude::*;
use tokio::sync::watch;

use super::guard::{ChildExited, ExitGuard};
use super::harnesses::Harnesses;
use super::journal::Journal;
use super::opens::Opens;
use super::reaper::Reaper;
use super::sessions::Sessions;
use super::system::{Env, Parts};
use crate::clock;
use crate::tree::{ChildSpec, Decision, ExitReason, Intensity, RestartType, Strategy, Supervisor};

/// The children of the root, in start order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Child {
    Journal,
    Opens,
    Harnesses,
    Sessions,
    Reaper,
}

const ORDER: [Child; 5] = [Child::Journal, Child::Opens, Child::Harnesses, Child::Sessions, Child::Reaper];

/// The addresses in force; replaced when a child is restarted.
#[derive(Clone)]
pub(super) struct Services {
    pub(super) env: std::sync::Arc<Env>,
    pub(super) sessions: Addr<Sessions>,
    pub(super) reaper: Addr<Reaper>,
}

pub(super) struct Root {
    parts: Parts,
    services: watch::Sender<Option<Services>>,
    tree: Supervisor<Child>,
    /// Packing what is committed is work: it holds up nothing but the journal.
    writer: Arbiter,
    journal: Option<Addr<Journal>>,
    opens: Option<Addr<Opens>>,
    harnesses: Option<Addr<Harnesses>>,
    env: Option<std::sync::Arc<Env>>,
    sessions: Option<Addr<Sessions>>,
    stops: HashMap<Child, Recipient<StopChild>>,
}

/// Ends a child in an orderly way.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct StopChild;

macro_rules! stops {
    ($($actor:ty),+) => { $(
        impl Handler<StopChild> for $actor {
            type Result = ();

            fn handle(&mut self, _: StopChild, ctx: &mut Self::Context) {
                self.guard_ends();
                ctx.stop();
            }
        }

        impl $actor {
            fn guard_ends(&mut self) {
                self.guard.ends(ExitReason::Shutdown);
            }
        }
    )+ };
}

stops!(Journal, Opens, Harnesses, Sessions, Reaper);

impl Root {
    pub(super) fn new(parts: Parts, services: watch::Sender<Option<Services>>) -> Self {
        Self {
            parts,
            services,
            tree: Supervisor::new(Strategy::RestForOne, Intensity::new(3, Duration::from_secs(30))),
            writer: Arbiter::new(),
            journal: None,
            opens: None,
            harnesses: None,
            env: None,
            sessions: None,
            stops: HashMap::new(),
        }
    }

    fn start_child(&mut self, child: Child, ctx: &mut Context<Self>) {
        let guard = ExitGuard::new(ctx.address().recipient(), child);
        let stop = match child {
            Child::Journal => {
                let parts = &self.parts;
                let journal = Journal::new(parts.ledger.clone(), parts.hub.clone(), parts.state.clone(), guard);
                let journal = Journal::start_in_arbiter(&self.writer.handle(), move |_| journal);
                self.journal.insert(journal).clone().recipient()
            }
            Child::Opens => {
                let (keepers, memory) = (self.parts.keepers.clone(), self.parts.memory.clone());
                let opens = Opens::new(self.parts.limits, keepers, memory, guard).start();
                self.opens.insert(opens).clone().recipient()
            }
            Child::Harnesses => {
                let harnesses = Harnesses::new(self.parts.harnesses.clone(), self.parts.health.clone(), guard).start();
                self.harnesses.insert(harnesses).clone().recipient()
            }
            Child::Sessions => match self.environment() {
                Some(env) => self.sessions.insert(Sessions::new(env, guard).start()).clone().recipient(),
                None => return,
            },
            Child::Reaper => match (self.env.clone(), self.sessions.clone()) {
                (Some(env), Some(sessions)) => {
                    let reaper = Reaper::new(env.clone(), sessions.clone(), guard).start();
                    let services = Services { env, sessions, reaper: reaper.clone() };
                    self.services.send_replace(Some(services));
                    reaper.recipient()
                }
                _ => return,
            },
        };
        self.stops.insert(child, stop);
        let shutdown = Duration::from_secs(5);
        self.tree.started(ChildSpec { key: child, restart: RestartType::Permanent, shutdown });
    }

    fn environment(&mut self) -> Option<std::sync::Arc<Env>> {
        let (journal, opens, harnesses) = (self.journal.clone()?, self.opens.clone()?, self.harnesses.clone()?);
        let env = std::sync::Arc::new(self.parts.environment(journal, opens, harnesses));
        self.env = Some(env.clone());
        Some(env)
    }
}

impl Actor for Root {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ORDER.into_iter().for_each(|child| self.start_child(child, ctx));
    }
}

impl Handler<ChildExited<Child>> for Root {
    type Result = ();

    fn handle(&mut self, exited: ChildExited<Child>, ctx: &mut Self::Context) {
        match self.tree.exited(&exited.key, exited.reason, clock::now()) {
            Decision::Forget => {}
            Decision::Restart { stop, start } => {
                tracing::error!(child = ?exited.key, reason = ?exited.reason, "restarted, with those started after it");
                self.stop_children(&stop);
                start.into_iter().for_each(|child| self.start_child(child, ctx));
            }
            Decision::Escalate { stop } => {
                tracing::error!(child = ?exited.key, "restarted too often: the process gives up, its keepers go on");
                self.stop_children(&stop);
                self.services.send_replace(None);
                ctx.stop();
            }
        }
    }
}

impl Root {
    fn stop_children(&self, children: &[Child]) {
        for stop in children.iter().filter_map(|child| self.stops.get(child)) {
            stop.do_send(StopChild);
        }
    }
}
