//! What the app-server says by itself.

use ostler_supervisors::adapter::{Answer, EndReport, Fact};
use ostler_supervisors::contract::{ClearReason, FailureKind, MessageRole, StopReason, WarningKind};
use serde_json::Value;

use super::Machine;

impl Machine {
    pub(super) fn notified(&mut self, method: &str, params: &Value, answer: &mut Answer) {
        self.counts.mapped += 1;
        match method {
            "turn/started" if self.is_own_turn(params) => answer.fact(Fact::Began),
            "item/started" if self.is_own_item(params) => self.item(params, true, answer),
            "item/completed" if self.is_own_item(params) => self.item(params, false, answer),
            "item/agentMessage/delta" if self.is_own_item(params) => self.delta(params, MessageRole::Unknown, answer),
            "item/reasoning/summaryTextDelta" | "item/reasoning/textDelta" if self.is_own_item(params) => {
                self.delta(params, MessageRole::Explanation, answer);
            }
            "item/commandExecution/outputDelta" if self.is_own_item(params) => self.command_output(params, answer),
            "thread/tokenUsage/updated" => self.used(&params["tokenUsage"], answer),
            "turn/completed" if self.is_own_turn(params) => self.turn_completed(&params["turn"], answer),
            "error" if self.is_own_item(params) => self.failed(params, answer),
            "serverRequest/resolved" => self.resolved(&params["requestId"], answer),
            "warning" => self.warned(&params["message"], WarningKind::Other, answer),
            "configWarning" => self.warned(&params["summary"], WarningKind::Configuration, answer),
            _ => {
                self.counts.mapped -= 1;
                self.counts.noted += 1;
            }
        }
    }

    /// Whether a notification that carries a turn is about the one under way. Before its id is known, it is: the
    /// session gives the agent one task at a time.
    fn is_own_turn(&self, params: &Value) -> bool {
        self.is_turn(params["turn"]["id"].as_str())
    }

    fn is_own_item(&self, params: &Value) -> bool {
        self.is_turn(params["turnId"].as_str())
    }

    fn is_turn(&self, id: Option<&str>) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.id.is_none() || turn.id.as_deref() == id)
    }

    fn delta(&mut self, params: &Value, role: MessageRole, answer: &mut Answer) {
        let (id, text) = (params["itemId"].as_str(), params["delta"].as_str());
        if let (Some(Ok(message)), Some(text)) = (id.map(str::parse), text) {
            answer.fact(Fact::MessageDelta { message, role, text: text.to_owned() });
        }
    }

    fn turn_completed(&mut self, turn: &Value, answer: &mut Answer) {
        let report = match turn["status"].as_str() {
            Some("completed") => EndReport::Completed { stop_reason: StopReason::Finished },
            Some("interrupted" | "cancelled") => EndReport::Interrupted,
            Some("failed") => failure(&turn["error"]),
            other => EndReport::Unknown { status: other.unwrap_or("none").to_owned() },
        };
        let interrupted = report == EndReport::Interrupted;
        self.ended(report, answer);
        if interrupted {
            self.clean_terminals(answer);
        }
    }

    /// A failure that will not be tried again ends the task at once; the turn's own end only repeats it.
    fn failed(&mut self, params: &Value, answer: &mut Answer) {
        if params["willRetry"].as_bool() == Some(true) {
            let message = text_of(&params["error"]["message"]);
            return answer.fact(Fact::Warning { kind: WarningKind::Recoverable, message });
        }
        self.ended(failure(&params["error"]), answer);
    }

    fn ended(&mut self, report: EndReport, answer: &mut Answer) {
        if self.turn.take().is_none() {
            return;
        }
        self.keep_stored(answer);
        answer.fact(Fact::End(report));
    }

    /// A turn that ran is in the rollout file of its thread.
    fn keep_stored(&mut self, answer: &mut Answer) {
        let thread = self.thread.as_deref().filter(|_| !self.stored).map(str::parse);
        if let Some(Ok(id)) = thread {
            self.stored = true;
            answer.fact(Fact::NativeSession { id, stored: true });
        }
    }

    fn resolved(&mut self, request: &Value, answer: &mut Answer) {
        let found = self.approvals.iter().find(|(_, open)| open.request == *request).map(|(id, _)| id.clone());
        let Some(id) = found else { return };
        let answered = self.approvals.remove(&id).is_some_and(|open| open.answered);
        answer.fact(if answered {
            Fact::AnswerConfirmed(id)
        } else {
            Fact::Withdrawn(id, ClearReason::ProviderWithdrawn)
        });
    }

    fn warned(&mut self, message: &Value, kind: WarningKind, answer: &mut Answer) {
        answer.fact(Fact::Warning { kind, message: text_of(message) });
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or("no text").to_owned()
}

/// Classified by structured codes alone (AHP 1.8).
fn failure(error: &Value) -> EndReport {
    let info = &error["codexErrorInfo"];
    let object = info.as_object().and_then(|object| object.iter().next());
    let code = info.as_str().or(object.map(|(code, _)| code.as_str()));
    let status = object.and_then(|(_, detail)| detail["httpStatusCode"].as_u64());
    let kind = match code {
        Some("contextWindowExceeded") => FailureKind::ContextOverflow,
        Some("sessionBudgetExceeded" | "usageLimitExceeded") => FailureKind::BudgetExceeded,
        Some("serverOverloaded" | "internalServerError") => FailureKind::Transient,
        Some(
            "httpConnectionFailed"
            | "responseStreamDisconnected"
            | "responseStreamConnectionFailed"
            | "responseTooManyFailedAttempts",
        ) => by_status(status).unwrap_or(FailureKind::Transient),
        Some("unauthorized") => FailureKind::Authentication,
        Some("cyberPolicy" | "sandboxError") => FailureKind::PolicyBlocked,
        Some("badRequest" | "threadRollbackFailed" | "activeTurnNotSteerable" | "other") => FailureKind::Provider,
        Some(_) => FailureKind::Unknown,
        None => by_status(status).unwrap_or(FailureKind::Unknown),
    };
    EndReport::Failed { kind, message: text_of(&error["message"]) }
}

fn by_status(status: Option<u64>) -> Option<FailureKind> {
    match status? {
        401 | 403 => Some(FailureKind::Authentication),
        408 | 409 | 425 | 429 | 500 | 502 | 503 | 504 => Some(FailureKind::Transient),
        _ => None,
    }
}
