//! Closing: the task is cancelled, the runtime stopped, and success said when the kernel has confirmed it.

use actix::prelude::*;
use serde_json::json;
use tokio::sync::oneshot;

use super::super::journal::{Draft, Store, Stored};
use super::super::render;
use super::super::runtime::Order;
use super::super::task::Step;
use super::{CloseMode, CloseSession, ContextMachine, RuntimeState, Session, SessionError};
use crate::contract::CancelCause;
use crate::contract::event::kinds;
use crate::faults::Boundary;
use crate::ledger::{Change, SessionRow, SessionState, Urgency};
use crate::machines::close::{Close, Effect, Input};
use crate::machines::task::{Input as TaskInput, StopMode};

/// Who is told how a close went.
pub(super) type Closer = oneshot::Sender<Result<(), SessionError>>;

/// The session's last event is durable, or was refused.
#[derive(Message)]
#[rtype(result = "()")]
struct ClosedStored {
    stored: Stored,
}

impl Handler<CloseSession> for Session {
    type Result = ();

    fn handle(&mut self, close: CloseSession, ctx: &mut Self::Context) {
        self.used(ctx);
        self.next_closer += 1;
        self.closers.push((self.next_closer, close.reply));
        let cause = match close.mode {
            CloseMode::Session => {
                // Also where a close of only its runtime is under way: whoever asks for less does not make it less.
                self.close_for_good();
                CancelCause::Requested
            }
            CloseMode::Runtime(cause) => cause,
            CloseMode::Unused => {
                if matches!(self.context, ContextMachine::Busy(_)) {
                    let closer = self.next_closer;
                    return self.tell_closers(&[closer], || Ok(()));
                }
                CancelCause::ConsumerCancelled
            }
        };
        self.ask_close(self.next_closer, cause, ctx);
        self.perhaps_unused(ctx);
    }
}

impl Session {
    fn ask_close(&mut self, closer: u64, cause: CancelCause, ctx: &mut Context<Self>) {
        if self.close.is_open() {
            self.close_cause = cause;
        }
        let effect = self.close.step(Input::Ask(closer));
        self.close_followed(effect, ctx);
        self.finish_close(ctx);
    }

    /// A close that an earlier owner had begun is gone on with.
    pub(super) fn resume_close(&mut self, ctx: &mut Context<Self>) {
        if self.row.state == SessionState::Closing {
            self.next_closer += 1;
            self.ask_close(self.next_closer, CancelCause::Requested, ctx);
        }
    }

    pub(super) fn close_followed(&mut self, effect: Option<Effect<u64>>, ctx: &mut Context<Self>) {
        let Some(effect) = effect else { return };
        let boundary = Boundary::of_close(&effect);
        boundary.before();
        match effect {
            Effect::Begin => self.begin_close(),
            Effect::Done(waiters) => self.closed(waiters, ctx),
            Effect::Failed(waiters) => {
                let session = self.row.id.clone();
                self.tell_closers(&waiters, || Err(SessionError::NotClosed(session.clone())));
            }
        }
        boundary.after();
    }

    fn begin_close(&mut self) {
        self.task_cancel = Some(self.close_cause);
        if let Some(task) = &self.task {
            task.actor.do_send(Step(TaskInput::Cancel(self.close_cause)));
        } else {
            self.stop_idle_runtime();
        }
    }

    /// It takes no further task from here on, whatever happens to this process.
    fn close_for_good(&mut self) {
        self.context.close();
        if self.row.state != SessionState::Open {
            return;
        }
        self.row.state = SessionState::Closing;
        let draft = Draft { changes: vec![self.row_without_native()], ..Draft::default() };
        self.env.journal.do_send(Store { session: self.row.id.clone(), draft, then: None });
    }

    fn row_without_native(&self) -> Change {
        Change::Session(SessionRow { native: None, ..self.row.clone() })
    }

    pub(super) fn stop_idle_runtime(&mut self) {
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

    /// Once nothing of it runs any more; also after a close that had failed, when what outlived it is gone at last.
    pub(super) fn finish_close(&mut self, ctx: &mut Context<Self>) {
        let asked = matches!(self.close, Close::Closing(_));
        // A task whose row is being committed is one too.
        let claimed = matches!(self.context, ContextMachine::Busy(_) | ContextMachine::Closing(_));
        if !(asked || self.row.state == SessionState::Closing) || self.task.is_some() || claimed {
            return;
        }
        if self.runtime.is_some() {
            if asked {
                self.stop_idle_runtime();
            }
            return;
        }
        let effect = self.close.step(Input::Confirmed).or(Some(Effect::Done(Vec::new())));
        self.close_followed(effect, ctx);
    }

    /// The kernel has confirmed it. Whoever waits is told when that is stored.
    fn closed(&mut self, waiters: Vec<u64>, ctx: &mut Context<Self>) {
        if self.row.state != SessionState::Closing {
            self.tell_closers(&waiters, || Ok(()));
            if self.row.state == SessionState::Open {
                // Only the runtime was closed; the session can be used again.
                self.close = Close::Open;
            }
            return;
        }
        if let Some(told) = &mut self.storing_close {
            return told.extend(waiters);
        }
        self.storing_close = Some(waiters);
        let row = SessionRow { state: SessionState::Closed, native: None, ..self.row.clone() };
        let draft = Draft {
            events: vec![render::outside(kinds::SESSION_CLOSED, json!({}))],
            changes: vec![Change::Session(row)],
            urgency: Urgency::Settlement,
        };
        let own = ctx.address();
        let then = Box::new(move |stored| own.do_send(ClosedStored { stored }));
        self.env.journal.do_send(Store { session: self.row.id.clone(), draft, then: Some(then) });
    }

    fn tell_closers(&mut self, waiters: &[u64], how: impl Fn() -> Result<(), SessionError>) {
        for (_, closer) in self.closers.extract_if(.., |(id, _)| waiters.contains(id)) {
            let _gone = closer.send(how());
        }
    }
}

impl Handler<ClosedStored> for Session {
    type Result = ();

    fn handle(&mut self, closed: ClosedStored, ctx: &mut Self::Context) {
        let ClosedStored { stored } = closed;
        match &stored {
            Ok(()) => self.row.state = SessionState::Closed,
            // It can be tried again.
            Err(_) => self.close = Close::Open,
        }
        let waiters = self.storing_close.take().unwrap_or_default();
        self.tell_closers(&waiters, || stored.clone().map_err(SessionError::from));
        self.perhaps_unused(ctx);
    }
}
