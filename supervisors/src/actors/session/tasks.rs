//! From a delegation to a running task.

use actix::prelude::*;
use tokio::sync::oneshot;

use super::super::harnesses::Prepare;
use super::super::journal::{Draft, JournalState, NewEvent, Store, Stored};
use super::super::opens::{Acquire, LivePermit, StartPermit};
use super::super::render;
use super::super::runtime::{Order, Origin};
use super::super::task::{Respond, Step};
use super::{Answer, CancelTask, ContextMachine, RuntimeState, Session, SessionError, StartTask, TaskAnswer, Wait};
use crate::adapter::Lifetime;
use crate::clock;
use crate::contract::TaskId;
use crate::harness::HarnessError;
use crate::ledger::{Change, TaskRow};
use crate::machines::task::{Input, StopMode, Task as Machine};

/// The longest prompt, in bytes: with its envelope, and every byte escaped, it still fits into one frame of a keeper.
const MAX_PROMPT: usize = 8 << 20;

impl Session {
    /// The row is committed, with the two events that open the run, before anybody is told.
    fn accept(&mut self, start: StartTask, ctx: &mut Context<Self>) -> Result<(), (SessionError, StartTask)> {
        if let JournalState::Stalled(why) = &*self.env.journal_state.borrow() {
            return Err((SessionError::Stalled(why.clone()), start));
        }
        let bytes = start.delegation.prompt.len();
        if bytes > MAX_PROMPT {
            return Err((SessionError::PromptTooLong { bytes, most: MAX_PROMPT }, start));
        }
        if self.harness.is_none() {
            return Err((HarnessError::Unknown(self.row.harness.clone()).into(), start));
        }
        if self.env.is_draining() || !self.close.is_open() {
            return Err((SessionError::Draining, start));
        }
        let id = TaskId::generate(clock::wall_ms());
        self.task_cancel = None;
        if let Err(error) = self.context.claim(&self.row.id, id.clone()) {
            return Err((error.into(), start));
        }
        let row = TaskRow::accepted(id.clone(), self.row.id.clone(), start.delegation, clock::wall_ms());
        let opening = render::opening(&self.row.harness, &self.row.spec, &row.delegation, &id);
        let event = |(index, (kind, data)): (usize, _)| NewEvent {
            run: Some((id.clone(), index as u64 + 1)),
            kind,
            data: render::payload(&data),
        };
        let events: Vec<NewEvent> = opening.into_iter().enumerate().map(event).collect();
        let sequence = events.len() as u64;
        let draft = Draft { events, changes: vec![Change::Task(Box::new(row.clone()))], ..Draft::default() };
        let (own, reply) = (ctx.address(), start.reply);
        let then = Box::new(move |stored| own.do_send(Accepted { row: Box::new(row), sequence, reply, stored }));
        self.env.journal.do_send(Store { session: self.row.id.clone(), draft, then: Some(then) });
        Ok(())
    }

    /// Finds a runtime for the task: the warm one, or a new one.
    pub(super) fn admit(&mut self, ctx: &mut Context<Self>) {
        self.to_task(Input::Admitted);
        match &self.runtime {
            Some(runtime) if runtime.state == RuntimeState::Ready => {
                self.connect_task();
                self.to_task(Input::RuntimeReady);
            }
            Some(runtime) if runtime.state == RuntimeState::Starting => self.connect_task(),
            // One tree at a time: the next one starts when this one is proven empty.
            Some(_) => {}
            None => self.acquire(ctx),
        }
    }

    fn acquire(&mut self, ctx: &mut Context<Self>) {
        let (reply, granted) = oneshot::channel();
        self.env.opens.do_send(Acquire { reply });
        ctx.spawn(granted.into_actor(self).map(|granted, session, ctx| match granted {
            Ok(Ok((live, start))) => session.prepare(live, start, ctx),
            Ok(Err(full)) => session.not_started(&full),
            Err(_) => session.not_started(&SessionError::Interrupted),
        }));
    }

    fn not_started(&self, why: &dyn std::fmt::Display) {
        self.to_task(Input::NotStarted(why.to_string()));
    }

    fn prepare(&mut self, live: LivePermit, start: StartPermit, ctx: &mut Context<Self>) {
        // Cancelled meanwhile: the permits go back.
        if self.task.is_none() || self.runtime.is_some() {
            return;
        }
        let native = self.row.native.as_ref().filter(|native| native.resumable);
        let resume = native.map(|native| native.id.clone());
        let ask = Prepare {
            harness: self.row.harness.clone(),
            spec: self.row.spec.clone(),
            resume: resume.clone(),
            task: self.task_request.clone(),
        };
        let prepared = self.env.harnesses.send(ask);
        ctx.spawn(prepared.into_actor(self).map(move |prepared, session, ctx| match prepared {
            Ok(Ok((_, plan))) => {
                let plan = Box::new(plan);
                session.open(Origin::Fresh { plan, resume, live, start }, ctx);
            }
            Ok(Err(error)) => session.not_started(&error),
            Err(_) => session.not_started(&SessionError::Interrupted),
        }));
    }

