//! One keeper, or what a gone one left: bytes become facts, and what the adapter says goes out once it is durable.
//!
//! A runtime is started fresh, adopted from a living keeper, or collected from a folder without one. In all three the
//! same bytes pass the same framer and the same adapter from the committed offset on, so a turn never notices which.

mod adopt;
mod end;
mod fate;
mod limits;
mod open;
mod orders;
mod output;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use actix::prelude::*;
use ostler_keeper::folder::LastWord;
use ostler_keeper::{Exit, Report, Stream};
use serde_json::json;
use tokio::sync::oneshot;

use self::orders::Listing;
use super::guard::ExitGuard;
use super::journal::{Draft, Store, Stored};
use super::opens::{LivePermit, StartPermit};
use super::render;
use super::session::{RuntimeNews, Session, SessionChild};
use super::system::Env;
use super::task::{Facts, FactsOf, Task};
use crate::adapter::{Adapter, Answer, Fact, Lifetime, MAX_SNAPSHOT, Told};
use crate::capability::Capability;
use crate::contract::event::kinds;
use crate::contract::{Delegation, ExitFact, InteractionId, InteractionResponse, NativeId, SessionSpec, TaskId};
use crate::framer::Framer;
use crate::harness::{Harness, Plan};
use crate::keeper::Link;
use crate::ledger::{Change, NativeSession, OutboxItem, RuntimeRow, RuntimeState};
use crate::machines::Millis;
use crate::machines::settlement::Loss;
use crate::machines::task::{Input, StopMode, Stray};

/// The newest bytes of standard error that are kept for diagnosis.
const STDERR_TAIL: usize = 4096;

/// What has to happen once something is durable.
#[derive(Debug, Default)]
pub(super) struct Ticket {
    /// Room to give back to the window.
    give: usize,
    /// Output before this is safe.
    ack: Option<u64>,
    /// Messages up to this number may go out.
    send: u64,
    /// The runtime is over, and its row is gone.
    gone: bool,
    /// A start that is over by then, and not before: what is recorded of starts is as throttled as they are.
    _start: Option<StartPermit>,
}

/// Something is durable, or it was refused.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Durable {
    pub(super) ticket: Ticket,
    pub(super) stored: Stored,
}

/// Work is delegated. Taken, refused, or the runtime was gone already: the sender is always told.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Submit {
    pub(super) task: TaskId,
    pub(super) delegation: Delegation,
    /// What was there before is the agent's own.
    pub(super) since: Millis,
    /// Who is served from then on.
    pub(super) worker: Addr<Task>,
    /// Told when it is taken; dropped if the runtime has ended.
    pub(super) taken: oneshot::Sender<()>,
}

/// What an agent is told in the course of a task.
#[derive(Debug)]
pub(super) enum Words {
    /// The running task is to be interrupted.
    Interrupt,
    /// A request is answered.
    Respond(InteractionId, InteractionResponse),
}

/// What a task or a session orders.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(super) enum Order {
    /// Start, if the program serves a session.
    Start,
    /// Tell the agent something.
    Tell(Words),
    /// Name the task's processes outside the agent's session.
    ListStrays,
    /// End one of them.
    EndStray(Stray),
    /// Stop the tree.
    Stop(StopMode),
    /// This task is settled and stored.
    TaskOver(Addr<Task>),
    /// It has handed on everything.
    TaskGone,
    /// The task that was to be given to it waits for another runtime.
    Unserve,
    /// The session is gone: so is this actor, and its keeper waits for the next owner.
    LetGo,
}

/// The task it works for.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Serve {
    pub(super) task: Addr<Task>,
    /// Processes that started before this are not the task's, in ticks since boot.
    pub(super) since: u64,
}

