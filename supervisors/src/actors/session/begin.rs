//! A session as it is found: new, or with a task and a runtime to go on with.

use actix::prelude::*;

use super::super::journal::{Draft, Store};
use super::super::render;
use super::super::runtime::{Begin as RuntimeBegin, Origin, Runtime, Serve};
use super::super::system::Env;
use super::super::task::{Begin as TaskBegin, Step, Task, Use};
use super::block;
use super::{ActiveRuntime, ActiveTask, ContextMachine, RuntimeState, Session, SessionChild};
use crate::actors::guard::ExitGuard;
use crate::adapter::{Fact, Lifetime};
use crate::clock;
use crate::contract::{CancelCause, Event, InteractionRequest, InteractionResponse, Position, RuntimeId, SessionId};
use crate::ledger::{
    Change, InteractionRow, InteractionState, LedgerError, RuntimeRow, SessionRow, TaskRow, TaskState, Urgency,
};
use crate::machines::settlement::Loss;
use crate::machines::task::{Input, Task as Machine};

/// A session as the ledger and the folders have it.
pub(in crate::actors) struct Found {
    pub(in crate::actors) row: SessionRow,
    pub(in crate::actors) last: Option<TaskRow>,
    /// Whether the end of the last task was proven after its verdict.
    proven_later: bool,
    pub(in crate::actors) events: Vec<Event>,
    pub(in crate::actors) asked: Vec<Fact>,
    /// Requests whose answers were on their way.
    answered: Vec<(InteractionRequest, InteractionResponse)>,
    pub(in crate::actors) runtime: Option<FoundRuntime>,
    pub(in crate::actors) load: Load,
}

/// A task's requests that wait for an answer, and those whose answer was on its way.
type Requests = (Vec<Fact>, Vec<(InteractionRequest, InteractionResponse)>);

/// A runtime that was found, and where it stands.
pub(in crate::actors) struct FoundRuntime {
    pub(in crate::actors) row: RuntimeRow,
    pub(in crate::actors) origin: Origin,
}

/// Why a session is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::actors) enum Load {
    /// Somebody asks for it; what waits in it waits.
    Asked,
    /// To go on with what an owner of the same kind left.
    GoOn,
    /// To end what an owner left that will not come back.
    Collect,
}

/// The task that a session is about: the one without a verdict, if there is one; else the newest.
pub(in crate::actors) async fn last_task(env: &Env, session: &SessionId) -> Result<Option<TaskRow>, LedgerError> {
    let mut tasks = env.ledger.tasks(Some(session)).await?;
    // The clock may have been set back between two tasks.
    let last = tasks.iter().position(|task| task.state != TaskState::Settled).unwrap_or(0);
    Ok((last < tasks.len()).then(|| tasks.swap_remove(last)))
}

impl Found {
    /// Reads what the ledger has of a session; the runtime is found elsewhere.
    pub(in crate::actors) async fn read(
        env: &Env,
        row: SessionRow,
        runtime: Option<FoundRuntime>,
        load: Load,
    ) -> Result<Self, LedgerError> {
        let last = last_task(env, &row.id).await?;
        let unsettled = last.as_ref().filter(|task| task.state != TaskState::Settled);
        let (mut events, mut asked, mut answered) = (Vec::new(), Vec::new(), Vec::new());
        if let Some(task) = unsettled {
            events = run_of(env, &row, task).await?;
            for InteractionRow { request, state, .. } in env.ledger.interactions(&task.id).await? {
                match state {
                    InteractionState::Open => asked.push(Fact::Asked(request)),
                    InteractionState::Answered { response } => answered.push((request, response)),
                    InteractionState::Closed { .. } => {}
                }
            }
        }
        let proven_later = block::proven_later(env, &row, last.as_ref()).await?;
        Ok(Self { row, last, proven_later, events, asked, answered, runtime, load })
    }

    pub(super) fn left_running(&self) -> Vec<i32> {
        let outcome = self.last.as_ref().and_then(|task| task.outcome.as_ref());
        outcome.map(|outcome| outcome.evidence.left_running.clone()).unwrap_or_default()
    }

    pub(super) fn context(&self) -> ContextMachine {
        use crate::ledger::SessionState;
        if self.row.state != SessionState::Open {
            let unsettled = self.last.as_ref().filter(|task| task.state != TaskState::Settled);
            return unsettled.map_or(ContextMachine::Closed, |task| ContextMachine::Closing(task.id.clone()));
        }
        match &self.last {
            Some(task) if task.state != TaskState::Settled => ContextMachine::Busy(task.id.clone()),
            Some(task) => match &task.outcome {
                Some(_) if self.proven_later => ContextMachine::Idle,
                Some(outcome) => ContextMachine::after(task.id.clone(), outcome, self.row.native.as_ref()),
                None => ContextMachine::Idle,
            },
            None => ContextMachine::Idle,
        }
    }
}

/// The events of a task's run.
async fn run_of(env: &Env, row: &SessionRow, task: &TaskRow) -> Result<Vec<Event>, LedgerError> {
    let (mut events, mut next) = (Vec::new(), Position(1));
    loop {
        let step = env.ledger.read(&row.id, next, 1024).await?;
        let Some(last) = step.last() else { return Ok(events) };
        next = last.position.next();
        events.extend(step.into_iter().filter(|event| event.run.as_ref().is_some_and(|(run, _)| *run == task.id)));
    }
}

