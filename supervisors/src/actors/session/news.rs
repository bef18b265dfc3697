//! What runtimes and tasks tell their session.

use actix::prelude::*;
use serde_json::json;

use super::super::journal::{Draft, Store};
use super::super::render;
use super::super::runtime::{Order, TreeEnd};
use super::super::task::LetGo;
use super::{FromRuntime, RuntimeNews, RuntimeState, Session, TaskNotTaken, TaskSettled};
use crate::adapter::Lifetime;
use crate::contract::Verdict;
use crate::contract::event::kinds;
use crate::harness::OnLostSession;
use crate::ledger::Change;
use crate::machines::close::Input as CloseInput;
use crate::machines::context::blocking;
use crate::machines::health::Input as HealthInput;
use crate::machines::task::{Input, StopMode};

impl Handler<FromRuntime> for Session {
    type Result = ();

    fn handle(&mut self, from: FromRuntime, ctx: &mut Self::Context) {
        // What a departing runtime still says can neither feed nor disconnect its successor.
        if self.runtime.as_ref().is_none_or(|runtime| runtime.id != from.runtime) {
            return;
        }
        match from.news {
            RuntimeNews::Ready => self.runtime_ready(ctx),
            RuntimeNews::Adopted { ready } => self.runtime_adopted(ready, ctx),
            RuntimeNews::Free => self.runtime_free(ctx),
            RuntimeNews::Leaked => self.runtime_leaked(ctx),
            RuntimeNews::NotReady(message) => {
                self.tell_harness(HealthInput::NotStarted, Some(message.clone()));
                self.runtime_not_ready(message, ctx);
            }
            RuntimeNews::NativeLost(message) => self.native_lost(&message, ctx),
            RuntimeNews::NotStarted | RuntimeNews::Exited | RuntimeNews::Stopping => {
                self.set_runtime(RuntimeState::Ending, ctx)
            }
            RuntimeNews::Native(native) => self.row.native = Some(native),
            RuntimeNews::Over(tree) => self.runtime_over(tree, ctx),
        }
    }
}

impl Session {
    fn set_runtime(&mut self, state: RuntimeState, ctx: &mut Context<Self>) {
        if let Some(runtime) = &mut self.runtime {
            runtime.state = state;
            if let Some(timer) = runtime.ready_timer.take() {
                ctx.cancel_future(timer);
            }
        }
    }

    fn runtime_adopted(&mut self, ready: bool, ctx: &mut Context<Self>) {
        if self.runtime.as_ref().is_some_and(|runtime| runtime.state == RuntimeState::Ending) {
            return;
        }
        if ready {
            self.set_runtime(RuntimeState::Ready, ctx);
        } else {
            self.await_ready(ctx);
        }
        self.admit_waiting(ctx);
        self.perhaps_idle(ctx);
    }

    fn runtime_free(&mut self, ctx: &mut Context<Self>) {
        if self.runtime.as_ref().is_some_and(|runtime| runtime.state == RuntimeState::Leaving) {
            self.set_runtime(RuntimeState::Ready, ctx);
            self.admit_waiting(ctx);
            self.perhaps_idle(ctx);
        }
    }

    /// A task that was never submitted takes the runtime as it finds it.
    fn admit_waiting(&mut self, ctx: &mut Context<Self>) {
        if self.task.is_some() && !self.task_was_submitted {
            self.admit(ctx);
        }
    }

    /// Whoever waits for the close is told the truth; the keeper watches on.
    fn runtime_leaked(&mut self, ctx: &mut Context<Self>) {
        self.set_runtime(RuntimeState::Ending, ctx);
        let effect = self.close.step(CloseInput::Failed);
        self.close_followed(effect, ctx);
    }

    fn runtime_ready(&mut self, ctx: &mut Context<Self>) {
        self.set_runtime(RuntimeState::Ready, ctx);
        self.to_task(Input::RuntimeReady);
        self.perhaps_idle(ctx);
    }

    fn runtime_not_ready(&mut self, message: String, ctx: &mut Context<Self>) {
        self.set_runtime(RuntimeState::Ending, ctx);
        self.to_task(Input::NotStarted(message));
        if let Some(runtime) = &self.runtime {
            runtime.actor.do_send(Order::Stop(StopMode::Ladder));
        }
    }