/// Where a runtime comes from.
pub(super) enum Origin {
    /// It is to be started.
    Fresh { plan: Box<Plan>, resume: Option<NativeId>, past: Past, live: LivePermit, start: StartPermit },
    /// Its keeper lives.
    Living { state: RuntimeState, outbox: Vec<OutboxItem>, secret: Vec<u8> },
    /// Its keeper has said its last word.
    LastWord { state: RuntimeState, word: Box<LastWord> },
    /// Its keeper never registered, and can no longer.
    NeverStarted,
    /// What is left of it could not be seen, or outlived a sweep: it is looked for again.
    Unseen { state: RuntimeState, outbox: Vec<OutboxItem> },
    /// Its keeper is gone without a word, and what it left was ended.
    Gone { state: RuntimeState, loss: Loss },
}

/// Whether the harness had a session here before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Past {
    Nothing,
    Something,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Its row is not stored yet.
    Prepared,
    /// Its row is being stored.
    Storing,
    /// Its keeper is being started, or is starting the agent.
    Starting,
    /// It was started by an earlier owner, and nobody has seen yet how far that came.
    Unseen,
    /// The agent runs.
    Running,
    /// Everything is over but what has to be stored.
    Over,
}

/// What is known of the end of its tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TreeEnd {
    /// Nothing yet.
    Open,
    /// Nothing of it is left: the kernel said so, or the machine was booted anew.
    Proven,
    /// Nothing of it can be seen any more, which proves nothing.
    Unproven,
}

/// The pipe to the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InputPipe {
    Open,
    Closed,
}

/// For whom a runtime works, and so by which way its facts reach the journal.
enum Serving {
    /// For nobody: straight to the journal.
    Nobody,
    /// For this task: through it, so that its facts and what they caused are stored together.
    Task(Addr<Task>),
    /// For one that is being let go: what it has still to hand on comes first, so the rest waits.
    Leaving(Vec<(Draft, Ticket)>),
}

/// The actor of one runtime.
pub(super) struct Runtime {
    env: Arc<Env>,
    harness: Arc<Harness>,
    spec: SessionSpec,
    row: RuntimeRow,
    session: Addr<Session>,
    own: Option<Addr<Self>>,
    task: Serving,
    /// What the facts handed on just now belong to.
    facts_of: FactsOf,
    task_since: u64,
    /// Listings put off in a row, since a process was too young.
    looks: u32,
    origin: Option<Origin>,
    phase: Phase,
    adapter: Option<Box<dyn Adapter>>,
    framer: Framer,
    /// What of the adapter, the offset and the messages is in the ledger, or on its way there.
    stored_snapshot: Vec<u8>,
    stored_offset: (u64, bool),
    next_message: u64,
    /// What an agent of an earlier owner is to be told, until its keeper has said how far it was told things: the next
    /// message has no number before.
    early: Option<Vec<Words>>,
    /// Messages that are durable or becoming so, and not yet confirmed by the keeper.
    outbox: VecDeque<OutboxItem>,
    durable_messages: u64,
    sent_messages: u64,
    confirmed_messages: u64,
    /// Answers of which no keeper has confirmed the message yet, by its number.
    answers: Vec<(u64, InteractionId)>,
    /// Output before this was acknowledged to the keeper.
    acknowledged: u64,
    link: Option<Link>,
    leader: Option<(i32, u64)>,
    /// Attempts to attach in a row.
    attempts: u32,
    exit: Option<ExitFact>,
    tree: TreeEnd,
    /// How many of its processes the kernel killed for lack of memory, where that is known.
    oom_kills: Option<u64>,
    output_ended: bool,
    input: InputPipe,
    /// Its row is gone, or going.
    gone: bool,
    /// The keeper was told to go.
    released: bool,
    stop: Option<StopMode>,
    /// How it ended, until its harness is told.
    ended: Option<fate::Ended>,
    shown: fate::Shown,
    endings: HashMap<u64, Stray>,
    next_number: u64,
    stderr: VecDeque<u8>,
    live: Option<LivePermit>,
    start: Option<StartPermit>,
    guard: ExitGuard<SessionChild>,
}

/// What a runtime's actor begins with.
pub(super) struct Begin {
    pub(super) env: Arc<Env>,
    pub(super) harness: Arc<Harness>,
    pub(super) spec: SessionSpec,
    pub(super) row: RuntimeRow,
    pub(super) session: Addr<Session>,
    pub(super) origin: Origin,
    /// The task it works for, and since when processes are that task's, where that is known already.
    pub(super) task: Option<(Addr<Task>, u64)>,
    pub(super) guard: ExitGuard<SessionChild>,
}

