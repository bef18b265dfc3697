//! From an accepted task to a running one; and what is asked of it.

use std::time::Duration;

use actix::prelude::*;
use tokio::sync::oneshot;

use super::super::harnesses::{Fate, Prepare};
use super::super::opens::{Acquire, LivePermit, StartPermit};
use super::super::runtime::{Order, Origin, Past};
use super::super::task::{Respond, Step};
use super::{Answer, CancelTask, ContextMachine, RuntimeState, Session, SessionError, TaskAnswer, Wait};
use crate::adapter::Lifetime;
use crate::machines::health::Input as HealthInput;
use crate::machines::task::{Input, StopMode};

impl Session {
    /// Finds a runtime for the task: the warm one, or a new one.
    pub(super) fn admit(&mut self, ctx: &mut Context<Self>) {
        self.to_task(Input::Admitted);
        match &self.runtime {
            Some(runtime) if runtime.state == RuntimeState::Ready => {
                self.offer_runtime();
                self.to_task(Input::RuntimeReady);
            }
            Some(runtime) if runtime.state == RuntimeState::Starting => self.connect_task(),
            // One tree at a time: the next one starts when this one is proven empty.
            Some(_) => {}
            None => self.acquire(ctx),
        }
    }

    fn acquire(&mut self, ctx: &mut Context<Self>) {
        // A session that is loaded while everything is closed starts nothing; the next owner does.
        if self.env.is_draining() {
            return;
        }
        let (reply, granted) = oneshot::channel();
        self.env.opens.do_send(Acquire { reply });
        self.acquiring += 1;
        ctx.spawn(granted.into_actor(self).map(|granted, session, ctx| {
            session.acquiring -= 1;
            match granted {
                Ok(Ok((live, start))) => session.prepare(live, start, ctx),
                Ok(Err(full)) => session.not_started(&full),
                Err(_) => session.not_started(&SessionError::Interrupted),
            }
            session.perhaps_unused(ctx);
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
        let past = if self.row.native.is_some() { Past::Something } else { Past::Nothing };
        let native = self.row.native.as_ref().filter(|native| native.resumable);
        let resume = native.map(|native| native.id.clone());
        let task = self.task.as_ref().map(|task| task.id.clone());
        let ask = Prepare {
            harness: self.harness.clone(),
            spec: self.row.spec.clone(),
            resume: resume.clone(),
            task: self.task_request.clone(),
        };
        let prepared = self.env.harnesses.send(ask);
        ctx.spawn(prepared.into_actor(self).map(move |prepared, session, ctx| match prepared {
            // Another task is there by now: this plan has the words of the one before.
            Ok(_) if session.task.as_ref().map(|task| &task.id) != task.as_ref() => {
                session.prepare(live, start, ctx);
            }
            Ok(Ok(plan)) => {
                let plan = Box::new(plan);
                session.open(Origin::Fresh { plan, resume, past, live, start }, ctx);
            }
            Ok(Err(error)) => session.not_started(&error),
            Err(_) => session.not_started(&SessionError::Interrupted),
        }));
    }

    fn open(&mut self, origin: Origin, ctx: &mut Context<Self>) {
        if self.task.is_none() || self.runtime.is_some() {
            return self.tell_harness(HealthInput::Unused { age: Duration::ZERO }, None);
        }
        self.start_runtime(self.runtime_row(), origin, ctx);
        self.connect_task();
        let lifetime = self.harness.adapter.lifetime();
        let Some(runtime) = &self.runtime else { return };
        if lifetime == Lifetime::Task {
            // The start is the submission.
            self.to_task(Input::RuntimeReady);
            return;
        }
        runtime.actor.do_send(Order::Start);
        self.await_ready(ctx);
    }

    pub(super) fn await_ready(&mut self, ctx: &mut Context<Self>) {
        let Some(runtime) = &mut self.runtime else { return };
        let ready = self.harness.deadlines.ready;
        runtime.ready_timer = Some(ctx.run_later(ready, |session, _| session.never_ready()));
    }

    fn never_ready(&mut self) {
        if let Some(runtime) = self.runtime.as_mut().filter(|runtime| runtime.state == RuntimeState::Starting) {
            runtime.state = RuntimeState::Ending;
            runtime.actor.do_send(Order::Stop(StopMode::Ladder));
            let why = "the agent was not ready within its deadline".to_owned();
            self.tell_harness(HealthInput::NotStarted, Some(why.clone()));
            self.to_task(Input::NotStarted(why));
        }
    }

    pub(super) fn tell_harness(&self, input: HealthInput, why: Option<String>) {
        // At most two for each start: bounded.
        self.env.harnesses.do_send(Fate { harness: self.harness.clone(), input, why });
    }

    pub(super) fn to_task(&self, input: Input) {
        if let Some(task) = &self.task {
            // A handful for each task: bounded.
            task.actor.do_send(Step(input));
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
