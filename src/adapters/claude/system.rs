//! What it says of itself: turns, retries, work in the background.

use ostler_supervisors::adapter::{Answer, Fact};
use ostler_supervisors::contract::{EventKind, WarningKind};
use serde_json::{Value, json};
use uuid::Uuid;

use super::outcome::LIMITED;
use super::track::Waking;
use super::{Activity, Correlation, Machine, Phase, Stop};

/// The end of one piece of work in the background.
const BACKGROUND_ENDED: EventKind = EventKind::known("adapter.claude.background.ended");

impl Machine {
    pub(super) fn system(&mut self, frame: &Value, answer: &mut Answer) {
        match frame["subtype"].as_str() {
            Some("init") => self.turn_begins(answer),
            Some("session_state_changed") => self.activity(&frame["state"], answer),
            Some("background_tasks_changed") => self.background_changed(&frame["tasks"], answer),
            Some("task_notification") => self.work_ended(frame, answer),
            Some("api_retry") => self.tries_again(frame, answer),
            Some("compact_boundary") => {
                warn(WarningKind::ContextPressure, "the conversation was shortened to fit".to_owned(), answer);
            }
            Some("informational") => {
                let text = frame["content"].as_str().unwrap_or("no text");
                warn(WarningKind::Other, text.to_owned(), answer);
            }
            _ => self.noted(),
        }
    }

    fn tries_again(&mut self, frame: &Value, answer: &mut Answer) {
        if let Some(turn) = self.turn.as_mut().filter(|_| frame["error_status"] == LIMITED) {
            turn.limited_ms = frame["retry_delay_ms"].as_f64().map(|delay| delay as u64);
        }
        warn(WarningKind::Recoverable, retry(frame), answer);
    }

    /// Where it does not say which message a turn answers, each turn answers the one that was sent.
    fn turn_begins(&mut self, answer: &mut Answer) {
        if self.correlation == Correlation::Untold {
            self.reached(Phase::Running, answer);
        }
    }

    pub(super) fn lifecycle(&mut self, frame: &Value, answer: &mut Answer) {
        self.correlation = Correlation::ByMessage;
        let own = self.turn.as_ref().map(|turn| turn.message);
        let named = frame["command_uuid"].as_str().and_then(|id| id.parse::<Uuid>().ok());
        match (named.filter(|id| own == Some(*id)), frame["state"].as_str()) {
            (Some(_), Some("queued")) => self.reached(Phase::Queued, answer),
            (Some(_), Some("started")) => self.reached(Phase::Running, answer),
            // The result says how it ended.
            _ => self.redundant(),
        }
    }

    fn reached(&mut self, phase: Phase, answer: &mut Answer) {
        let Some(turn) = self.turn.as_mut().filter(|turn| turn.phase < phase) else { return };
        if turn.phase == Phase::Sent {
            answer.fact(Fact::Accepted);
        }
        if phase == Phase::Running {
            answer.fact(Fact::Began);
        }
        turn.phase = phase;
    }

    fn activity(&mut self, state: &Value, answer: &mut Answer) {
        match state.as_str() {
            Some("idle") => {
                self.activity = Activity::Idle;
                self.settle_if_over(answer);
            }
            Some("running") => {
                // It waits for no answer any more, so those that were given were taken.
                self.activity = Activity::Running;
                let taken = self.approvals.taken(|_| true);
                taken.into_iter().for_each(|id| answer.fact(Fact::AnswerConfirmed(id)));
            }
            _ => self.noted(),
        }
    }

    /// One subagent or command in the background; nothing else says what became of it.
    fn work_ended(&mut self, frame: &Value, answer: &mut Answer) {
        let told = |member: &str| frame[member].as_str().unwrap_or_default();
        let data = json!({ "task_id": told("task_id"), "tool": told("tool_use_id"), "status": told("status") });
        answer.fact(Fact::Event { kind: BACKGROUND_ENDED, data });
        if !matches!(frame["status"].as_str(), Some("stopped" | "killed")) {
            self.background.waking = Waking::Follows;
            return;
        }
        self.background.waking = Waking::No;
        if let Some(turn) = self.turn.as_mut().filter(|turn| turn.stop == Stop::Ours) {
            turn.stop = Stop::Cut;
        }
    }

    fn background_changed(&mut self, tasks: &Value, answer: &mut Answer) {
        let ids = tasks.as_array().into_iter().flatten();
        self.background.set(ids.map(|task| task["task_id"].as_str().unwrap_or_default()));
        answer.fact(Fact::OpenWork(self.background.count()));
        if self.background.waking == Waking::No {
            self.settle_if_over(answer);
        }
    }
}

fn warn(kind: WarningKind, message: String, answer: &mut Answer) {
    answer.fact(Fact::Warning { kind, message });
}

fn retry(frame: &Value) -> String {
    let status = frame["error_status"].as_u64().map_or_else(|| "no answer".to_owned(), |status| status.to_string());
    let error = frame["error"].as_str().unwrap_or("no reason given");
    let number = |key: &str| frame[key].as_u64().unwrap_or_default();
    format!(
        "the model's server: {status} ({error}); attempt {} of {} in {} ms",
        number("attempt"),
        number("max_retries"),
        number("retry_delay_ms")
    )
}
