//! Going on where an earlier owner, or an earlier connection, was.

use actix::prelude::*;
use ostler_keeper::folder::LastWord;
use ostler_keeper::{State, StopCause};
use serde_json::json;
use tokio_stream::wrappers::ReceiverStream;

use super::super::journal::Draft;
use super::super::reaper::look::{LookError, Standing, Start, stands};
use super::super::render;
use super::super::session::RuntimeNews;
use super::fate::Shown;
use super::{InputPipe, Origin, Phase, Runtime, TreeEnd, exit_fact};
use crate::adapter::{Answer, OpenContext, Told};
use crate::contract::event::kinds;
use crate::framer::Framer;
use crate::keeper::{Link, LinkError, Reports};
use crate::ledger::{OutboxItem, RuntimeState};
use crate::machines::settlement::Loss;
use crate::machines::task::{Input, StopMode};

impl Runtime {
    pub(super) fn resume(&mut self, origin: Origin, ctx: &mut Context<Self>) {
        match origin {
            Origin::Living { state, outbox, secret } => {
                self.restore(&state);
                self.take_outbox(outbox);
                self.attach(secret, ctx);
            }
            Origin::LastWord { state, word } => {
                self.restore(&state);
                self.hear_last_word(*word);
            }
            Origin::Unseen { state, outbox } => {
                self.restore(&state);
                self.take_outbox(outbox);
                self.phase = Phase::Unseen;
                ctx.run_later(REATTACH_PAUSE, |runtime, ctx| runtime.reattach(ctx));
            }
            Origin::Gone { state, loss } => {
                self.restore(&state);
                self.nothing_left(loss);
            }
            Origin::Fresh { .. } | Origin::NeverStarted => {}
        }
    }

    /// The adapter as its snapshot has it, and the framer where the facts end.
    fn restore(&mut self, state: &RuntimeState) {
        self.phase = Phase::Running;
        // What it has shown an earlier owner is not known, so nothing is held against it.
        self.shown = Shown::Work;
        self.stored_offset = (state.offset, state.discarding);
        self.acknowledged = state.offset;
        self.framer = Framer::new(self.harness.frame_cap, self.env.frames.clone(), state.offset, state.discarding);
        let restored = match &state.snapshot {
            Some(snapshot) => {
                self.stored_snapshot.clone_from(snapshot);
                self.harness.adapter.restore(snapshot)
            }
            // It was never told anything.
            None => Ok(self.harness.adapter.open(OpenContext { spec: &self.spec, resume: None, task: None })),
        };
        match restored {
            Ok(adapter) => self.adapter = Some(adapter),
            Err(error) => {
                tracing::error!(runtime = %self.row.id, %error, "the runtime is stopped");
                self.to_task(Input::Lost(Loss::Snapshot));
                self.order_stop(StopMode::Ladder);
            }
        }
    }

    fn take_outbox(&mut self, outbox: Vec<OutboxItem>) {
        self.durable_messages = outbox.last().map_or(0, |item| item.number);
        self.outbox = outbox.into();
    }

    fn attach(&mut self, secret: Vec<u8>, ctx: &mut Context<Self>) {
        let folder = self.row.folder.clone();
        let attach = async move { Link::attach(&folder, &secret).await };
        ctx.spawn(attach.into_actor(self).map(|attached, runtime, ctx| runtime.attached(attached, ctx)));
    }

    fn attached(&mut self, attached: Result<(Link, Reports, State), LinkError>, ctx: &mut Context<Self>) {
        match attached {
            Ok((link, reports, state)) => {
                ctx.add_stream(ReceiverStream::new(reports));
                self.link = Some(link);
                self.go_on(&state);
            }
            Err(error) => self.not_reached(Loss::Unreachable, &error, ctx),
        }
    }

    /// The keeper's state, taken as if it had just been reported.
    fn go_on(&mut self, state: &State) {
        self.phase = Phase::Running;
        self.leader = state.leader;
        let accepted = state.input.accepted;
        // Of what it was told at its start nothing is stored: the last owner was killed before.
        let untold = accepted == 0 && self.outbox.is_empty();
        self.next_message = self.next_message.max(accepted + 1).max(self.durable_messages + 1);
        self.durable_messages = self.durable_messages.max(accepted);
        (self.sent_messages, self.confirmed_messages) = (accepted, accepted);
        self.outbox.retain(|item| item.number > accepted);
        let data = json!({ "runtime_id": self.row.id });
        let mut draft = Draft { events: vec![render::outside(kinds::RUNTIME_ADOPTED, data)], ..Draft::default() };
        if untold && state.leader.is_some() {
            draft.events.extend(self.limits_told(&state.limits).events);
        }
        if untold && state.leader.is_some() {
            self.tell(Told::Started, draft);
        } else {
            self.dispatch(Answer::default(), Vec::new(), draft, 0);
        }
        self.read_from(self.framer.offset());
        self.heed_cause(state);
        if let Some(exit) = state.exit {
            self.exited(exit);
        }
        if let Some(emptiness) = state.emptiness {
            self.tree_emptied(emptiness);
        }
        if let Some(mode) = self.stop {
            self.order_stop(mode);
        }
        self.send_messages();
        for words in self.early.take().into_iter().flatten() {
            self.say(words);
        }
        self.attempts = 0;
        if self.stored_offset.0 > 0 {
            self.to_task(Input::OutputSeen);
        }
        // What was asked over the old connection is asked again.
        self.to_task(Input::Resumed);
        if state.input.closed {
            self.input = InputPipe::Closed;
        }
        self.tell_undelivered(state.input);
        self.retire();
        if !self.has_ended() {
            let ready = self.adapter.as_ref().is_some_and(|adapter| adapter.is_ready());
            self.news(RuntimeNews::Adopted { ready });
        }
    }

