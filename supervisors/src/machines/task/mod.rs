//! One delegation, from acceptance to its one verdict.
//!
//! ```text
//! accepted → admitted → submitted → running ⇄ awaiting response → settled
//! ```
//!
//! The machine gathers what bears on the verdict ([`Facts`]), lets [`judge`] read it after each message, and asks for
//! what is missing: strays to be listed and ended, the tree to be stopped. It settles once; what comes later is a
//! diagnostic and changes nothing.

mod cancel;
mod fact;
mod output;
mod strays;

use std::time::Duration;

use crate::adapter::{Fact, InterruptMode};
use crate::contract::{
    AgentUsage, CancelCause, ClearReason, Evidence, ExitFact, FailureKind, InteractionId, InteractionRequest,
    InteractionResponse, Outcome, Proof, TaskId, Verdict,
};
use crate::ledger::{TaskRow, TaskState};

use super::Millis;
use super::interaction::{self, Resolution};
use super::settlement::{CancelFacts, Facts, Judgement, Loss, ReportMode, Strays, judge};
use output::Output;

pub use strays::Stray;

/// What becomes of processes that a finished task left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StrayPolicy {
    /// They are ended.
    End,
    /// They are left, and named in the outcome.
    Keep,
}

/// How long an agent has to take an answer (AHP 2.2).
const ANSWER_PATIENCE: Duration = Duration::from_secs(30);

/// So many runtimes in a row may end before they are given one task.
const MOST_RUNTIMES: u32 = 5;

/// What a harness's file says about its tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskPolicy {
    /// What counts as a report.
    pub mode: ReportMode,
    /// How it is interrupted.
    pub interrupt: InterruptMode,
    /// How long an interrupt may take before the tree is stopped.
    pub interrupt_grace: Duration,
    /// How long all of a cancel may take, the whole ladder included.
    pub cancel_budget: Duration,
    /// What becomes of strays.
    pub strays: StrayPolicy,
    /// The time between SIGTERM and SIGKILL for one stray.
    pub stray_grace: Duration,
}

/// What a task machine is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A runtime is being made ready.
    Admitted,
    /// The runtime takes the task now.
    RuntimeReady,
    /// No runtime could be had; nothing was submitted.
    NotStarted(String),
    /// No process of the agent ever ran, whatever was on its way to it.
    NeverRan(String),
    /// The runtime it was submitted to had ended before: nothing of it was given to the agent.
    NotTaken,
    /// The adapter found something out.
    Fact(Fact),
    /// Some output byte was read.
    OutputSeen,
    /// The standard output was read to its end.
    OutputEnded,
    /// The standard error was read to its end, which is after the tree's; this was said last.
    ErrorsEnded(String),
    /// Somebody wants it cancelled. A second time means: by force.
    Cancel(CancelCause),
    /// Somebody answers a request.
    Respond(InteractionId, InteractionResponse),
    /// The message with an answer is made, and stored with what follows from this.
    Answering(InteractionId),
    /// An answer is proven not to have reached the agent.
    Undelivered(InteractionId),
    /// The leader ended.
    Exited(ExitFact),
    /// The keeper ended the tree because nobody came back for it.
    Orphaned,
    /// The kernel killed a process of the tree for lack of memory.
    OutOfMemory,
    /// The kernel confirmed an empty tree.
    Emptied,
    /// Nothing more can be observed.
    Lost(Loss),
    /// Another runtime is to have it: what was seen of this one's end says nothing about the task.
    Unserved,
    /// Observation goes on, after a restart or a broken connection: what was asked meanwhile is asked again.
    Resumed,
    /// The answer to [`Effect::ListStrays`].
    Strays(Vec<Stray>),
    /// One stray's end, or that it did not end.
    StrayEnded(Stray, StrayEnd),
    /// A timer of [`Effect::SetTimer`] is due.
    Timer(Timer),
}

/// What became of a stray.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StrayEnd {
    /// It is gone.
    Gone,
    /// It outlived SIGKILL's deadline.
    Alive,
}

/// What a task waits for by the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// Its own time limit.
    Timeout,
    /// The end of an interrupt's grace.
    InterruptGrace,
    /// The end of the cancel's budget.
    CancelBudget,
    /// The end of the time an agent has to take an answer.
    Answer,
}