impl Runtime {
    pub(super) fn new(begin: Begin) -> Self {
        let Begin { env, harness, spec, row, session, origin, task, guard } = begin;
        let (task, task_since) = task.map_or((Serving::Nobody, 0), |(task, since)| (Serving::Task(task), since));
        let framer = Framer::new(harness.frame_cap, env.frames.clone(), 0, false);
        let lives = matches!(origin, Origin::Living { .. } | Origin::Unseen { .. });
        let early = lives.then(Vec::new);
        let live = lives.then(|| {
            let (occupy, live) = LivePermit::of_the_living();
            env.opens.do_send(occupy);
            live
        });
        Self {
            env,
            harness,
            spec,
            row,
            session,
            own: None,
            task,
            facts_of: FactsOf::Course,
            task_since,
            looks: 0,
            origin: Some(origin),
            phase: Phase::Prepared,
            adapter: None,
            framer,
            stored_snapshot: Vec::new(),
            stored_offset: (0, false),
            next_message: 1,
            early,
            outbox: VecDeque::new(),
            durable_messages: 0,
            sent_messages: 0,
            confirmed_messages: 0,
            answers: Vec::new(),
            acknowledged: 0,
            link: None,
            leader: None,
            attempts: 0,
            exit: None,
            tree: TreeEnd::Open,
            oom_kills: None,
            output_ended: false,
            input: InputPipe::Open,
            gone: false,
            released: false,
            stop: None,
            ended: None,
            shown: fate::Shown::Nothing,
            endings: HashMap::new(),
            next_number: 1,
            stderr: VecDeque::new(),
            live,
            start: None,
            guard,
        }
    }

    /// Tells the adapter something, and stores what follows together with this draft.
    fn tell(&mut self, told: Told<'_>, draft: Draft) {
        let mut answer = Answer::default();
        if let Some(adapter) = &mut self.adapter {
            adapter.tell(told, &mut answer);
        }
        self.dispatch(answer, Vec::new(), draft, 0);
    }

    /// Tells the agent something, or keeps it until there is a way to.
    fn say(&mut self, words: Words) {
        match (&mut self.early, words) {
            // A handful for each task: bounded.
            (Some(early), words) => early.push(words),
            (None, Words::Interrupt) => self.tell(Told::Interrupt, Draft::default()),
            (None, Words::Respond(interaction, response)) => self.respond(interaction, &response),
        }
    }

    /// Tells the adapter of a submission: what follows goes back to the task, which stores it with its own state.
    fn tell_submission(&mut self, told: Told<'_>, draft: Draft) {
        self.facts_of = FactsOf::Submission;
        self.tell(told, draft);
        self.facts_of = FactsOf::Course;
    }

    /// Facts go to the task, and with them everything that has to be stored in the same transaction.
    fn dispatch(&mut self, answer: Answer, then: Vec<Input>, mut draft: Draft, give: usize) {
        let facts = self.own_facts(answer.facts, &mut draft);
        for message in answer.messages {
            let item = OutboxItem { number: self.next_message, bytes: message.bytes, then: message.then };
            self.next_message += 1;
            draft.changes.push(Change::Outbox { runtime: self.row.id.clone(), item: item.clone() });
            self.outbox.push_back(item);
        }
        self.changes(&mut draft);
        if facts.is_empty() && then.is_empty() && draft.is_empty() && self.facts_of == FactsOf::Course {
            // Nothing to store, so nothing that becomes durable: only the room comes back.
            return self.give(give);
        }
        let ticket = Ticket {
            give,
            ack: Some(self.stored_offset.0),
            send: self.next_message - 1,
            _start: self.start.take_if(|_| self.adapter.as_ref().is_some_and(|adapter| adapter.is_ready())),
            ..Ticket::default()
        };
        match &mut self.task {
            Serving::Task(task) => task.do_send(Facts { of: self.facts_of, facts, then, draft, ticket }),
            Serving::Leaving(held) => {
                late(facts, &mut draft);
                held.push((draft, ticket));
            }
            Serving::Nobody => {
                late(facts, &mut draft);
                self.store(draft, ticket);
            }
        }
    }

