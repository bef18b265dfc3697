//! Its requests: whether it may use a tool.

use ostler_supervisors::adapter::{Answer, Fact};
use ostler_supervisors::contract::{
    ApprovalDecision, ApprovalPolicy, ClearReason, InteractionId, InteractionKind, InteractionRequest,
    InteractionResponse, WarningKind, WorkId,
};
use serde_json::{Value, json};

use super::{Machine, Stop, tool};

/// What it is told where nobody may answer; the model reads it.
const DECLINED: &str = "This was declined.";

impl Machine {
    pub(super) fn asked_by_agent(&mut self, frame: &Value, answer: &mut Answer) {
        let (id, request) = (&frame["request_id"], &frame["request"]);
        if request["subtype"] != "can_use_tool" {
            return refuse(id, request["subtype"].as_str().unwrap_or("no kind"), answer);
        }
        // A question asks for more than a yes, and nobody here can give that.
        if request["requires_user_interaction"] == true {
            return self.decline(id, request, "nobody can answer", answer);
        }
        let policy = self.running().map(|turn| turn.policy);
        let interaction = id.as_str().and_then(|id| id.parse::<InteractionId>().ok());
        match (policy, interaction) {
            (Some(ApprovalPolicy::Ask | ApprovalPolicy::Allow), Some(interaction))
                if self.approvals.open(&interaction, work(request)) =>
            {
                answer.fact(Fact::Asked(question(interaction, request)));
            }
            _ => self.decline(id, request, "by policy", answer),
        }
    }

    /// An adapter only ever declines by itself (rules 7).
    fn decline(&mut self, id: &Value, request: &Value, why: &str, answer: &mut Answer) {
        self.tools.refuse(work(request).as_ref());
        reply(id, json!({ "behavior": "deny", "message": DECLINED }), answer);
        let message = format!("declined, {why}: {}", prompt(request));
        answer.fact(Fact::Warning { kind: WarningKind::Configuration, message });
    }

    pub(super) fn respond(&mut self, id: &InteractionId, response: &InteractionResponse, answer: &mut Answer) {
        let Some(open) = self.approvals.answer(id) else { return };
        let verdict = match response {
            InteractionResponse::Approval { decision: ApprovalDecision::ApproveOnce } => json!({ "behavior": "allow" }),
            InteractionResponse::Approval { decision: ApprovalDecision::Cancel } => {
                self.turn.iter_mut().for_each(|turn| turn.stop = turn.stop.max(Stop::Ours));
                json!({ "behavior": "deny", "message": DECLINED, "interrupt": true })
            }
            _ => json!({ "behavior": "deny", "message": DECLINED }),
        };
        if verdict["behavior"] == "deny" {
            self.tools.refuse(open.work.as_ref());
        }
        reply(&json!(id), verdict, answer);
    }

    /// It needs no answer any more, and takes none.
    pub(super) fn withdrawn(&mut self, frame: &Value, answer: &mut Answer) {
        let id = frame["request_id"].as_str().and_then(|id| id.parse::<InteractionId>().ok());
        match id.and_then(|id| Some((self.approvals.close(&id)?, id))) {
            Some((open, id)) => {
                self.tools.refuse(open.work.as_ref());
                answer.fact(Fact::Withdrawn(id, ClearReason::ProviderWithdrawn));
            }
            None => self.noted(),
        }
    }
}

fn work(request: &Value) -> Option<WorkId> {
    request["tool_use_id"].as_str()?.parse().ok()
}

fn question(id: InteractionId, request: &Value) -> InteractionRequest {
    let effect = request["tool_name"].as_str().and_then(tool::effect);
    // What it suggests beyond these (rules stored for good, other modes) has no scope that could be described.
    let available = vec![ApprovalDecision::ApproveOnce, ApprovalDecision::Decline, ApprovalDecision::Cancel];
    let kind = InteractionKind::Approval { effect, available };
    InteractionRequest { id, work: work(request), prompt: prompt(request), kind }
}

fn prompt(request: &Value) -> String {
    let name = request["tool_name"].as_str().unwrap_or("a tool");
    tool::description(name, &request["input"]).unwrap_or_else(|| format!("{name} {}", request["input"]))
}

fn reply(id: &Value, verdict: Value, answer: &mut Answer) {
    let response = json!({ "subtype": "success", "request_id": id, "response": verdict });
    answer.json(&json!({ "type": "control_response", "response": response }));
}

/// A kind nobody here can answer is refused at once, visibly, so that the agent does not wait for ever.
fn refuse(id: &Value, what: &str, answer: &mut Answer) {
    let response = json!({ "subtype": "error", "request_id": id, "error": "not supported by this client" });
    answer.json(&json!({ "type": "control_response", "response": response }));
    let message = format!("refused a request of unknown kind: {what}");
    answer.fact(Fact::Warning { kind: WarningKind::Other, message });
}
