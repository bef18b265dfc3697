//! Requests of an agent: permissions are asked on, everything else is refused politely.

use agent_client_protocol_schema::v1::{
    Error, PermissionOption, PermissionOptionKind as Offer, RequestPermissionOutcome, RequestPermissionResponse,
    SelectedPermissionOutcome, ToolCallUpdate,
};
use ostler_supervisors::adapter::{Answer, Fact};
use ostler_supervisors::contract::{
    ApprovalDecision, ApprovalPolicy, ClearReason, InteractionId, InteractionKind, InteractionRequest,
    InteractionResponse, WarningKind, WorkId,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::call::effect;
use super::turn::{Course, Shown};
use super::wire::{id_of, refuse, reply, short};
use super::{Became, Machine};

/// This many are open at once; a snapshot stays small.
const MOST_OPEN: usize = 6;
/// The longest id of a request or an option that is kept.
const LONGEST_ID: usize = 128;

/// A permission that the agent waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OpenPermission {
    request: Value,
    work: Option<WorkId>,
    offers: Offers,
}

/// The agent's own options, by what they mean. Those that allow or refuse more than this one call have a scope that
/// nobody here can describe.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Offers {
    allow: Option<String>,
    reject: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wanted {
    session_id: String,
    tool_call: ToolCallUpdate,
    #[serde(default)]
    options: Vec<Value>,
}

impl Offers {
    fn of(options: Vec<Value>) -> Self {
        // An option of a kind of a later version cannot be chosen; the others can.
        let known = options.into_iter().filter_map(|option| serde_json::from_value::<PermissionOption>(option).ok());
        let known: Vec<_> = known.filter(|option| option.option_id.0.len() <= LONGEST_ID).collect();
        let first = |kind: Offer| {
            known.iter().find(|option| option.kind == kind).map(|option| option.option_id.0.as_ref().to_owned())
        };
        Self { allow: first(Offer::AllowOnce), reject: first(Offer::RejectOnce) }
    }

    fn available(&self) -> Vec<ApprovalDecision> {
        // Where no option rejects, the protocol's own word for no answer refuses the call.
        let allow = self.allow.as_ref().map(|_| ApprovalDecision::ApproveOnce);
        [allow, Some(ApprovalDecision::Decline), Some(ApprovalDecision::Cancel)].into_iter().flatten().collect()
    }
}

impl Machine {
    pub(super) fn asked_by_agent(
        &mut self,
        method: &str,
        id: &Value,
        params: Option<&RawValue>,
        answer: &mut Answer,
    ) -> Became {
        if method != "session/request_permission" {
            refuse_unknown(method, id, answer);
            return Became::Mapped;
        }
        match serde_json::from_str::<Wanted>(params.map_or("null", RawValue::get)) {
            Ok(wanted) if self.is_own(&wanted.session_id) => self.permission(id, wanted, answer),
            Ok(_) => {
                reply(id, &outcome(None), answer);
                warn("declined a request of a session that Ostler did not open".to_owned(), answer);
            }
            Err(error) => {
                refuse(id, Error::invalid_params(), answer);
                warn(short(&format!("refused a request for permission that cannot be read: {error}")), answer);
            }
        }
        Became::Mapped
    }

    fn permission(&mut self, id: &Value, wanted: Wanted, answer: &mut Answer) {
        let (policy, course) = match &self.turn {
            Some(turn) => (turn.policy, turn.course),
            None => {
                reply(id, &outcome(None), answer);
                return warn("declined a request outside of any task".to_owned(), answer);
            }
        };
        self.saw(Shown::Sign, answer);
        let work = id_of::<WorkId>(&wanted.tool_call.tool_call_id.0);
        if let Some(work) = &work {
            self.announce(work, &wanted.tool_call, answer);
        }
        let open = OpenPermission { request: id.clone(), work, offers: Offers::of(wanted.options) };
        let interaction = self.interaction(id).filter(|_| self.permissions.len() < MOST_OPEN);
        match (policy, course, interaction) {
            (_, Course::Cancelling | Course::CutShort, _) => {
                reply(id, &outcome(None), answer);
                self.cut_short();
            }
            (ApprovalPolicy::Ask | ApprovalPolicy::Allow, Course::Running, Some(interaction))
                if open.offers.allow.is_some() =>
            {
                answer.fact(Fact::Asked(request(&interaction, &open, &wanted.tool_call)));
                self.permissions.insert(interaction, open);
            }
            // By policy; or since it cannot be allowed for once; or since there are too many already.
            _ => self.decline(&open, &wanted.tool_call, answer),
        }
    }

