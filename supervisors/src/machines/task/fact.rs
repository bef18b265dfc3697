//! Facts of the adapter, taken in.

use crate::adapter::Fact;
use crate::contract::ClearReason;
use crate::ledger::TaskState;
use crate::machines::interaction;

use super::{Effect, Record, Task};

impl Task {
    pub(super) fn take(&mut self, fact: Fact, effects: &mut Vec<Effect>) {
        self.output.take(&fact);
        match fact {
            Fact::Accepted | Fact::Began => self.began(effects),
            Fact::NotAccepted { message } => self.not_accepted(message, effects),
            Fact::Usage { task, session } => {
                self.usage = task;
                self.session_usage = session.or(self.session_usage);
            }
            Fact::OpenWork(count) => self.facts.open_work = count,
            Fact::RateLimited(limit) => {
                self.facts.rate_limit = Some(limit);
                effects.push(Effect::Record(Record::Fact(fact)));
            }
            Fact::End(report) => self.ended(report, effects),
            Fact::Asked(request) => self.asked(request, effects),
            Fact::AnswerConfirmed(id) => self.interact(&id, interaction::Input::Confirmed, effects),
            Fact::Withdrawn(id, reason) => self.interact(&id, interaction::Input::Clear(reason), effects),
            visible => {
                self.began(effects);
                effects.push(Effect::Record(Record::Fact(visible)));
            }
        }
    }

    /// Progress of any kind shows that the task was taken.
    fn began(&mut self, effects: &mut Vec<Effect>) {
        if self.state == TaskState::Submitted {
            self.enter(TaskState::Running, effects);
        }
    }

    fn not_accepted(&mut self, message: String, effects: &mut Vec<Effect>) {
        use crate::contract::{FailureKind, Proof, Verdict};
        if self.state == TaskState::Submitted {
            self.settle(Verdict::Failed { kind: FailureKind::Transport, message }, Proof::EndReport, effects);
        }
    }

    /// The first report of documented meaning wins.
    /// The first counts; what contradicts it is kept.
    fn ended(&mut self, report: crate::adapter::EndReport, effects: &mut Vec<Effect>) {
        match self.facts.report {
            None => self.facts.report = Some(report),
            Some(_) => effects.push(Effect::Record(Record::Late(format!("end report: {report:?}")))),
        }
    }

    fn asked(&mut self, request: crate::contract::InteractionRequest, effects: &mut Vec<Effect>) {
        if self.interactions.iter().any(|(known, _)| known.id == request.id) {
            return;
        }
        let id = request.id.clone();
        self.interactions.push((request.clone(), interaction::State::Open));
        effects.push(Effect::Record(Record::Opened(request)));
        if self.facts.cancel.is_some() {
            // Nobody is asked about a task that is being cancelled.
            self.interact(&id, interaction::Input::Clear(ClearReason::CancellationRequested), effects);
        }
        self.follow_interactions(effects);
    }
}

/// A word for a fact that came too late.
pub(super) fn name(fact: &Fact) -> &'static str {
    match fact {
        Fact::MessageDelta { .. } | Fact::MessageCompleted { .. } => "message",
        Fact::Tool { .. } => "tool",
        Fact::Effect { .. } => "effect",
        Fact::Usage { .. } => "usage",
        Fact::Asked(_) => "request",
        _ => "notice",
    }
}
