//! What a result means, and when the task is over.

use ostler_supervisors::adapter::{Answer, EndReport, Fact};
use ostler_supervisors::contract::{ClearReason, EventKind, FailureKind, RateLimit, StopReason};
use serde_json::Value;

use super::track::Given;
use super::{Activity, Correlation, Machine, Phase, Stop, Turn};

/// Beside cost and duration a result repeats much; this is what nothing else tells.
const RESULT: EventKind = EventKind::known("adapter.claude.result");
/// The HTTP status by which a provider says that it takes no more for now.
pub(super) const LIMITED: u64 = 429;
/// How it says that it has no session of this id; no code does.
const NO_SUCH_SESSION: &str = "No conversation found";
/// What is kept of a failure's text, in bytes: a report may have to wait in a snapshot.
const LONGEST_TEXT: usize = 600;

/// Whose result it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    Ours,
    /// Of a turn that work of the task woke it for.
    Woken,
    Nobodys,
}

impl Machine {
    pub(super) fn result(&mut self, frame: &Value, answer: &mut Answer) {
        if !self.ready {
            return self.refused_start(frame, answer);
        }
        match self.whose(frame) {
            Whose::Nobodys => {
                self.counts.mapped -= 1;
                self.noise(format!("the end of a turn that is not the task's: {}", word(frame)), answer);
            }
            Whose::Ours | Whose::Woken => self.turn_ended(frame, answer),
        }
    }

    fn refused_start(&self, frame: &Value, answer: &mut Answer) {
        let message = format!("claude says: {}", text(frame));
        let lost = self.resume.is_some() && message.contains(NO_SUCH_SESSION);
        answer.fact(if lost { Fact::NativeLost { message } } else { Fact::NotReady { message } });
    }

    fn whose(&self, frame: &Value) -> Whose {
        let Some(turn) = &self.turn else { return Whose::Nobodys };
        let own = turn.message.to_string();
        let many = frame["user_message_uuids"].as_array().into_iter().flatten();
        let mut named = many.chain([&frame["user_message_uuid"]]).filter_map(Value::as_str).peekable();
        match (named.peek().is_some(), turn.phase) {
            (true, _) if named.any(|id| id == own) => Whose::Ours,
            (true, _) => Whose::Nobodys,
            (false, Phase::Running) if turn.held.is_some() => Whose::Woken,
            (false, Phase::Running) if frame["origin"].is_null() => Whose::Ours,
            (false, _) if self.correlation == Correlation::Untold => Whose::Ours,
            (false, _) => Whose::Nobodys,
        }
    }

    fn turn_ended(&mut self, frame: &Value, answer: &mut Answer) {
        self.block = None;
        self.tools.clear();
        self.close_approvals(answer);
        self.keep_stored(answer);
        self.used(frame, answer);
        answer.fact(Fact::Event { kind: RESULT, data: told(frame) });
        if let Some(turn) = &mut self.turn {
            turn.phase = Phase::Running;
            let report = report(frame, turn.stop);
            if matches!(report, EndReport::Failed { .. }) && frame["api_error_status"] == LIMITED {
                answer.fact(Fact::RateLimited(RateLimit { retry_after_ms: turn.limited_ms }));
            }
            turn.held = Some(report);
        }
        self.settle_if_over(answer);
    }

    /// The end is told once no work of the task is open: until then a turn may follow by itself.
    pub(super) fn settle_if_over(&mut self, answer: &mut Answer) {
        if self.background.count() > 0 || self.activity == Activity::Running {
            return;
        }
        if let Some(Turn { held: Some(report), stop, .. }) = self.turn.take_if(|turn| turn.held.is_some()) {
            let cut = stop == Stop::Cut && matches!(report, EndReport::Completed { .. });
            answer.fact(Fact::End(if cut { EndReport::Interrupted } else { report }));
        }
    }

    /// A request that outlived its turn can be answered no more.
    fn close_approvals(&mut self, answer: &mut Answer) {
        for (id, open) in self.approvals.drain() {
            answer.fact(match open.given {
                Given::Answer => Fact::AnswerConfirmed(id),
                Given::Nothing => Fact::Withdrawn(id, ClearReason::ProviderWithdrawn),
            });
        }
    }

    /// What was said up to a result is in the session's file.
    fn keep_stored(&mut self, answer: &mut Answer) {
        if let Some(id) = self.session.clone().filter(|_| !self.stored) {
            self.stored = true;
            answer.fact(Fact::NativeSession { id, stored: true });
        }
    }
}

fn told(frame: &Value) -> Value {
    let keys = ["subtype", "terminal_reason", "total_cost_usd", "duration_ms", "duration_api_ms", "num_turns"];
    keys.iter().map(|key| ((*key).to_owned(), frame[*key].clone())).collect::<serde_json::Map<_, _>>().into()
}

fn word(frame: &Value) -> &str {
    frame["terminal_reason"].as_str().or(frame["subtype"].as_str()).unwrap_or("no reason given")
}

/// What it says of a failure, cut to a length that a snapshot can hold.
fn text(frame: &Value) -> String {
    let said = frame["result"].as_str().or(frame["errors"][0].as_str()).unwrap_or_else(|| word(frame));
    let mut end = said.len().min(LONGEST_TEXT);
    while !said.is_char_boundary(end) {
        end -= 1;
    }
    said[..end].to_owned()
}

/// A subtype of `success` with `is_error` is a failure of the model's server, told as if it were an answer.
fn report(frame: &Value, stop: Stop) -> EndReport {
    let failed = |kind| EndReport::Failed { kind, message: text(frame) };
    let reason = frame["terminal_reason"].as_str();
    match (frame["subtype"].as_str(), frame["is_error"].as_bool()) {
        (Some("success"), Some(false)) => EndReport::Completed { stop_reason: stop_reason(reason) },
        (Some("success"), _) => failed(kind(frame)),
        (Some("error_max_turns"), _) => EndReport::Completed { stop_reason: StopReason::IterationLimit },
        (Some("error_max_budget_usd"), _) => failed(FailureKind::BudgetExceeded),
        (Some("error_during_execution"), _) => match (reason, stop) {
            (Some("aborted_streaming" | "aborted_tools"), Stop::Ours | Stop::Cut) => EndReport::Interrupted,
            _ => failed(kind(frame)),
        },
        (Some(subtype), _) if subtype.starts_with("error_") => failed(FailureKind::Provider),
        (other, _) => EndReport::Unknown { status: other.unwrap_or("none").chars().take(100).collect() },
    }
}

fn stop_reason(reason: Option<&str>) -> StopReason {
    match reason {
        None | Some("completed") => StopReason::Finished,
        Some("max_turns") => StopReason::IterationLimit,
        Some(_) => StopReason::ProviderStopped,
    }
}

/// Classified by structured codes alone (AHP 1.8).
fn kind(frame: &Value) -> FailureKind {
    if frame["terminal_reason"] == "prompt_too_long" {
        return FailureKind::ContextOverflow;
    }
    if frame["stop_reason"] == "refusal" {
        return FailureKind::PolicyBlocked;
    }
    match (frame["api_error_status"].as_u64(), frame["api_error"].as_str()) {
        (Some(401 | 403), _) => FailureKind::Authentication,
        (Some(402), _) => FailureKind::BudgetExceeded,
        (Some(408 | 409 | 425 | 429 | 500..), _) | (None, Some("connection_failed")) => FailureKind::Transient,
        (Some(_), _) | (None, Some(_)) => FailureKind::Provider,
        (None, None) => FailureKind::Unknown,
    }
}
