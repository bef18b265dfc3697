//! One delegation: feeds its machine, and turns what follows into events, orders and one verdict.

use std::collections::HashMap;
use std::sync::Arc;

use actix::prelude::*;
use serde_json::Value;
use tokio::sync::oneshot;

use super::guard::ExitGuard;
use super::journal::{Draft, NewEvent, Store, Then};
use super::render;
use super::runtime::{Durable, Order, Runtime, Submit, Ticket, Words};
use super::session::{Session, SessionChild, TaskAnswer, TaskNotTaken, TaskSettled};
use super::system::Env;
use crate::adapter::Fact;
use crate::clock::{self, Moment};
use crate::contract::{EventKind, HarnessId, InteractionId, InteractionResponse, Outcome};
use crate::faults::Boundary;
use crate::ledger::{Change, InteractionRow, InteractionState, TaskRow, TaskState, Urgency};
use crate::machines::task::{Effect, Input, Record, Reply, Task as Machine, Timer};
use crate::tree::ExitReason;

/// What happened, for the machine.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Step(pub(super) Input);

/// What facts belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FactsOf {
    /// The submission of the task: the message is among what has to be stored.
    Submission,
    /// The course of its work.
    Course,
}

/// Facts of the runtime, with what has to be stored with them.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Facts {
    pub(super) of: FactsOf,
    pub(super) facts: Vec<Fact>,
    pub(super) then: Vec<Input>,
    pub(super) draft: Draft,
    pub(super) ticket: Ticket,
}

/// The runtime that works on it.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Use(pub(super) Addr<Runtime>);

/// Somebody answers one of its requests.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Respond {
    pub(super) interaction: InteractionId,
    pub(super) response: InteractionResponse,
    pub(super) reply: oneshot::Sender<TaskAnswer>,
}

/// The actor of one task.
pub(super) struct Task {
    env: Arc<Env>,
    harness: HarnessId,
    session: Addr<Session>,
    machine: Machine,
    row: TaskRow,
    sequence: u64,
    held: Option<Held>,
    runtime: Option<Addr<Runtime>>,
    timers: HashMap<Timer, SpawnHandle>,
    answers: HashMap<InteractionId, Vec<oneshot::Sender<TaskAnswer>>>,
    guard: ExitGuard<SessionChild>,
}

/// What waits for the submission's message.
#[derive(Default)]
struct Held {
    /// The submission itself.
    submission: Draft,
    /// The last sequence before it.
    sequence: u64,
    /// What came after it.
    later: Draft,
    tickets: Vec<Ticket>,
}

/// What a task's actor begins with.
pub(super) struct Begin {
    pub(super) env: Arc<Env>,
    pub(super) harness: HarnessId,
    pub(super) session: Addr<Session>,
    pub(super) machine: Machine,
    pub(super) row: TaskRow,
    /// The last sequence of its run that is stored.
    pub(super) sequence: u64,
    pub(super) guard: ExitGuard<SessionChild>,
}

impl Task {
    pub(super) fn new(begin: Begin) -> Self {
        let Begin { env, harness, session, machine, row, sequence, guard } = begin;
        let (timers, answers) = (HashMap::new(), HashMap::new());
        Self { env, harness, session, machine, row, sequence, held: None, runtime: None, timers, answers, guard }
    }

    fn step(&mut self, input: Input, draft: &mut Draft, ctx: &mut Context<Self>) {
        for effect in self.machine.step(input, clock::now()) {
            let boundary = Boundary::of_task(&effect);
            boundary.before();
            self.carry_out(effect, draft, ctx);
            boundary.after();
        }
    }

    fn carry_out(&mut self, effect: Effect, draft: &mut Draft, ctx: &mut Context<Self>) {
        match effect {
            Effect::Record(record) => self.record(record, draft),
            Effect::Submit => self.submit(draft, ctx),
            Effect::Interrupt => self.order(Order::Tell(Words::Interrupt)),
            Effect::Answer(interaction, response) => self.order(Order::Tell(Words::Respond(interaction, response))),
            Effect::ListStrays => self.order(Order::ListStrays),
            Effect::EndStray(stray) => self.order(Order::EndStray(stray)),
            Effect::StopTree(mode) => self.order(Order::Stop(mode)),
            Effect::SetTimer(timer, at) => {
                if timer == Timer::Timeout {
                    self.row.deadline = Some(Moment::at(at));
                    draft.changes.push(self.row_change());
                }
                let handle = ctx.run_later(clock::until(at), move |task, ctx| task.due(timer, ctx));
                self.drop_timer(timer, ctx);
                self.timers.insert(timer, handle);
            }
            Effect::DropTimer(timer) => self.drop_timer(timer, ctx),
            Effect::Replied(interaction, reply) => self.replied(&interaction, reply),
            Effect::Settle(outcome) => self.settle(*outcome, draft, ctx),
        }
    }

