//! What a runtime's course says about its harness: whether it works, and whether it ends unasked.

use std::time::Duration;

use ostler_keeper::Exit;
use ostler_keeper::clock;
use ostler_keeper::tree::{MILLIS_PER_TICK, ticks};

use super::super::harnesses::Fate;
use super::{Runtime, exit_fact};
use crate::adapter::{EndReport, Fact};
use crate::contract::{ExitFact, RateLimit};
use crate::machines::health::Input;
use crate::machines::settlement::ReportMode;

/// What its process has shown of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    Nothing,
    /// It reported the end of a task: its start came to something, however it ends.
    Work,
    /// Its provider took no more, and nothing went well since.
    Limit(RateLimit),
}

/// How an agent ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// We had told it to.
    Asked,
    /// By itself.
    Unasked(ExitFact),
}

impl Runtime {
    fn tell_harness(&self, input: Input, why: Option<String>) {
        // A few over a runtime's life, and one for each task: bounded.
        self.env.harnesses.do_send(Fate { harness: self.harness.clone(), input, why });
    }

    /// Nothing of the agent ever ran. One that was not wanted any more says nothing about its harness.
    pub(super) fn never_ran(&self, why: &str) {
        match self.stop {
            None => self.tell_harness(Input::NotStarted, Some(why.to_owned())),
            Some(_) => self.tell_harness(Input::Unused { age: Duration::ZERO }, None),
        }
    }

    /// An agent that reports how a task ended works, whatever the report.
    pub(super) fn heed_report(&mut self, fact: &Fact) {
        match fact {
            Fact::RateLimited(limit) => self.shown = Shown::Limit(*limit),
            Fact::End(EndReport::Unknown { .. }) => {}
            Fact::End(report) => {
                let failed = matches!(report, EndReport::Failed { .. });
                if !(failed && matches!(self.shown, Shown::Limit(_))) {
                    self.shown = Shown::Work;
                }
                self.tell_harness(Input::Worked { age: self.age() }, None);
            }
            _ => {}
        }
    }

    /// Its leader ended. What it said before that may still be on its way, and may say why.
    pub(super) fn leader_ended(&mut self, exit: Exit) {
        self.ended = Some(match self.stop {
            Some(_) => Ended::Asked,
            None => Ended::Unasked(exit_fact(exit)),
        });
        let says_nothing = self.adapter.as_ref().is_none_or(|adapter| !adapter.is_ready());
        if self.output_ended || says_nothing {
            self.tell_fate();
        }
    }

    /// Once it has ended and everything it said was read. An exit code that is a task's report says that it works.
    pub(super) fn tell_fate(&mut self) {
        let age = self.age();
        match (self.ended.take(), self.harness.report) {
            (None, _) => {}
            (Some(Ended::Unasked(_)), _) if self.shown == Shown::Work => {}
            (Some(Ended::Unasked(exit)), _)
                if !exit.is_success()
                    && let Shown::Limit(limit) = self.shown =>
            {
                // Where nobody says when it is over, whoever asks next finds out.
                let after = Duration::from_millis(limit.retry_after_ms.unwrap_or(0));
                self.tell_harness(Input::Limited { after }, None);
            }
            (Some(Ended::Asked), _) => self.tell_harness(Input::Unused { age }, None),
            (Some(Ended::Unasked(ExitFact::Code { .. })), ReportMode::ExitStatus(_)) => {
                self.tell_harness(Input::Worked { age }, None);
            }
            (Some(Ended::Unasked(exit)), _) => {
                self.tell_harness(Input::Ended { age }, Some(format!("its agent ended ({exit})")))
            }
        }
    }

    /// How long its leader has been there.
    fn age(&self) -> Duration {
        let started = self.leader.map_or(0, |(_, start)| start);
        let ticks = ticks(clock::now()).saturating_sub(started);
        Duration::from_millis(ticks * MILLIS_PER_TICK)
    }
}