    /// Unique within the task: the prompt, and the request's id at the agent.
    fn interaction(&self, id: &Value) -> Option<InteractionId> {
        let prompt = self.turn.as_ref()?.prompt;
        match id {
            Value::Number(number) => id_of(&format!("{prompt}.{number}")),
            Value::String(name) if name.len() <= LONGEST_ID => id_of(&format!("{prompt}.{name}")),
            _ => None,
        }
    }

    /// An adapter only ever declines by itself (rules 7).
    fn decline(&mut self, open: &OpenPermission, call: &ToolCallUpdate, answer: &mut Answer) {
        reply(&open.request, &outcome(open.offers.reject.as_deref()), answer);
        if let Some(work) = &open.work {
            self.declined(work, answer);
        }
        warn(short(&format!("declined: {}", title(call))), answer);
    }

    pub(super) fn respond(&mut self, interaction: &InteractionId, response: &InteractionResponse, answer: &mut Answer) {
        let Some(open) = self.permissions.remove(interaction) else { return };
        let InteractionResponse::Approval { decision } = response else {
            self.permissions.insert(interaction.clone(), open);
            return;
        };
        let chosen = match decision {
            ApprovalDecision::ApproveOnce => open.offers.allow.as_deref(),
            ApprovalDecision::Decline => open.offers.reject.as_deref(),
            _ => None,
        };
        reply(&open.request, &outcome(chosen), answer);
        if let (Some(work), false) = (&open.work, *decision == ApprovalDecision::ApproveOnce) {
            self.declined(work, answer);
        }
        // The protocol knows no word for an answer that was taken: it is stored before it is sent, and sent until it has
        // arrived.
        answer.fact(Fact::AnswerConfirmed(interaction.clone()));
        if *decision == ApprovalDecision::Cancel {
            self.cut_short();
            self.interrupt(answer);
        }
    }

    pub(super) fn permission_of(&self, request: &Value) -> Option<InteractionId> {
        self.permissions.iter().find(|(_, open)| open.request == *request).map(|(id, _)| id.clone())
    }

    /// Answers one as cancelled, and says why it closed.
    pub(super) fn close_permission(&mut self, id: &InteractionId, reason: ClearReason, answer: &mut Answer) {
        if let Some(open) = self.permissions.remove(id) {
            reply(&open.request, &outcome(None), answer);
            answer.fact(Fact::Withdrawn(id.clone(), reason));
        }
    }

    pub(super) fn close_permissions(&mut self, reason: ClearReason, answer: &mut Answer) {
        while let Some(id) = self.permissions.keys().next().cloned() {
            self.close_permission(&id, reason, answer);
        }
    }
}

fn outcome(option: Option<&str>) -> RequestPermissionResponse {
    RequestPermissionResponse::new(match option {
        Some(option) => RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(option.to_owned())),
        None => RequestPermissionOutcome::Cancelled,
    })
}

fn title(call: &ToolCallUpdate) -> &str {
    call.fields.title.as_deref().or(call.fields.name.as_deref()).unwrap_or("the agent asks for permission")
}

fn request(id: &InteractionId, open: &OpenPermission, call: &ToolCallUpdate) -> InteractionRequest {
    InteractionRequest {
        id: id.clone(),
        work: open.work.clone(),
        prompt: title(call).to_owned(),
        kind: InteractionKind::Approval { effect: effect(call.fields.kind), available: open.offers.available() },
    }
}

/// A kind nobody here can answer is refused at once, visibly, so that the agent does not wait for ever.
fn refuse_unknown(method: &str, id: &Value, answer: &mut Answer) {
    let method = short(method);
    let error = Error::new(-32601, format!("{method} is not offered by this client"));
    refuse(id, error, answer);
    let message = format!("refused a request of unknown kind: {method}");
    answer.fact(Fact::Warning { kind: WarningKind::Other, message });
}

fn warn(message: String, answer: &mut Answer) {
    answer.fact(Fact::Warning { kind: WarningKind::Configuration, message });
}