/// How a tree is to be stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StopMode {
    /// By the harness's ladder.
    Ladder,
    /// At once.
    Kill,
}

/// What a task machine asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "faults", derive(strum::IntoStaticStr, strum::VariantNames))]
pub enum Effect {
    /// Give the task to the runtime. From here on it may reach the agent at any time.
    Submit,
    /// Interrupt it natively.
    Interrupt,
    /// Deliver an answer.
    Answer(InteractionId, InteractionResponse),
    /// Ask the keeper for the task's processes outside the agent's session.
    ListStrays,
    /// End one of them.
    EndStray(Stray),
    /// Stop the whole tree.
    StopTree(StopMode),
    /// Tell the machine at this time.
    SetTimer(Timer, Millis),
    /// Forget this timer.
    DropTimer(Timer),
    /// Write an event.
    Record(Record),
    /// Tell the one who answered how it went.
    Replied(InteractionId, Reply),
    /// The verdict. Exactly once, and last but for late facts.
    Settle(Box<Outcome>),
}

/// How an answer went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reply {
    /// The agent took it.
    Accepted,
    /// It is proven undelivered, and may be given again.
    NotDelivered,
    /// Nobody knows.
    Unconfirmed,
    /// There is no such open request.
    Refused,
}

/// An event of the task, in the contract's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// A fact of the adapter that readers see as it is.
    Fact(Fact),
    /// Its state changed.
    State(TaskState),
    /// A cancel was requested.
    CancelRequested(CancelCause),
    /// A request opened.
    Opened(InteractionRequest),
    /// An answer to a request is on its way.
    Answered(InteractionId, InteractionResponse),
    /// A request waits for an answer again: that on its way was not delivered.
    Reopened(InteractionId),
    /// A request closed.
    Resolved(InteractionId, Resolution),
    /// A stray was ended, or would not end.
    Stray(Stray, StrayEnd),
    /// Something that came after the verdict.
    Late(String),
}

/// One task's machine.
#[derive(Debug, Clone)]
pub struct Task {
    id: TaskId,
    policy: TaskPolicy,
    state: TaskState,
    facts: Facts,
    interactions: Vec<(InteractionRequest, interaction::State)>,
    /// Until when each answer has to be taken, in the order they were given.
    answers: Vec<(InteractionId, Millis)>,
    output: Output,
    /// What the agent said last on its standard error, once all of it was read.
    last_errors: Option<String>,
    usage: AgentUsage,
    session_usage: Option<AgentUsage>,
    hunt: strays::Hunt,
    /// How often strays were ended.
    rounds: u32,
    /// How many runtimes had ended before they were given it.
    refusals: u32,
    forced: cancel::Force,
    again: cancel::Again,
    timeout: Option<Duration>,
}

impl Task {
    /// A task that was just accepted.
    pub fn new(id: TaskId, policy: TaskPolicy, timeout: Option<Duration>) -> Self {
        Self {
            id,
            policy,
            state: TaskState::Accepted,
            facts: Facts::new(policy.mode),
            interactions: Vec::new(),
            answers: Vec::new(),
            output: Output::default(),
            last_errors: None,
            usage: AgentUsage::UNKNOWN,
            session_usage: None,
            hunt: strays::Hunt::default(),
            rounds: 0,
            refusals: 0,
            forced: cancel::Force::None,
            again: cancel::Again::No,
            timeout,
        }
    }

    /// A task as the ledger has it: its row, and the facts of its run so far, which are not written again.
    ///
    /// With [`Input::Resumed`], the messages and deadlines of a cancel that was requested before begin anew; nothing is
    /// recorded of it again.
    pub fn restored(self, row: &TaskRow, facts: impl IntoIterator<Item = Fact>) -> Self {
        let mut task = Self { usage: row.usage, session_usage: row.session_usage, ..self };
        let mut known = Vec::new();
        for fact in facts {
            task.facts.any_output = true;
            task.take(fact, &mut known);
        }
        task.state = row.state;
        task.facts.report.clone_from(&row.report);
        if let Some(cause) = row.cancel {
            task.facts.cancel = Some(CancelFacts { cause, delivered: false, expired: false });
            task.again = cancel::Again::Due;
        }
        task
    }