    fn drop_timer(&mut self, timer: Timer, ctx: &mut Context<Self>) {
        if let Some(handle) = self.timers.remove(&timer) {
            ctx.cancel_future(handle);
        }
    }

    fn due(&mut self, timer: Timer, ctx: &mut Context<Self>) {
        let mut draft = Draft::default();
        self.step(Input::Timer(timer), &mut draft, ctx);
        self.store(draft, Vec::new());
    }

    /// Orders overtake what is still to be stored: a stop never waits for a disk.
    fn order(&self, order: Order) {
        if let Some(runtime) = &self.runtime {
            // At most one of each kind is under way: bounded.
            runtime.do_send(order);
        }
    }

    /// What is to be stored waits until the runtime has made the message of it: state and message are stored together,
    /// and nothing of the task overtakes them.
    fn submit(&mut self, draft: &mut Draft, ctx: &mut Context<Self>) {
        let Some(runtime) = &self.runtime else { return };
        let (task, delegation, since) = (self.row.id.clone(), self.row.delegation.clone(), clock::now());
        let (taken, given) = oneshot::channel();
        runtime.do_send(Submit { task, delegation, since, worker: ctx.address(), taken });
        self.row.submitted = Some(Moment::at(since));
        let submission = std::mem::take(draft);
        let events = submission.events.iter().filter(|event| event.run.is_some()).count() as u64;
        self.held = Some(Held { submission, sequence: self.sequence - events, ..Held::default() });
        ctx.spawn(given.into_actor(self).map(|given, task, ctx| {
            if given.is_err() {
                task.not_taken(ctx);
            }
        }));
    }

    /// The submission never was, and neither were its events, but for what was numbered after them. The session finds
    /// another runtime.
    fn not_taken(&mut self, ctx: &mut Context<Self>) {
        let (mut draft, tickets) = match self.held.take_if(|held| held.later.events.is_empty()) {
            Some(held) => {
                self.sequence = held.sequence;
                (held.later, held.tickets)
            }
            None => self.with_held(Draft::default(), None),
        };
        self.step(Input::NotTaken, &mut draft, ctx);
        self.store(draft, tickets);
        self.session.do_send(TaskNotTaken(self.row.id.clone()));
    }

    fn record(&mut self, record: Record, draft: &mut Draft) {
        if let Some(row) = self.interaction(&record) {
            draft.changes.push(Change::Interaction(row));
        }
        if let Some((kind, data)) = render::record(&record, &self.harness) {
            self.event(kind, &data, draft);
        }
    }

    fn interaction(&self, record: &Record) -> Option<InteractionRow> {
        let row = |request, state| InteractionRow { task: self.row.id.clone(), request, state };
        match record {
            Record::Opened(request) => Some(row(request.clone(), InteractionState::Open)),
            Record::Answered(id, response) => {
                let request = self.machine.request(id)?.clone();
                Some(row(request, InteractionState::Answered { response: response.clone() }))
            }
            Record::Reopened(id) => Some(row(self.machine.request(id)?.clone(), InteractionState::Open)),
            Record::Resolved(id, resolution) => {
                let request = self.machine.request(id)?.clone();
                Some(row(request, InteractionState::Closed { resolution: resolution.clone().into() }))
            }
            _ => None,
        }
    }

    /// After the terminal event nothing belongs to the run any more (rules 4).
    fn event(&mut self, kind: EventKind, data: &Value, draft: &mut Draft) {
        let run = (self.row.state != TaskState::Settled).then(|| {
            self.sequence += 1;
            (self.row.id.clone(), self.sequence)
        });
        draft.events.push(NewEvent { run, kind, data: render::payload(data) });
    }

    fn settle(&mut self, outcome: Outcome, draft: &mut Draft, ctx: &Context<Self>) {
        for (kind, data) in render::closing(&self.row.id, &outcome, &self.harness) {
            self.event(kind, &data, draft);
        }
        self.machine.describe(&mut self.row);
        self.row.outcome = Some(outcome);
        // Facts that arrived before the submission's message was made come first, and are durable with the verdict.
        let (mut whole, tickets) = self.with_held(std::mem::take(draft), None);
        whole.urgency = Urgency::Settlement;
        whole.changes.push(self.row_change());
        let (session, task, runtime) = (self.session.clone(), self.row.clone(), self.runtime.clone());
        let own = ctx.address();
        let then: Then = Box::new(move |stored| {
            for (ticket, runtime) in tickets.into_iter().zip(runtime.iter().cycle()) {
                runtime.do_send(Durable { ticket, stored: stored.clone() });
            }
            match stored {
                Ok(()) => session.do_send(TaskSettled { row: Box::new(task) }),
                Err(_) => own.do_send(NotStored),
            }
        });
        self.env.journal.do_send(Store { session: self.row.session.clone(), draft: whole, then: Some(then) });
        self.answers.clear();
    }

