//! Cancelling: requests are cleared, then the native interrupt, then the ladder; each with its deadline.

use crate::adapter::InterruptMode;
use crate::contract::{CancelCause, ClearReason, Proof, Verdict};

use crate::machines::interaction::Input;

use super::{CancelFacts, Effect, Millis, Record, StopMode, Task, Timer};

/// How hard the tree was asked to stop already. It never gets softer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Force {
    None,
    Ladder,
    Kill,
}

/// Whether a cancel of an earlier owner has still to be carried out by this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Again {
    No,
    Due,
}

impl Task {
    pub(super) fn cancel(&mut self, cause: CancelCause, now: Millis, effects: &mut Vec<Effect>) {
        match self.facts.cancel {
            Some(earlier) if !self.was_submitted() => self.carry_out_cancel(earlier.cause, now, effects),
            Some(_) => self.force(StopMode::Kill, now, effects),
            None => {
                effects.push(Effect::Record(Record::CancelRequested(cause)));
                self.facts.cancel = Some(CancelFacts { cause, delivered: false, expired: false });
                self.carry_out_cancel(cause, now, effects);
            }
        }
    }

    /// Recovery never restarts what somebody cancelled.
    pub(super) fn cancel_again(&mut self, now: Millis, effects: &mut Vec<Effect>) {
        if let (Again::Due, Some(cancel)) = (self.again, self.facts.cancel) {
            self.carry_out_cancel(cancel.cause, now, effects);
        }
    }

    fn carry_out_cancel(&mut self, cause: CancelCause, now: Millis, effects: &mut Vec<Effect>) {
        self.again = Again::No;
        if !self.was_submitted() {
            return self.settle(Verdict::Cancelled { cause }, Proof::NeverSubmitted, effects);
        }
        // Cleared first: an agent that waits for an answer does not hear an interrupt.
        self.clear_interactions(ClearReason::CancellationRequested, effects);
        effects.push(Effect::SetTimer(Timer::CancelBudget, now + self.policy.cancel_budget));
        match self.policy.interrupt {
            InterruptMode::Native => {
                self.delivered();
                effects.push(Effect::Interrupt);
                effects.push(Effect::SetTimer(Timer::InterruptGrace, now + self.policy.interrupt_grace));
            }
            InterruptMode::None => self.force(StopMode::Ladder, now, effects),
        }
    }

    /// Something of ours is on its way to end it, from now on; an exit that was seen before was not its doing.
    fn delivered(&mut self) {
        let before_the_exit = self.facts.exit.is_none();
        if let Some(cancel) = &mut self.facts.cancel {
            cancel.delivered |= before_the_exit;
        }
    }

    pub(super) fn stop_tree(&mut self, now: Millis, effects: &mut Vec<Effect>) {
        self.force(StopMode::Ladder, now, effects);
    }

    pub(super) fn force(&mut self, mode: StopMode, now: Millis, effects: &mut Vec<Effect>) {
        let force = match mode {
            StopMode::Ladder => Force::Ladder,
            StopMode::Kill => Force::Kill,
        };
        if force <= self.forced || !self.was_submitted() {
            return;
        }
        self.forced = force;
        self.delivered();
        effects.push(Effect::StopTree(mode));
        effects.push(Effect::SetTimer(Timer::CancelBudget, now + self.policy.cancel_budget));
    }

    /// Each answer has its own deadline; the timer is that of the first.
    pub(super) fn wait_for_answers(&self, effects: &mut Vec<Effect>) {
        if let Some((_, until)) = self.answers.first() {
            effects.push(Effect::SetTimer(Timer::Answer, *until));
        }
    }

    /// Whether these answers were taken is not known, and never asked again.
    fn lose_answers(&mut self, now: Millis, effects: &mut Vec<Effect>) {
        let due: Vec<_> = self.answers.extract_if(.., |(_, until)| *until <= now).collect();
        for (id, _) in due {
            self.interact(&id, Input::AcceptanceLost, effects);
        }
        self.wait_for_answers(effects);
    }

    pub(super) fn timer(&mut self, timer: Timer, now: Millis, effects: &mut Vec<Effect>) {
        match timer {
            Timer::Timeout => {
                if self.facts.cancel.is_none() {
                    self.cancel(CancelCause::Timeout, now, effects);
                }
            }
            Timer::InterruptGrace => {
                if self.facts.report.is_none() {
                    self.force(StopMode::Ladder, now, effects);
                }
            }
            Timer::Answer => self.lose_answers(now, effects),
            Timer::CancelBudget => {
                if let Some(cancel) = &mut self.facts.cancel {
                    cancel.expired = true;
                }
            }
        }
    }
}
