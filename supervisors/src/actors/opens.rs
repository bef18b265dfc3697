//! The gate for starts: so many at once, so many live, a fair queue of bounded length, and no slot ever lost.
//!
//! It also keeps a few keepers ready, so that a start need not wait for one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::guard::ExitGuard;
use super::root::Child;
use crate::contract::SessionId;
use crate::faults::Boundary;
use crate::keeper::{Keepers, Spare};
use crate::machines::admission::{MemoryBounds, Shortage, admit};
use crate::machines::open::{Effect, Input, Open};
use crate::memory::MemorySource;

/// How many runtimes may start and live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenLimits {
    /// Starts at once. Starting is bound by the processor, so a few at a time are ready sooner than all at once.
    pub start_concurrency: usize,
    /// Runtimes alive at once.
    pub max_live_runtimes: usize,
    /// Starts that may wait.
    pub queue: usize,
    /// Keepers that wait without a runtime.
    pub spare_keepers: usize,
    /// What memory the machine has to have left for a start.
    pub memory: MemoryBounds,
}

/// Why a start does not even wait.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StartRefused {
    /// Too many wait.
    #[error("{waiting} starts wait already, as many as may; try again in {} s", QUEUE_RETRY.as_secs())]
    Full {
        /// How many.
        waiting: usize,
    },
    /// The machine has no memory for it.
    #[error("nothing new is started: {_0}; try again in {} s", _0.retry().as_secs())]
    Short(Shortage),
}

impl StartRefused {
    /// When it is worth asking again.
    pub fn retry(&self) -> Duration {
        match self {
            Self::Full { .. } => QUEUE_RETRY,
            Self::Short(shortage) => shortage.retry(),
        }
    }
}

/// How the gate for starts stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Starts {
    /// Runtimes that are alive, or have their place already.
    pub live: usize,
    /// As many may be.
    pub most: usize,
    /// Starts that wait.
    pub waiting: usize,
    /// Why none is let through, if none is.
    pub short: Option<Shortage>,
}

/// A runtime's place among the living; given back by its drop.
#[derive(Debug)]
pub(super) struct LivePermit {
    _place: Place,
}

#[derive(Debug)]
enum Place {
    Held {
        _permit: OwnedSemaphorePermit,
    },
    /// It lives without one, and gets the next that is free.
    Owed {
        _permit: oneshot::Receiver<OwnedSemaphorePermit>,
    },
}

impl LivePermit {
    /// For a runtime that lives already.
    pub(super) fn of_the_living() -> (Occupy, Self) {
        let (place, permit) = oneshot::channel();
        (Occupy(place), Self { _place: Place::Owed { _permit: permit } })
    }
}

/// A runtime lives that nobody has started here: it takes a place, or the next that is given back, before any start.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Occupy(oneshot::Sender<OwnedSemaphorePermit>);

/// A runtime's place among the starting; given back by its drop, when it takes tasks or has failed to.
#[derive(Debug)]
pub(super) struct StartPermit {
    _permit: OwnedSemaphorePermit,
}

/// Asks for a place.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Acquire {
    pub(super) reply: oneshot::Sender<Result<(LivePermit, StartPermit), StartRefused>>,
}

/// Asks whether a start would be let in now; it reserves nothing.
#[derive(Message)]
#[rtype(result = "Result<(), StartRefused>")]
pub(super) struct MayStart;

/// Somebody was refused for lack of memory: one who has no use for his gives way.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Relieve;

/// Asks how the gate stands.
#[derive(Message)]
#[rtype(result = "Starts")]
pub(super) struct DescribeStarts;

/// Asks for a keeper that waits; `None` if there is none just now.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct TakeSpare {
    pub(super) reply: oneshot::Sender<Option<Spare>>,
}

/// Nothing is started any more: lets the keepers go that wait.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct DismissSpares;

/// This session's runtime has no work; its place may be taken.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Idle {
    pub(super) session: SessionId,
    pub(super) hibernate: Recipient<Hibernate>,
}

/// It has work again, or no runtime.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct NotIdle(pub(super) SessionId);

/// Whose runtime was wanted has begun to use it: somebody else's place is taken.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct NotHibernated;

/// What of an idle runtime somebody else needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needed {
    Place,
    Memory,
}

/// Close the idle runtime: others need what it has.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Hibernate(pub(super) Needed);

/// When a queue that is full may have moved.
const QUEUE_RETRY: Duration = Duration::from_secs(5);
/// How often a machine without memory is looked at again. The kernel would tell, to a thread that waits for nothing else.
const LOOK: Duration = Duration::from_secs(1);
/// How long to wait before a spare is tried again after one that did not start.
const SPARE_PAUSE: Duration = Duration::from_secs(5);