    /// What the ledger does not know yet of offset and snapshot.
    fn changes(&mut self, draft: &mut Draft) {
        if self.phase == Phase::Prepared {
            return;
        }
        let snapshot = self.adapter.as_ref().map(|adapter| adapter.snapshot()).unwrap_or_default();
        if snapshot.len() > MAX_SNAPSHOT {
            tracing::error!(runtime = %self.row.id, bytes = snapshot.len(), "the adapter's snapshot is too large");
        } else if snapshot != self.stored_snapshot {
            self.stored_snapshot.clone_from(&snapshot);
            draft.changes.push(Change::Snapshot { runtime: self.row.id.clone(), bytes: snapshot });
        }
        let (offset, discarding) = self.framer.committed();
        if (offset, discarding) != self.stored_offset {
            self.stored_offset = (offset, discarding);
            draft.changes.push(Change::Offset { runtime: self.row.id.clone(), offset, discarding });
        }
    }

    /// Facts about the runtime itself go to the session; the rest is the task's.
    fn own_facts(&mut self, facts: Vec<Fact>, draft: &mut Draft) -> Vec<Fact> {
        let mut others = Vec::new();
        for fact in facts {
            self.heed_report(&fact);
            match fact {
                Fact::Ready => {
                    if self.harness.adapter.lifetime() == Lifetime::Session {
                        let data = json!({ "runtime_id": self.row.id });
                        draft.events.push(render::outside(kinds::RUNTIME_READY, data));
                    }
                    self.news(RuntimeNews::Ready);
                }
                Fact::NotReady { message } => self.news(RuntimeNews::NotReady(message)),
                Fact::NativeLost { message } => self.news(RuntimeNews::NativeLost(message)),
                Fact::NativeSession { id, stored } => {
                    let resumable = stored && self.harness.capabilities.has(Capability::Resume);
                    let native = NativeSession { id, resumable };
                    let session = self.row.session.clone();
                    draft.changes.push(Change::Native { session, native: native.clone() });
                    self.news(RuntimeNews::Native(native));
                }
                other => others.push(other),
            }
        }
        others
    }

    fn store(&self, draft: Draft, ticket: Ticket) {
        let own = self.own.clone();
        let then: super::journal::Then = Box::new(move |stored| {
            if let Some(runtime) = own {
                runtime.do_send(Durable { ticket, stored });
            }
        });
        self.env.journal.do_send(Store { session: self.row.session.clone(), draft, then: Some(then) });
    }

    fn news(&self, news: RuntimeNews) {
        // A handful over a runtime's life: bounded.
        self.session.do_send(super::session::FromRuntime { runtime: self.row.id.clone(), news });
    }

    fn give(&self, bytes: usize) {
        if let Some(link) = &self.link {
            link.window.give(bytes);
        }
    }

    /// A task is settled. If it was worked for: once it has handed on everything, the rest goes straight to the journal.
    fn leave_task(&mut self, over: &Addr<Task>) {
        match &self.task {
            Serving::Task(task) if task == over => {
                self.task = Serving::Leaving(Vec::new());
                over.do_send(super::task::LetGo { runtime: self.own.clone() });
            }
            _ => over.do_send(super::task::LetGo { runtime: None }),
        }
    }

    fn left_task(&mut self) {
        if let Serving::Leaving(held) = &mut self.task {
            let held = std::mem::take(held);
            self.task = Serving::Nobody;
            held.into_iter().for_each(|(draft, ticket)| self.store(draft, ticket));
            self.retire();
            self.news(RuntimeNews::Free);
        }
    }

    /// Whether it takes nothing any more.
    fn has_ended(&self) -> bool {
        let over = self.phase == Phase::Over || self.exit.is_some() || self.tree != TreeEnd::Open || self.gone;
        over || self.stop.is_some() || self.is_mute()
    }