    fn row_change(&mut self) -> Change {
        if self.row.outcome.is_none() {
            self.machine.describe(&mut self.row);
        }
        self.row.updated_ms = clock::wall_ms();
        Change::Task(Box::new(self.row.clone()))
    }

    fn store(&mut self, mut draft: Draft, mut tickets: Vec<Ticket>) {
        if let Some(held) = &mut self.held {
            held.later.append(draft);
            return held.tickets.append(&mut tickets);
        }
        let mut known = self.row.clone();
        self.machine.describe(&mut known);
        if self.row.outcome.is_none() && known != self.row {
            draft.changes.push(self.row_change());
        }
        if draft.is_empty() && tickets.is_empty() {
            return;
        }
        let runtime = self.runtime.clone();
        let then: Then = Box::new(move |stored| {
            for (ticket, runtime) in tickets.into_iter().zip(runtime.iter().cycle()) {
                runtime.do_send(Durable { ticket, stored: stored.clone() });
            }
        });
        self.env.journal.do_send(Store { session: self.row.session.clone(), draft, then: Some(then) });
    }

    /// What was held comes first.
    fn with_held(&mut self, draft: Draft, ticket: Option<Ticket>) -> (Draft, Vec<Ticket>) {
        let Held { submission: mut whole, later, mut tickets, .. } = self.held.take().unwrap_or_default();
        whole.append(later);
        whole.append(draft);
        tickets.extend(ticket);
        (whole, tickets)
    }

    fn replied(&mut self, interaction: &InteractionId, reply: Reply) {
        let Some(waiting) = self.answers.get_mut(interaction) else { return };
        // Refusals are for the one who asked last; everything else is for the one whose answer was taken first.
        let waiter =
            if reply == Reply::Refused { waiting.pop() } else { (!waiting.is_empty()).then(|| waiting.remove(0)) };
        let answer = match reply {
            Reply::Accepted => TaskAnswer::Accepted,
            Reply::NotDelivered => TaskAnswer::NotDelivered,
            Reply::Unconfirmed => TaskAnswer::Unconfirmed,
            Reply::Refused => TaskAnswer::Refused,
        };
        if let Some(waiter) = waiter {
            let _gone = waiter.send(answer);
        }
    }
}

impl Actor for Task {
    type Context = Context<Self>;
}

impl Handler<Step> for Task {
    type Result = ();

    fn handle(&mut self, step: Step, ctx: &mut Self::Context) {
        let mut draft = Draft::default();
        self.step(step.0, &mut draft, ctx);
        self.store(draft, Vec::new());
    }
}

impl Handler<Facts> for Task {
    type Result = ();

    fn handle(&mut self, facts: Facts, ctx: &mut Self::Context) {
        let (mut draft, tickets) = match facts.of {
            FactsOf::Submission => self.with_held(facts.draft, Some(facts.ticket)),
            FactsOf::Course => (facts.draft, vec![facts.ticket]),
        };
        for fact in facts.facts {
            self.step(Input::Fact(fact), &mut draft, ctx);
        }
        for input in facts.then {
            self.step(input, &mut draft, ctx);
        }
        self.store(draft, tickets);
    }
}

impl Handler<Use> for Task {
    type Result = ();

    fn handle(&mut self, runtime: Use, _: &mut Self::Context) {
        self.runtime = Some(runtime.0);
    }
}

impl Handler<Respond> for Task {
    type Result = ();

    fn handle(&mut self, respond: Respond, ctx: &mut Self::Context) {
        self.answers.entry(respond.interaction.clone()).or_default().push(respond.reply);
        let mut draft = Draft::default();
        self.step(Input::Respond(respond.interaction, respond.response), &mut draft, ctx);
        self.store(draft, Vec::new());
    }
}

/// The verdict was refused by the ledger: another process has the session.
#[derive(Message)]
#[rtype(result = "()")]
struct NotStored;

impl Handler<NotStored> for Task {
    type Result = ();

    /// A verdict that is nowhere is told to nobody. The end of this actor is a failure: its session is built anew from
    /// what the ledger has.
    fn handle(&mut self, _: NotStored, ctx: &mut Self::Context) {
        tracing::error!(task = %self.row.id, "the verdict was not stored; the task is let go");
        ctx.stop();
    }
}

/// Whoever sent facts to a settled task lets go of it: everything before this was handed on.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct LetGo {
    pub(super) runtime: Option<Addr<Runtime>>,
}

impl Handler<LetGo> for Task {
    type Result = ();

    fn handle(&mut self, let_go: LetGo, ctx: &mut Self::Context) {
        if let Some(runtime) = let_go.runtime {
            runtime.do_send(Order::TaskGone);
        }
        self.guard.ends(ExitReason::Normal);
        ctx.stop();
    }
}