pub(super) struct Opens {
    limits: OpenLimits,
    keepers: Keepers,
    memory: MemorySource,
    spares: VecDeque<Spare>,
    /// The one that is being started, or the pause after one that was not.
    starting_spare: Option<SpawnHandle>,
    starting: Arc<Semaphore>,
    live: Arc<Semaphore>,
    waiting: usize,
    /// Those whose runtime has no work, longest first.
    idle: VecDeque<Idle>,
    pub(super) guard: ExitGuard<Child>,
}

impl Opens {
    pub(super) fn new(limits: OpenLimits, keepers: Keepers, memory: MemorySource, guard: ExitGuard<Child>) -> Self {
        Self {
            limits,
            keepers,
            memory,
            spares: VecDeque::new(),
            starting_spare: None,
            starting: Arc::new(Semaphore::new(limits.start_concurrency)),
            live: Arc::new(Semaphore::new(limits.max_live_runtimes)),
            waiting: 0,
            idle: VecDeque::new(),
            guard,
        }
    }
}

impl Opens {
    /// One at a time, so that spares take no processor from the starts they are for.
    fn refill(&mut self, ctx: &mut Context<Self>) {
        if self.spares.len() >= self.limits.spare_keepers || self.starting_spare.is_some() {
            return;
        }
        let keepers = self.keepers.clone();
        let start = async move { keepers.start().await };
        let started = start.into_actor(self).map(|started, opens, ctx| {
            opens.starting_spare = None;
            match started {
                Ok(spare) => {
                    opens.spares.push_back(spare);
                    opens.refill(ctx);
                }
                Err(error) => {
                    tracing::warn!(%error, "no spare keeper could be started");
                    opens.starting_spare = Some(ctx.run_later(SPARE_PAUSE, |opens, ctx| {
                        opens.starting_spare = None;
                        opens.refill(ctx);
                    }));
                }
            }
        });
        self.starting_spare = Some(ctx.spawn(started));
    }
}

impl Actor for Opens {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.refill(ctx);
        ctx.run_interval(LOOK, |opens, _| {
            if !opens.idle.is_empty() && admit(opens.limits.memory, opens.memory.read()).is_err() {
                opens.hibernate_longest(Needed::Memory);
            }
        });
    }
}

impl Handler<MayStart> for Opens {
    type Result = Result<(), StartRefused>;

    fn handle(&mut self, _: MayStart, _: &mut Self::Context) -> Self::Result {
        if self.waiting >= self.limits.queue {
            return Err(StartRefused::Full { waiting: self.waiting });
        }
        admit(self.limits.memory, self.memory.read()).map_err(StartRefused::Short)
    }
}

impl Handler<Relieve> for Opens {
    type Result = ();

    fn handle(&mut self, _: Relieve, _: &mut Self::Context) {
        self.hibernate_longest(Needed::Memory);
    }
}

impl Handler<DescribeStarts> for Opens {
    type Result = MessageResult<DescribeStarts>;

    fn handle(&mut self, _: DescribeStarts, _: &mut Self::Context) -> Self::Result {
        let most = self.limits.max_live_runtimes;
        MessageResult(Starts {
            live: most - self.live.available_permits().min(most),
            most,
            waiting: self.waiting,
            short: admit(self.limits.memory, self.memory.read()).err(),
        })
    }
}

impl Handler<TakeSpare> for Opens {
    type Result = ();

    fn handle(&mut self, take: TakeSpare, ctx: &mut Self::Context) {
        self.spares.retain(Spare::is_waiting);
        // Whoever is gone leaves it here.
        if let Err(Some(unused)) = take.reply.send(self.spares.pop_front()) {
            self.spares.push_front(unused);
        }
        self.refill(ctx);
    }
}

impl Handler<DismissSpares> for Opens {
    type Result = ();

    fn handle(&mut self, _: DismissSpares, ctx: &mut Self::Context) {
        self.limits.spare_keepers = 0;
        self.spares.clear();
        if let Some(starting) = self.starting_spare.take() {
            ctx.cancel_future(starting);
        }
    }
}

impl Handler<Acquire> for Opens {
    type Result = ();