impl Session {
    pub(super) fn take_up(&mut self, found: Found, ctx: &mut Context<Self>) {
        let Found { mut last, events, asked, answered, mut runtime, load, .. } = found;
        if let Some(never) = runtime.take_if(|runtime| matches!(runtime.origin, Origin::NeverStarted)) {
            self.forget_runtime(&never.row);
            // Nothing was submitted by a start that never was: the task is where it was before.
            last.iter_mut()
                .filter(|task| task.state != TaskState::Settled)
                .for_each(|task| task.state = TaskState::Accepted);
        }
        let unsettled = last.filter(|task| task.state != TaskState::Settled);
        let has_runtime = runtime.is_some();
        if let Some(row) = unsettled {
            self.take_up_task(row, &events, (asked, answered), ctx);
        }
        if let Some(runtime) = runtime {
            self.start_runtime(runtime.row, runtime.origin, ctx);
            // A task that was never submitted has nothing to do with what an earlier runtime says.
            if self.task_was_submitted {
                self.connect_task();
            }
        }
        if self.task.is_some() && !has_runtime {
            self.without_runtime(load, ctx);
        } else if load == Load::Collect {
            self.end_leftovers(ctx);
            if !self.task_was_submitted {
                self.to_task(Input::Cancel(CancelCause::ConsumerCancelled));
            }
        }
        self.to_task(Input::Resumed);
        if self.is_unconfigured() {
            self.to_task(Input::Lost(Loss::Unconfigured));
            self.end_leftovers(ctx);
        }
        self.resume_close(ctx);
    }

    fn forget_runtime(&self, row: &RuntimeRow) {
        let changes = vec![Change::RuntimeGone(row.id.clone())];
        let draft = Draft { changes, urgency: Urgency::Settlement, ..Draft::default() };
        self.env.journal.do_send(Store { session: self.row.id.clone(), draft, then: None });
    }

    fn take_up_task(&mut self, row: TaskRow, events: &[Event], requests: Requests, ctx: &mut Context<Self>) {
        let (asked, answered) = requests;
        let harness = self.harness.clone();
        let policy = harness.task_policy(self.env.strays);
        let facts = render::facts_of(events, &row.id).into_iter().chain(asked);
        let machine = Machine::new(row.id.clone(), policy, row.time_left(clock::now()));
        let machine = machine.restored(&row, facts).with_answers(answered, clock::now());
        let sequence = events.iter().filter_map(|event| event.run.as_ref()).map(|(_, sequence)| *sequence).max();
        self.start_task_actor(row, machine, sequence.unwrap_or(0), ctx);
    }

    /// An unsettled task without a runtime: it never got one, or the runtime is lost.
    fn without_runtime(&mut self, load: Load, ctx: &mut Context<Self>) {
        let Some(task) = &self.task else { return };
        match (self.task_was_submitted, load) {
            (true, _) => task.actor.do_send(Step(Input::Lost(Loss::Swept))),
            (false, Load::Collect) => task.actor.do_send(Step(Input::Cancel(CancelCause::ConsumerCancelled))),
            (false, _) => self.admit(ctx),
        }
    }

    pub(super) fn start_task_actor(&mut self, row: TaskRow, machine: Machine, sequence: u64, ctx: &mut Context<Self>) {
        let is_task = self.harness.adapter.lifetime() == Lifetime::Task;
        self.task_request = is_task.then(|| (row.id.clone(), row.delegation.clone()));
        self.task_was_submitted = machine.was_submitted();
        self.task_since = row.since(clock::now());
        let id = row.id.clone();
        let begin = TaskBegin {
            env: self.env.clone(),
            harness: self.row.harness.clone(),
            session: ctx.address(),
            machine,
            row,
            sequence,
            guard: ExitGuard::new(ctx.address().recipient(), SessionChild::Task(id.clone())),
        };
        let actor = Task::new(begin).start();
        self.task = Some(ActiveTask { id, actor, waiters: Vec::new() });
    }

    pub(super) fn start_runtime(&mut self, row: RuntimeRow, origin: Origin, ctx: &mut Context<Self>) {
        let (harness, id) = (self.harness.clone(), row.id.clone());
        let begin = RuntimeBegin {
            env: self.env.clone(),
            harness,
            spec: self.row.spec.clone(),
            row,
            session: ctx.address(),
            origin,
            guard: ExitGuard::new(ctx.address().recipient(), SessionChild::Runtime(id.clone())),
            task: self
                .task
                .as_ref()
                .filter(|_| self.task_was_submitted)
                .map(|task| (task.actor.clone(), self.task_since())),
        };
        let actor = Runtime::new(begin).start();
        self.runtime = Some(ActiveRuntime { id, actor, state: RuntimeState::Starting, ready_timer: None });
    }

    /// The task learns of a runtime that takes tasks; which learns of the task when it is submitted.
    pub(super) fn offer_runtime(&self) {
        if let (Some(task), Some(runtime)) = (&self.task, &self.runtime) {
            task.actor.do_send(Use(runtime.actor.clone()));
        }
    }

    /// The task and the runtime learn of each other.
    pub(super) fn connect_task(&mut self) {
        self.offer_runtime();
        if let (Some(task), Some(runtime)) = (&self.task, &self.runtime) {
            runtime.actor.do_send(Serve { task: task.actor.clone(), since: self.task_since() });
        }
    }

    /// Processes younger than this are the task's, in ticks since boot.
    fn task_since(&self) -> u64 {
        ostler_keeper::tree::ticks(std::time::Duration::from_millis(self.task_since.0))
    }

    pub(super) fn runtime_row(&self) -> RuntimeRow {
        let id = RuntimeId::generate(clock::wall_ms());
        RuntimeRow {
            folder: self.env.runs.join(clock::boot_id()).join(id.as_str()),
            id,
            session: self.row.id.clone(),
            harness: self.row.harness.clone(),
            owner: self.env.owner.clone(),
            boot: clock::boot_id().to_owned(),
            submits: None,
            created_ms: clock::wall_ms(),
        }
    }
}