    /// The same, with requests whose answers were on their way: they are still, and have all their time from now on.
    pub fn with_answers(
        mut self,
        answers: impl IntoIterator<Item = (InteractionRequest, InteractionResponse)>,
        now: Millis,
    ) -> Self {
        for (request, response) in answers {
            self.answers.push((request.id.clone(), now + ANSWER_PATIENCE));
            self.interactions.push((request, interaction::State::InFlight(response)));
        }
        self
    }

    /// What the row of the task says of it by now.
    pub fn describe(&self, row: &mut TaskRow) {
        row.state = self.state;
        row.cancel = self.cancel_cause();
        row.report.clone_from(&self.facts.report);
        (row.usage, row.session_usage) = (self.usage, self.session_usage);
    }

    /// Its id.
    pub fn id(&self) -> &TaskId {
        &self.id
    }

    /// Where it stands.
    pub fn state(&self) -> TaskState {
        self.state
    }

    /// Who wanted it cancelled, if anybody did.
    pub fn cancel_cause(&self) -> Option<CancelCause> {
        self.facts.cancel.map(|cancel| cancel.cause)
    }

    /// The open requests.
    pub fn pending(&self) -> impl Iterator<Item = &InteractionRequest> {
        let open = |(_, state): &&(InteractionRequest, interaction::State)| *state != interaction::State::Closed;
        self.interactions.iter().filter(open).map(|(request, _)| request)
    }

    /// One of its requests, open or closed.
    pub fn request(&self, id: &InteractionId) -> Option<&InteractionRequest> {
        self.interactions.iter().map(|(request, _)| request).find(|request| request.id == *id)
    }

    /// Whether the prompt may have reached the agent.
    pub fn was_submitted(&self) -> bool {
        !matches!(self.state, TaskState::Accepted | TaskState::Admitted)
    }

    /// Takes what happened, and says what follows.
    pub fn step(&mut self, input: Input, now: Millis) -> Vec<Effect> {
        let mut effects = Vec::new();
        if self.state == TaskState::Settled {
            late(input, &mut effects);
            return effects;
        }
        self.apply(input, now, &mut effects);
        self.conclude(now, &mut effects);
        effects
    }

    fn apply(&mut self, input: Input, now: Millis, effects: &mut Vec<Effect>) {
        match input {
            Input::Admitted => self.admitted(now, effects),
            Input::RuntimeReady => self.ready(effects),
            Input::NotStarted(message) if !self.was_submitted() => self.not_started(message, effects),
            // Afterwards the end of the runtime is judged by its facts.
            Input::NotStarted(_) => {}
            Input::NeverRan(message) => self.not_started(message, effects),
            Input::NotTaken => self.not_taken(effects),
            Input::Fact(fact) => self.take(fact, effects),
            Input::OutputSeen => self.facts.any_output = true,
            Input::OutputEnded => self.facts.output_ended = true,
            Input::ErrorsEnded(last) => self.last_errors = Some(last),
            Input::Cancel(cause) => self.cancel(cause, now, effects),
            Input::Respond(id, response) => self.respond(&id, response, now, effects),
            Input::Exited(exit) => self.facts.exit = Some(exit),
            Input::Orphaned => self.facts.orphaned = true,
            Input::OutOfMemory => self.facts.out_of_memory = true,
            Input::Emptied => self.facts.emptied = true,
            Input::Answering(id) => self.answering(&id, effects),
            Input::Undelivered(id) => self.interact(&id, interaction::Input::Undelivered, effects),
            Input::Lost(loss) => self.facts.lost = Some(loss),
            Input::Unserved => self.unserved(),
            Input::Resumed => self.resumed(now, effects),
            Input::Strays(found) => self.strays_found(found, effects),
            Input::StrayEnded(stray, end) => self.stray_ended(stray, end, effects),
            Input::Timer(timer) => self.timer(timer, now, effects),
        }
    }

    fn admitted(&mut self, now: Millis, effects: &mut Vec<Effect>) {
        if self.state == TaskState::Accepted {
            self.enter(TaskState::Admitted, effects);
        }
        self.start_timeout(now, effects);
    }

    fn resumed(&mut self, now: Millis, effects: &mut Vec<Effect>) {
        self.start_timeout(now, effects);
        self.wait_for_answers(effects);
        self.cancel_again(now, effects);
        self.hunt = strays::Hunt::Resting;
    }