    /// An agent that serves one task after the other, and has closed a pipe by which it would be spoken to.
    fn is_mute(&self) -> bool {
        let closed = self.output_ended || self.input == InputPipe::Closed;
        closed && self.harness.adapter.lifetime() == Lifetime::Session
    }

    /// Mute and idle, it is of no use any more.
    fn retire(&mut self) {
        let idle = matches!(self.task, Serving::Nobody);
        if idle && self.is_mute() && self.exit.is_none() && self.tree == TreeEnd::Open && self.stop.is_none() {
            self.order_stop(StopMode::Ladder);
        }
    }

    fn to_task(&self, input: Input) {
        if let Serving::Task(task) = &self.task {
            task.do_send(super::task::Step(input));
        }
    }
}

impl Actor for Runtime {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.own = Some(ctx.address());
        match self.origin.take() {
            fresh @ Some(Origin::Fresh { .. }) => self.origin = fresh,
            Some(origin) => self.resume(origin, ctx),
            None => {}
        }
    }
}

impl StreamHandler<Report> for Runtime {
    fn handle(&mut self, report: Report, ctx: &mut Self::Context) {
        match report {
            Report::Output { stream: Stream::Stdout, bytes, .. } => self.output(&bytes),
            Report::Output { stream: Stream::Stderr, bytes, .. } => self.error_output(&bytes),
            Report::OutputEnd { stream: Stream::Stdout, .. } => self.output_end(),
            Report::OutputEnd { .. } => self.errors_ended(),
            Report::Opened { pid, start, limits, .. } => self.opened(pid, start, &limits),
            Report::OpenFailed { step, errno, text } => self.open_failed(step, errno, &text, ctx),
            Report::InputState(state) => self.input_state(state),
            Report::Exited(exit) => {
                self.leader_ended(exit);
                self.exited(exit);
            }
            Report::Emptied(emptiness) => self.tree_emptied(emptiness),
            Report::Leaked(left) => self.leaked(&left),
            Report::Listing { processes, truncated, .. } => {
                self.listed(processes, if truncated { Listing::Cut } else { Listing::Whole }, ctx);
            }
            Report::Ended { number, result } => self.stray_ended(number, result),
            Report::Superseded => self.superseded(ctx),
            Report::Refused { kind: 10, .. } => self.list_again(ctx),
            Report::Refused { kind, code, text } => {
                tracing::warn!(runtime = %self.row.id, kind, %code, text, "the keeper refused an order");
            }
            _ => {}
        }
        self.finish_if_over();
    }

    fn finished(&mut self, ctx: &mut Self::Context) {
        self.connection_lost(ctx);
    }
}

impl Handler<Durable> for Runtime {
    type Result = ();

    fn handle(&mut self, durable: Durable, ctx: &mut Self::Context) {
        if let Err(error) = durable.stored {
            tracing::error!(runtime = %self.row.id, %error, "the runtime's facts cannot be stored; it is let go");
            return ctx.stop();
        }
        self.settle_ticket(&durable.ticket);
        if self.phase == Phase::Storing {
            self.spawn_keeper(ctx);
        }
        if durable.ticket.gone {
            self.let_go(ctx);
        }
        self.finish_if_over();
    }
}

impl Handler<Serve> for Runtime {
    type Result = ();

    fn handle(&mut self, serve: Serve, _: &mut Self::Context) {
        // Whoever comes after the end would never hear of it: his session finds another runtime when this one is over.
        if !self.has_ended() {
            (self.task, self.task_since) = (Serving::Task(serve.task), serve.since);
        }
    }
}

/// What nobody is there for any more is kept as events outside any run.
fn late(facts: Vec<Fact>, draft: &mut Draft) {
    for fact in facts {
        if let Fact::Warning { .. } | Fact::Noise { .. } = fact
            && let Some((kind, data)) = render::fact(&fact)
        {
            draft.events.push(render::outside(kind, data));
        }
    }
}

fn exit_fact(exit: Exit) -> ExitFact {
    match exit {
        Exit::Code(code) => ExitFact::Code { code },
        Exit::Signal { signal, core } => ExitFact::Signal { signal, core },
        _ => ExitFact::Signal { signal: 0, core: false },
    }
}
