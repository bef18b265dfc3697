//! Requests of the app-server.

use ostler_supervisors::adapter::{Answer, Fact};
use ostler_supervisors::contract::{
    ApprovalDecision, ApprovalPolicy, EffectKind, InteractionId, InteractionKind, InteractionRequest,
    InteractionResponse, WarningKind,
};
use serde_json::{Value, json};

use super::{Machine, OpenApproval};

impl Machine {
    pub(super) fn asked_by_agent(&mut self, method: &str, id: &Value, params: &Value, answer: &mut Answer) {
        self.counts.mapped += 1;
        let effect = match method {
            "item/commandExecution/requestApproval" => EffectKind::Command,
            "item/fileChange/requestApproval" => EffectKind::FileChange,
            _ => return refuse(method, id, answer),
        };
        let policy = self.turn.as_ref().map(|turn| turn.policy);
        match (policy, self.interaction(id, params)) {
            (Some(ApprovalPolicy::Ask | ApprovalPolicy::Allow), Some(interaction)) => {
                let open = OpenApproval { request: id.clone(), answered: false };
                self.approvals.insert(interaction.clone(), open);
                answer.fact(Fact::Asked(request(interaction, effect, params)));
            }
            _ => decline(id, params, answer),
        }
    }

    /// Unique within the task: the turn, and the request's number at the agent.
    fn interaction(&self, id: &Value, params: &Value) -> Option<InteractionId> {
        let turn = params["turnId"].as_str()?;
        format!("{turn}.{id}").parse().ok()
    }
}

fn request(id: InteractionId, effect: EffectKind, params: &Value) -> InteractionRequest {
    let command = params["command"].as_str().or(params["reason"].as_str());
    // What the agent offers beyond these (rules stored for good, whole sessions) has no scope that could be described.
    let available = vec![ApprovalDecision::ApproveOnce, ApprovalDecision::Decline, ApprovalDecision::Cancel];
    InteractionRequest {
        id,
        work: params["itemId"].as_str().and_then(|work| work.parse().ok()),
        prompt: command.unwrap_or("codex asks for approval").to_owned(),
        kind: InteractionKind::Approval { effect: Some(effect), available },
    }
}

/// An adapter only ever declines by itself (rules 7).
fn decline(id: &Value, params: &Value, answer: &mut Answer) {
    answer.json(&json!({ "id": id, "result": { "decision": "decline" } }));
    let what = params["command"].as_str().or(params["reason"].as_str()).unwrap_or("a request");
    let message = format!("declined by policy: {what}");
    answer.fact(Fact::Warning { kind: WarningKind::Configuration, message });
}

/// A kind nobody here can answer is refused at once, visibly, so that the agent does not wait for ever.
fn refuse(method: &str, id: &Value, answer: &mut Answer) {
    let error = json!({ "code": -32601, "message": format!("{method} is not supported by this client") });
    answer.json(&json!({ "id": id, "error": error }));
    answer.fact(Fact::Warning {
        kind: WarningKind::Other,
        message: format!("refused a request of unknown kind: {method}"),
    });
}

pub(super) fn decision(response: &InteractionResponse) -> &'static str {
    match response {
        InteractionResponse::Approval { decision: ApprovalDecision::ApproveOnce } => "accept",
        InteractionResponse::Approval { decision: ApprovalDecision::Cancel } => "cancel",
        _ => "decline",
    }
}