    /// The past is gone with the harness's own store. Only where the configuration says so does the task begin without
    /// it, once, in a runtime of its own.
    fn native_lost(&mut self, message: &str, ctx: &mut Context<Self>) {
        let Some(native) = self.row.native.as_mut().filter(|native| native.resumable) else {
            return self.runtime_not_ready(message.to_owned(), ctx);
        };
        if self.harness.on_lost_session == OnLostSession::Fail {
            let why = format!(
                "the harness has lost its session {}: {message}; start a new one, or set on_lost_session = \"fresh\"",
                native.id
            );
            return self.runtime_not_ready(why, ctx);
        }
        native.resumable = false;
        let change = Change::Native { session: self.row.id.clone(), native: native.clone() };
        let event = render::outside(kinds::NATIVE_LOST, json!({ "native_id": native.id, "message": message }));
        let draft = Draft { events: vec![event], changes: vec![change], ..Draft::default() };
        self.env.journal.do_send(Store { session: self.row.id.clone(), draft, then: None });
        self.set_runtime(RuntimeState::Ending, ctx);
        if let Some(runtime) = &self.runtime {
            runtime.actor.do_send(Order::Unserve);
        }
        self.stop_idle_runtime();
    }

    fn runtime_over(&mut self, tree: TreeEnd, ctx: &mut Context<Self>) {
        self.runtime = None;
        self.not_idle(ctx);
        if tree == TreeEnd::Proven {
            self.lift_block();
        }
        self.admit_waiting(ctx);
        self.finish_close(ctx);
        self.perhaps_unused(ctx);
    }
}

impl Handler<TaskNotTaken> for Session {
    type Result = ();

    fn handle(&mut self, waiting: TaskNotTaken, ctx: &mut Self::Context) {
        if self.task.as_ref().is_none_or(|task| task.id != waiting.0) {
            return;
        }
        self.runtime.take_if(|runtime| !runtime.actor.connected());
        if let Some(runtime) = self.runtime.as_mut().filter(|runtime| runtime.state == RuntimeState::Ready) {
            // Offered again it would refuse again; the next one comes when this one is over.
            runtime.state = RuntimeState::Ending;
            runtime.actor.do_send(Order::Stop(StopMode::Ladder));
        }
        self.admit_waiting(ctx);
    }
}

impl Handler<TaskSettled> for Session {
    type Result = ();

    fn handle(&mut self, settled: TaskSettled, ctx: &mut Self::Context) {
        let Some(task) = self.task.take_if(|task| task.id == settled.row.id) else { return };
        // The block is there before anybody is told.
        let unresolved = settled.row.outcome.as_ref().and_then(|outcome| blocking(outcome, self.row.native.as_ref()));
        self.context.settled(&task.id, unresolved);
        let evidence = settled.row.outcome.as_ref().map(|outcome| &outcome.evidence);
        self.left_running = evidence.map(|evidence| evidence.left_running.clone()).unwrap_or_default();
        self.tell_of_block();
        for waiter in task.waiters {
            let _gone = waiter.send(Ok((*settled.row).clone()));
        }
        let lost = settled.row.outcome.is_some_and(|outcome| matches!(outcome.verdict, Verdict::Unresolved { .. }));
        match &mut self.runtime {
            None => task.actor.do_send(LetGo { runtime: None }),
            Some(runtime) => {
                // The runtime lets go of the task, after the last fact it has for it.
                runtime.actor.do_send(Order::TaskOver(task.actor));
                // Nothing may go on acting on behalf of a task whose end is not known; and a program that is the task
                // has no use without it.
                let is_task = self.harness.adapter.lifetime() == Lifetime::Task;
                if lost || (is_task && runtime.state == RuntimeState::Starting) {
                    runtime.actor.do_send(Order::Stop(StopMode::Ladder));
                }
                if runtime.state == RuntimeState::Ready {
                    runtime.state = RuntimeState::Leaving;
                }
            }
        }
        self.task_was_submitted = false;
        self.finish_close(ctx);
        self.perhaps_unused(ctx);
    }
}
