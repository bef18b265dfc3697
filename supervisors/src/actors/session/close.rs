//! Closing: the task is cancelled, the runtime stopped, and success said when the kernel has confirmed it.

use actix::prelude::*;
use serde_json::json;

use super::super::journal::{Draft, Store};
use super::super::render;
use super::super::runtime::Order;
use super::super::task::Step;
use super::{CloseMode, CloseSession, ContextMachine, RuntimeState, Session};
use crate::contract::CancelCause;
use crate::contract::event::kinds;
use crate::ledger::{Change, SessionRow, SessionState};
use crate::machines::close::{Effect, Input};
use crate::machines::task::{Input as TaskInput, StopMode};

impl Handler<CloseSession> for Session {
    type Result = ();

    fn handle(&mut self, close: CloseSession, ctx: &mut Self::Context) {
        self.next_closer += 1;
        self.closers.push((self.next_closer, close.reply));
        let effect = self.close.step(Input::Ask(self.next_closer));
        match effect {
            Some(Effect::Begin) => self.begin_close(close.mode, ctx),
            Some(Effect::Done(waiters)) => self.tell_closers(&waiters),
            Some(Effect::Failed(_)) | None => {}
        }
        self.finish_close();
    }
}

impl Session {
    fn begin_close(&mut self, mode: CloseMode, ctx: &mut Context<Self>) {
        let cause = match mode {
            CloseMode::Session => CancelCause::Requested,
            CloseMode::Runtime(cause) => cause,
        };
        if mode == CloseMode::Session {
            self.context.close();
            self.store_closed();
        }
        self.task_cancel = Some(cause);
        if let Some(task) = &self.task {
            task.actor.do_send(Step(TaskInput::Cancel(cause)));
        } else {
            self.stop_idle_runtime();
        }
        let _ctx = ctx;
    }

    fn store_closed(&mut self) {
        self.row.state = SessionState::Closed;
        let row = SessionRow { native: None, ..self.row.clone() };
        let draft = Draft {
            events: vec![render::outside(kinds::SESSION_CLOSED, json!({}))],
            changes: vec![Change::Session(row)],
            ..Draft::default()
        };
        self.env.journal.do_send(Store { session: self.row.id.clone(), draft, then: None });
    }

    fn stop_idle_runtime(&mut self) {
        if let Some(runtime) = &mut self.runtime {
            runtime.state = RuntimeState::Ending;
            runtime.actor.do_send(Order::Stop(StopMode::Ladder));
        }
    }

    /// What an owner left that will not come back is ended: its keeper does so by itself, this only joins.
    pub(super) fn end_leftovers(&mut self, ctx: &mut Context<Self>) {
        let _ctx = ctx;
        if let Some(runtime) = &self.runtime {
            runtime.actor.do_send(Order::Stop(StopMode::Ladder));
        }
    }

    pub(super) fn finish_close(&mut self) {
        let closing = matches!(self.close, crate::machines::close::Close::Closing(_));
        // A task whose row is being committed is one too.
        let claimed = matches!(self.context, ContextMachine::Busy(_) | ContextMachine::Closing(_));
        if !closing || self.task.is_some() || claimed {
            return;
        }
        if self.runtime.is_some() {
            return self.stop_idle_runtime();
        }
        if let Some(Effect::Done(waiters)) = self.close.step(Input::Confirmed) {
            self.tell_closers(&waiters);
        }
        if self.row.state == SessionState::Open {
            // Only the runtime was closed; the session can be used again.
            self.close = crate::machines::close::Close::Open;
        }
    }

    pub(super) fn tell_closers(&mut self, waiters: &[u64]) {
        for (_, closer) in self.closers.extract_if(.., |(id, _)| waiters.contains(id)) {
            let _gone = closer.send(());
        }
    }
}