    fn handle(&mut self, ask: Acquire, ctx: &mut Self::Context) {
        if self.waiting >= self.limits.queue {
            // A caller that is gone does not mind.
            let _gone = ask.reply.send(Err(StartRefused::Full { waiting: self.waiting }));
            return;
        }
        self.waiting += 1;
        self.make_room();
        let (live, starting) = (self.live.clone(), self.starting.clone());
        let (bounds, memory) = (self.limits.memory, self.memory.clone());
        let acquire = async move {
            let live = live.acquire_owned().await.ok()?;
            let start = starting.acquire_owned().await.ok()?;
            // It was accepted when there was memory for it, so it waits until there is again.
            while let Err(shortage) = admit(bounds, memory.read()) {
                tracing::warn!(%shortage, "a start is held back");
                tokio::time::sleep(LOOK).await;
            }
            Some((LivePermit { _place: Place::Held { _permit: live } }, StartPermit { _permit: start }))
        };
        ctx.spawn(acquire.into_actor(self).map(|permits, opens, _| opens.answer(ask.reply, permits)));
    }
}

impl Handler<Occupy> for Opens {
    type Result = ();

    fn handle(&mut self, occupy: Occupy, ctx: &mut Self::Context) {
        let (Occupy(mut place), live) = (occupy, self.live.clone());
        let occupied = async move {
            tokio::select! {
                permit = live.acquire_owned() => permit.ok(),
                () = place.closed() => None,
            }
            // One whose runtime has ended in this very instant is given back.
            .map(|permit| drop(place.send(permit)))
        };
        // A place that was given back went to it, or one that lived without a place is gone: a start may still wait.
        ctx.spawn(occupied.into_actor(self).map(|_, opens, _| opens.make_room()));
    }
}

impl Opens {
    /// Somebody waits while others hold places without a use for them: the one who has had none for longest gives way.
    fn make_room(&mut self) {
        if self.waiting == 0 || self.live.available_permits() > 0 {
            return;
        }
        self.hibernate_longest(Needed::Place);
    }

    fn hibernate_longest(&mut self, needed: Needed) {
        while let Some(longest) = self.idle.pop_front() {
            if longest.hibernate.connected() {
                // One for each start that waits or was refused, and one for each look: bounded.
                return longest.hibernate.do_send(Hibernate(needed));
            }
        }
    }

    fn forget_idle(&mut self, session: &SessionId) {
        self.idle.retain(|idle| idle.session != *session);
    }
}

impl Handler<Idle> for Opens {
    type Result = ();

    fn handle(&mut self, idle: Idle, _: &mut Self::Context) {
        self.forget_idle(&idle.session);
        self.idle.push_back(idle);
        self.make_room();
    }
}

impl Handler<NotIdle> for Opens {
    type Result = ();

    fn handle(&mut self, busy: NotIdle, _: &mut Self::Context) {
        self.forget_idle(&busy.0);
    }
}

impl Handler<NotHibernated> for Opens {
    type Result = ();

    fn handle(&mut self, _: NotHibernated, _: &mut Self::Context) {
        self.make_room();
    }
}

type Permits = (LivePermit, StartPermit);

impl Opens {
    /// The caller may have gone meanwhile: then the places are given back, and nobody is told.
    fn answer(&mut self, reply: oneshot::Sender<Result<Permits, StartRefused>>, permits: Option<Permits>) {
        let mut open = Open::Awaited;
        if reply.is_closed() {
            self.carry_out(open.step(Input::CallerGone), &mut None, &mut None);
        }
        let came = if permits.is_some() { Input::Opened } else { Input::Failed };
        let (mut reply, mut permits) = (Some(reply), permits);
        self.carry_out(open.step(came), &mut reply, &mut permits);
        if open == Open::CleaningUp {
            self.carry_out(open.step(Input::CleanedUp), &mut reply, &mut permits);
        }
    }

    fn carry_out(
        &mut self,
        effects: &[Effect],
        reply: &mut Option<oneshot::Sender<Result<Permits, StartRefused>>>,
        permits: &mut Option<Permits>,
    ) {
        for effect in effects {
            let boundary = Boundary::of_open(*effect);
            boundary.before();
            match effect {
                Effect::Deliver => {
                    if let (Some(reply), Some(permits)) = (reply.take(), permits.take()) {
                        // A caller that went in this very instant drops the permits, which gives the places back.
                        let _gone = reply.send(Ok(permits));
                    }
                }
                // The gate is closed for good: dropped, the reply says so.
                Effect::DeliverFailure => drop(reply.take()),
                // Nothing was started for it yet, so a place given back is all there is to clean up.
                Effect::CleanUp | Effect::LeaveToReaper => drop(permits.take()),
                Effect::Release => self.waiting -= 1,
            }
            boundary.after();
        }
    }
}