    /// Everything a gone keeper wrote down, in the order of an end.
    fn hear_last_word(&mut self, word: LastWord) {
        self.leader = word.state.leader;
        if self.stored_offset.0 > 0 {
            self.to_task(Input::OutputSeen);
        }
        let skip = (self.framer.offset().saturating_sub(word.state.stdout.base) as usize).min(word.stdout.len());
        self.output(&word.stdout[skip..]);
        self.error_output(&word.stderr);
        self.heed_cause(&word.state);
        if let Some(exit) = word.state.exit {
            self.exit = Some(exit_fact(exit));
            self.to_task(Input::Exited(exit_fact(exit)));
        }
        if let Some(emptiness) = word.state.emptiness {
            self.tree_emptied(emptiness);
        }
        self.output_end();
        self.errors_ended();
        self.news(RuntimeNews::Exited);
        self.finish_if_over();
    }

    fn heed_cause(&self, state: &State) {
        if state.stop == Some(StopCause::Orphaned) {
            self.to_task(Input::Orphaned);
        }
    }

    fn nothing_left(&mut self, loss: Loss) {
        self.to_task(Input::Lost(loss));
        // What ran before a boot does not run after it; the other losses say only that nothing can be seen.
        self.tree = if loss == Loss::Rebooted { TreeEnd::Proven } else { TreeEnd::Unproven };
        self.output_ended = true;
        self.live = None;
        self.finish_if_over();
    }

    /// The folder says what became of the keeper: a last word, a keeper that listens, or one that was killed.
    pub(super) fn reattach(&mut self, ctx: &mut Context<Self>) {
        let row = self.row.clone();
        // A keeper that ended before it registered has started nothing.
        let start = if matches!(self.phase, Phase::Starting | Phase::Unseen) { Start::Open } else { Start::Over };
        let look = async move { stands(&row, start).await };
        ctx.spawn(look.into_actor(self).map(|found, runtime, ctx| runtime.looked(found, ctx)));
    }

    fn looked(&mut self, found: Result<Standing, LookError>, ctx: &mut Context<Self>) {
        match found {
            Ok(Standing::NeverStarted) => self.not_started("its keeper ended before it started the agent", ctx),
            Ok(Standing::LastWord(word)) => self.hear_last_word(*word),
            Ok(Standing::Living(secret)) => self.attach(secret, ctx),
            Ok(Standing::Swept) => self.nothing_left(Loss::Swept),
            Ok(Standing::Rebooted) => self.nothing_left(Loss::Rebooted),
            Ok(Standing::Leaked) => {
                self.attempts = self.attempts.max(MOST_ATTEMPTS);
                self.not_reached(Loss::Leaked, &"processes of it outlive every signal", ctx);
            }
            Err(error) => self.not_reached(Loss::Unreachable, &error, ctx),
        }
    }

    /// Nothing is known of it, so it is looked for again, for ever. Its task and whoever waits for its end do not wait so
    /// long; its row and its folder stay, and with them everything by which it can be ended.
    fn not_reached(&mut self, loss: Loss, why: &dyn std::fmt::Display, ctx: &mut Context<Self>) {
        self.attempts = self.attempts.saturating_add(1);
        if self.attempts < MOST_ATTEMPTS {
            tracing::info!(runtime = %self.row.id, %why, "the keeper could not be attached to");
        } else {
            if self.attempts == MOST_ATTEMPTS {
                tracing::error!(runtime = %self.row.id, %why, "the keeper cannot be attached to; it is watched on");
            }
            // Nobody has a use for it any more, if it comes back.
            self.stop.get_or_insert(StopMode::Ladder);
            self.to_task(Input::Lost(loss));
            self.news(RuntimeNews::Leaked);
        }
        let pause = if loss == Loss::Leaked { SWEEP_PAUSE } else { REATTACH_PAUSE * self.attempts.clamp(1, 20) };
        ctx.run_later(pause, |runtime, ctx| runtime.reattach(ctx));
    }
}

/// The pause before a keeper is tried again, times the attempt.
const REATTACH_PAUSE: std::time::Duration = std::time::Duration::from_millis(50);
/// The pause between sweeps of what outlives every signal.
const SWEEP_PAUSE: std::time::Duration = std::time::Duration::from_secs(30);
/// After so many its task is not kept waiting any more.
const MOST_ATTEMPTS: u32 = 40;