    /// From here on a restart finds the answer as given.
    fn answering(&self, id: &InteractionId, effects: &mut Vec<Effect>) {
        let found = self.interactions.iter().find(|(request, _)| request.id == *id);
        if let Some((_, interaction::State::InFlight(response))) = found {
            effects.push(Effect::Record(Record::Answered(id.clone(), response.clone())));
        }
    }

    /// Once, however often it is admitted.
    fn start_timeout(&mut self, now: Millis, effects: &mut Vec<Effect>) {
        if let Some(timeout) = self.timeout.take() {
            effects.push(Effect::SetTimer(Timer::Timeout, now + timeout));
        }
    }

    fn ready(&mut self, effects: &mut Vec<Effect>) {
        let may_begin = self.facts.cancel.is_none() && self.facts.exit.is_none();
        if matches!(self.state, TaskState::Accepted | TaskState::Admitted) && may_begin {
            self.enter(TaskState::Submitted, effects);
            effects.push(Effect::Submit);
        }
    }

    fn unserved(&mut self) {
        if !self.was_submitted() {
            let (mode, cancel) = (self.facts.mode, self.facts.cancel);
            self.facts = Facts { cancel, ..Facts::new(mode) };
            self.last_errors = None;
        }
    }

    /// It is where it was before, and the next runtime gets it; unless it was cancelled meanwhile, or had its share of
    /// runtimes.
    fn not_taken(&mut self, effects: &mut Vec<Effect>) {
        if self.state != TaskState::Submitted {
            return;
        }
        self.refusals += 1;
        match self.facts.cancel {
            Some(cancel) => self.settle(Verdict::Cancelled { cause: cancel.cause }, Proof::NeverSubmitted, effects),
            None if self.refusals < MOST_RUNTIMES => self.state = TaskState::Admitted,
            None => {
                let message =
                    format!("{MOST_RUNTIMES} agents ended, one after the other, before they were given the task");
                self.settle(Verdict::Failed { kind: FailureKind::Transport, message }, Proof::NeverSubmitted, effects);
            }
        }
    }

    fn not_started(&mut self, message: String, effects: &mut Vec<Effect>) {
        let verdict = match self.facts.cancel {
            Some(cancel) => Verdict::Cancelled { cause: cancel.cause },
            None => Verdict::Failed { kind: FailureKind::Transport, message },
        };
        self.settle(verdict, Proof::NeverStarted, effects);
    }

    fn respond(&mut self, id: &InteractionId, response: InteractionResponse, now: Millis, effects: &mut Vec<Effect>) {
        let fits = |(request, state): &(InteractionRequest, interaction::State)| {
            request.id == *id && *state == interaction::State::Open && request.accepts(&response)
        };
        if !self.interactions.iter().any(fits) {
            return effects.push(Effect::Replied(id.clone(), Reply::Refused));
        }
        self.answers.retain(|(other, _)| other != id);
        self.answers.push((id.clone(), now + ANSWER_PATIENCE));
        self.wait_for_answers(effects);
        self.interact(id, interaction::Input::Respond(response), effects);
    }

    fn interact(&mut self, id: &InteractionId, input: interaction::Input, effects: &mut Vec<Effect>) {
        let Some((_, state)) = self.interactions.iter_mut().find(|(request, _)| request.id == *id) else { return };
        let (next, followed) = interaction::step(state.clone(), input);
        *state = next;
        for effect in followed {
            if effect == interaction::Effect::NotDelivered {
                effects.push(Effect::Record(Record::Reopened(id.clone())));
            }
            effects.push(match effect {
                interaction::Effect::Deliver(response) => Effect::Answer(id.clone(), response),
                interaction::Effect::Accepted => Effect::Replied(id.clone(), Reply::Accepted),
                interaction::Effect::NotDelivered => Effect::Replied(id.clone(), Reply::NotDelivered),
                interaction::Effect::Unconfirmed => Effect::Replied(id.clone(), Reply::Unconfirmed),
                interaction::Effect::Refused => Effect::Replied(id.clone(), Reply::Refused),
                interaction::Effect::Resolved(resolution) => Effect::Record(Record::Resolved(id.clone(), resolution)),
            });
        }
        self.follow_interactions(effects);
    }

