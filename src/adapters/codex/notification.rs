//! What the app-server says by itself.

use ostler_supervisors::adapter::{Answer, EndReport, Fact};
use ostler_supervisors::contract::{ClearReason, FailureKind, MessageRole, RateLimit, StopReason, WarningKind};
use serde_json::Value;

use super::{End, LastTurn, Machine};

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
            "turn/completed" => self.told_again(params["turn"]["id"].as_str(), &report_of(&params["turn"]), answer),
            "error" if self.is_own_item(params) => self.failed(params, answer),
            "error" => self.told_again(params["turnId"].as_str(), &failure(&params["error"]), answer),
            "serverRequest/resolved" => self.resolved(&params["requestId"], answer),
            "warning" => self.warned(&params["message"], WarningKind::Other, answer),
            "configWarning" => self.warned(&params["summary"], WarningKind::Configuration, answer),
            _ => {
                self.counts.mapped -= 1;
                self.counts.noted += 1;
            }
        }
    }

    /// Whether a notification that carries a turn is about the one under way. Before its id is known, it is, unless it is
    /// about the one before: the session gives the agent one task at a time.
    fn is_own_turn(&self, params: &Value) -> bool {
        self.is_turn(params["turn"]["id"].as_str())
    }

    fn is_own_item(&self, params: &Value) -> bool {
        self.is_turn(params["turnId"].as_str())
    }

    fn is_turn(&self, id: Option<&str>) -> bool {
        let is_last = self.last.as_ref().is_some_and(|last| Some(last.id.as_str()) == id);
        self.turn.as_ref().is_some_and(|turn| match &turn.id {
            Some(own) => Some(own.as_str()) == id,
            None => !is_last,
        })
    }

    fn delta(&mut self, params: &Value, role: MessageRole, answer: &mut Answer) {
        let (id, text) = (params["itemId"].as_str(), params["delta"].as_str());
        if let (Some(Ok(message)), Some(text)) = (id.map(str::parse), text) {
            answer.fact(Fact::MessageDelta { message, role, text: text.to_owned() });
        }
    }

    fn turn_completed(&mut self, turn: &Value, answer: &mut Answer) {
        let report = report_of(turn);
        if matches!(report, EndReport::Failed { .. }) {
            self.heed_limit(&turn["error"], answer);
        }
        let interrupted = report == EndReport::Interrupted;
        self.ended(turn["id"].as_str(), report, answer);
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
        self.heed_limit(&params["error"], answer);
        self.ended(params["turnId"].as_str(), failure(&params["error"]), answer);
    }

    /// When a limit is over it says by the clock on the wall, and elsewhere, if at all.
    fn heed_limit(&self, error: &Value, answer: &mut Answer) {
        if self.turn.is_some() && is_limit(error) {
            answer.fact(Fact::RateLimited(RateLimit::default()));
        }
    }

    fn ended(&mut self, id: Option<&str>, report: EndReport, answer: &mut Answer) {
        let Some(turn) = self.turn.take() else { return };
        self.last = turn.id.or_else(|| id.map(str::to_owned)).map(|id| LastTurn { id, end: end_of(&report) });
        self.keep_stored(answer);
        answer.fact(Fact::End(report));
    }

    /// A failure is followed by the end of its turn, which repeats it. Anything else contradicts what was said.
    fn told_again(&mut self, id: Option<&str>, report: &EndReport, answer: &mut Answer) {
        self.counts.mapped -= 1;
        match &self.last {
            Some(last) if Some(last.id.as_str()) == id && last.end != end_of(report) => {
                let what = format!("another end of turn {}, after {:?}: {report:?}", last.id, last.end);
                self.noise(what, answer);
            }
            _ => self.counts.noted += 1,
        }
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

fn report_of(turn: &Value) -> EndReport {
    match turn["status"].as_str() {
        Some("completed") => EndReport::Completed { stop_reason: StopReason::Finished },
        Some("interrupted" | "cancelled") => EndReport::Interrupted,
        Some("failed") => failure(&turn["error"]),
        other => EndReport::Unknown { status: other.unwrap_or("none").to_owned() },
    }
}

fn end_of(report: &EndReport) -> End {
    match report {
        EndReport::Completed { .. } => End::Completed,
        EndReport::Failed { .. } => End::Failed,
        EndReport::Interrupted => End::Interrupted,
        EndReport::Unknown { .. } => End::Unknown,
    }
}

/// What an error is called, and the HTTP status behind it.
fn code_of(error: &Value) -> (Option<&str>, Option<u64>) {
    let info = &error["codexErrorInfo"];
    let object = info.as_object().and_then(|object| object.iter().next());
    let code = info.as_str().or(object.map(|(code, _)| code.as_str()));
    (code, object.and_then(|(_, detail)| detail["httpStatusCode"].as_u64()))
}

fn is_limit(error: &Value) -> bool {
    matches!(code_of(error), (Some("usageLimitExceeded" | "rateLimitExceeded"), _) | (_, Some(429)))
}

/// Classified by structured codes alone (AHP 1.8).
fn failure(error: &Value) -> EndReport {
    let (code, status) = code_of(error);
    let kind = match code {
        Some("contextWindowExceeded") => FailureKind::ContextOverflow,
        Some("sessionBudgetExceeded" | "usageLimitExceeded") => FailureKind::BudgetExceeded,
        Some("serverOverloaded" | "internalServerError" | "rateLimitExceeded") => FailureKind::Transient,
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