    fn open(&mut self, origin: Origin, ctx: &mut Context<Self>) {
        if self.task.is_none() || self.runtime.is_some() {
            return;
        }
        self.start_runtime(self.runtime_row(), origin, ctx);
        self.connect_task();
        let lifetime = self.harness.as_ref().map(|harness| harness.adapter.lifetime());
        let Some(runtime) = &self.runtime else { return };
        if lifetime == Some(Lifetime::Task) {
            // The start is the submission.
            self.to_task(Input::RuntimeReady);
            return;
        }
        runtime.actor.do_send(Order::Start);
        self.await_ready(ctx);
    }

    pub(super) fn await_ready(&mut self, ctx: &mut Context<Self>) {
        let Some(runtime) = &mut self.runtime else { return };
        let ready = self.harness.as_ref().map(|harness| harness.deadlines.ready).unwrap_or_default();
        runtime.ready_timer = Some(ctx.run_later(ready, |session, _| session.never_ready()));
    }

    fn never_ready(&mut self) {
        if let Some(runtime) = self.runtime.as_mut().filter(|runtime| runtime.state == RuntimeState::Starting) {
            runtime.state = RuntimeState::Ending;
            runtime.actor.do_send(Order::Stop(StopMode::Ladder));
            self.to_task(Input::NotStarted("the agent was not ready within its deadline".to_owned()));
        }
    }

    pub(super) fn to_task(&self, input: Input) {
        if let Some(task) = &self.task {
            // A handful for each task: bounded.
            task.actor.do_send(Step(input));
        }
    }
}

/// A task's row is committed.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Accepted {
    row: Box<TaskRow>,
    sequence: u64,
    reply: oneshot::Sender<Result<TaskId, SessionError>>,
    stored: Stored,
}

impl Handler<StartTask> for Session {
    type Result = ();

    fn handle(&mut self, start: StartTask, ctx: &mut Self::Context) {
        if let Err((error, start)) = self.accept(start, ctx) {
            let _gone = start.reply.send(Err(error));
        }
    }
}

impl Handler<Accepted> for Session {
    type Result = ();

    fn handle(&mut self, accepted: Accepted, ctx: &mut Self::Context) {
        let Accepted { row, sequence, reply, stored } = accepted;
        let Some(harness) = self.harness.clone() else { return };
        if let Err(error) = stored {
            self.context.settled(&row.id, None);
            let _gone = reply.send(Err(error.into()));
            return;
        }
        let policy = harness.task_policy(self.env.strays);
        let machine = Machine::new(row.id.clone(), policy, row.delegation.timeout);
        let cancel = self.task_cancel.take();
        let id = row.id.clone();
        self.start_task_actor(*row, machine, sequence, ctx);
        // A caller that is gone finds its task by the list.
        let _gone = reply.send(Ok(id));
        match cancel {
            // Requested while the row was being committed: remembered, and met here.
            Some(cause) => self.to_task(Input::Cancel(cause)),
            None => self.admit(ctx),
        }
    }
}

impl Handler<Wait> for Session {
    type Result = ();

    fn handle(&mut self, wait: Wait, ctx: &mut Self::Context) {
        if let Some(task) = self.task.as_mut().filter(|task| task.id == wait.task) {
            task.waiters.push(wait.reply);
            return;
        }
        let ledger = self.env.ledger.clone();
        let answer = async move {
            let found = ledger.task(&wait.task).await.map_err(SessionError::from);
            let found = found.and_then(|row| row.ok_or(SessionError::UnknownTask(wait.task)));
            let _gone = wait.reply.send(found);
        };
        ctx.spawn(answer.into_actor(self));
    }
}

impl Handler<CancelTask> for Session {
    type Result = Result<(), SessionError>;

    fn handle(&mut self, cancel: CancelTask, _: &mut Self::Context) -> Self::Result {
        if self.task.as_ref().is_some_and(|task| task.id == cancel.task) {
            self.to_task(Input::Cancel(cancel.cause));
        } else if matches!(&self.context, ContextMachine::Busy(task) if *task == cancel.task) {
            self.task_cancel = Some(cancel.cause);
        }
        // A settled task is left as it is: a cancel of it is a no-op (AHP 2.2).
        Ok(())
    }
}

impl Handler<Answer> for Session {
    type Result = ();

    fn handle(&mut self, answer: Answer, _: &mut Self::Context) {
        let Answer { task, interaction, response, reply } = answer;
        match self.task.as_ref().filter(|active| active.id == task) {
            Some(active) => active.actor.do_send(Respond { interaction, response, reply }),
            None => {
                let _gone = reply.send(TaskAnswer::Refused);
            }
        }
    }
}