    /// Waiting is a state of its own, and only as long as a request is open.
    fn follow_interactions(&mut self, effects: &mut Vec<Effect>) {
        let waiting = self.pending().next().is_some();
        match (self.state, waiting) {
            (TaskState::Submitted | TaskState::Running, true) => self.enter(TaskState::AwaitingResponse, effects),
            (TaskState::AwaitingResponse, false) => self.enter(TaskState::Running, effects),
            _ => {}
        }
    }

    fn clear_interactions(&mut self, reason: ClearReason, effects: &mut Vec<Effect>) {
        let open: Vec<InteractionId> = self.pending().map(|request| request.id.clone()).collect();
        for id in open {
            self.interact(&id, interaction::Input::Clear(reason), effects);
        }
    }

    fn enter(&mut self, state: TaskState, effects: &mut Vec<Effect>) {
        self.state = state;
        effects.push(Effect::Record(Record::State(state)));
    }

    fn conclude(&mut self, now: Millis, effects: &mut Vec<Effect>) {
        if self.state == TaskState::Settled {
            return;
        }
        if !self.was_submitted() {
            return self.conclude_unsubmitted(effects);
        }
        match judge(&self.facts) {
            Judgement::Wait => {}
            Judgement::LookForStrays => self.hunt(effects),
            Judgement::StopTree => self.stop_tree(now, effects),
            Judgement::Settle(verdict, proof) => self.settle(verdict, proof, effects),
        }
    }

    /// A runtime that ends before it was given the task proves that the task never ran. Its last words say why.
    fn conclude_unsubmitted(&mut self, effects: &mut Vec<Effect>) {
        let all_heard = self.facts.exit.is_some() && self.last_errors.is_some();
        if all_heard || self.facts.lost.is_some() {
            let exit = self.facts.exit.map(|exit| format!(" ({exit})")).unwrap_or_default();
            let said = self.last_errors.as_deref().filter(|said| !said.is_empty());
            let said = said.map(|said| format!(": {said}")).unwrap_or_default();
            let message = format!("the agent ended{exit} before it was given the task{said}");
            self.settle(Verdict::Failed { kind: FailureKind::Transport, message }, Proof::NeverSubmitted, effects);
        }
    }

    /// Exactly once, in the order of AHP 2.4.
    fn settle(&mut self, verdict: Verdict, proof: Proof, effects: &mut Vec<Effect>) {
        self.clear_interactions(ClearReason::TaskEnded, effects);
        let left_running = match &self.facts.strays {
            Strays::Left(pids) | Strays::Stubborn(pids) => pids.clone(),
            Strays::Unknown | Strays::None => Vec::new(),
        };
        // A limit that did not make it fail is no part of how it ended.
        self.facts.rate_limit.take_if(|_| !matches!(verdict, Verdict::Failed { .. }));
        let evidence = Evidence {
            exit: self.facts.exit,
            tree_empty: self.facts.emptied,
            cancel_requested: self.facts.cancel.is_some(),
            rate_limit: self.facts.rate_limit,
            note: self.facts.cause().map(str::to_owned),
            left_running: if self.facts.emptied { Vec::new() } else { left_running },
            ..Evidence::of(proof)
        };
        let output = self.output.product(matches!(verdict, Verdict::Completed { .. }));
        let (usage, session_usage) = (self.usage, self.session_usage);
        self.state = TaskState::Settled;
        for timer in [Timer::Timeout, Timer::InterruptGrace, Timer::CancelBudget, Timer::Answer] {
            effects.push(Effect::DropTimer(timer));
        }
        effects.push(Effect::Settle(Box::new(Outcome { verdict, evidence, output, usage, session_usage })));
    }
}

/// What comes after the verdict is kept as a diagnostic, and answers are refused.
fn late(input: Input, effects: &mut Vec<Effect>) {
    match input {
        Input::Fact(Fact::End(report)) => effects.push(Effect::Record(Record::Late(format!("end report: {report:?}")))),
        Input::Fact(fact) => effects.push(Effect::Record(Record::Late(fact::name(&fact).to_owned()))),
        Input::Respond(id, _) => effects.push(Effect::Replied(id, Reply::Refused)),
        _ => {}
    }
}

#[cfg(test)]
mod cases;
#[cfg(test)]
mod tests;
