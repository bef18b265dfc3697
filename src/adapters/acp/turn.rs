//! One prompt, from its request to its answer.

use agent_client_protocol_schema::v1::{
    AGENT_METHOD_NAMES, CancelNotification, Error, ErrorCode, PromptRequest, PromptResponse, StopReason as Stop, Usage,
};
use ostler_supervisors::adapter::{Answer, EndReport, Fact};
use ostler_supervisors::contract::{
    AgentUsage, ApprovalPolicy, ClearReason, Delegation, FailureKind, MessageId, MessageRole, RateLimit, StopReason,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::call::Calls;
use super::known::{Counting, Known};
use super::wire::{Outcome, notify, short, text_of};
use super::{Asked, Machine, Storage};

/// The prompt under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Turn {
    /// The number of its request.
    pub(super) prompt: u64,
    pub(super) policy: ApprovalPolicy,
    pub(super) course: Course,
    /// The message that the agent is saying.
    pub(super) voice: Option<Voice>,
    /// How many messages had no id of the agent's.
    pub(super) nameless: u32,
    shown: Shown,
    /// Who obeys the prompt.
    obeyed_by: ObeyedBy,
}

/// Where a turn is going.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Course {
    Running,
    /// It was asked to stop.
    Cancelling,
    /// The same, and with it something that it asked was closed without an answer: its end is no end of its work.
    CutShort,
}

/// What the agent has shown of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Shown {
    Nothing,
    Sign,
    Text,
    /// It said that its own engine failed.
    SystemError,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum ObeyedBy {
    Model,
    Agent,
}

/// A message being said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Voice {
    pub(super) role: MessageRole,
    pub(super) message: MessageId,
    pub(super) named: Named,
}

/// Who gave a message its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Named {
    ByAgent,
    ByUs,
}

/// What a session used before the turn, where the agent counts sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Total {
    /// It was loaded, and nobody said.
    Unknown,
    Known(AgentUsage),
}

impl Machine {
    pub(super) fn submit(&mut self, delegation: &Delegation, answer: &mut Answer) {
        let session = match (&self.spoken, &self.turn) {
            (Some(session), None) => session.clone(),
            _ => {
                let message = "the agent is at work on another prompt, or has no session".to_owned();
                return answer.fact(Fact::NotAccepted { message });
            }
        };
        self.turn = Some(Turn {
            prompt: self.next_id,
            policy: delegation.approval,
            course: Course::Running,
            voice: None,
            nameless: 0,
            shown: Shown::Nothing,
            obeyed_by: if self.known.is_command(&delegation.prompt) { ObeyedBy::Agent } else { ObeyedBy::Model },
        });
        let request = PromptRequest::new(session, vec![delegation.prompt.as_str().into()]);
        self.request(Asked::Prompt, AGENT_METHOD_NAMES.session_prompt, &request, answer);
    }

    pub(super) fn interrupt(&mut self, answer: &mut Answer) {
        let (Some(turn), Some(session)) = (&mut self.turn, &self.spoken) else { return };
        let course = if self.permissions.is_empty() { Course::Cancelling } else { Course::CutShort };
        turn.course = turn.course.max(course);
        let cancel = CancelNotification::new(session.clone());
        notify(AGENT_METHOD_NAMES.session_cancel, &cancel, answer);
        // Some agents hear a cancel only when what they ask has been answered.
        self.close_permissions(ClearReason::CancellationRequested, answer);
    }

    /// Something that the agent asked is closed by a stop.
    pub(super) fn cut_short(&mut self) {
        if let Some(turn) = &mut self.turn {
            turn.course = Course::CutShort;
        }
    }

    /// The agent has begun: whatever it says shows that it took the prompt.
    pub(super) fn saw(&mut self, shown: Shown, answer: &mut Answer) {
        let Some(turn) = &mut self.turn else { return };
        if turn.shown == Shown::Nothing {
            answer.fact(Fact::Accepted);
        }
        turn.shown = turn.shown.max(shown);
    }

    pub(super) fn prompt_answered(&mut self, outcome: Outcome<'_>, answer: &mut Answer) {
        let Some(turn) = self.turn.take() else { return };
        self.close_permissions(ClearReason::ProviderWithdrawn, answer);
        self.calls = Calls::default();
        match outcome {
            Ok(result) => {
                self.used(result, answer);
                self.keep_stored(answer);
                answer.fact(Fact::End(report(self.known, &turn, result)));
            }
            Err(error) if turn.course != Course::Running && self.known.is_interrupt(&error) => {
                answer.fact(Fact::End(EndReport::Interrupted));
            }
            Err(error) if turn.shown == Shown::Nothing && is_refusal(&error) => {
                let message = format!("the agent did not take the task: {}", text_of(&error));
                answer.fact(Fact::NotAccepted { message });
            }
            Err(error) => {
                if self.known.is_limit(&error) {
                    answer.fact(Fact::RateLimited(RateLimit::default()));
                }
                answer.fact(Fact::End(failure(self.known, &error)));
            }
        }
    }

    /// A session in which a turn has ended can be loaded, where the agent offers that at all.
    fn keep_stored(&mut self, answer: &mut Answer) {
        if let (Storage::Offered, Some(id)) = (self.storage, self.session.clone()) {
            self.storage = Storage::Shown;
            answer.fact(Fact::NativeSession { id, stored: true });
        }
    }

    fn used(&mut self, result: &str, answer: &mut Answer) {
        let Some(used) = serde_json::from_str(result).ok().as_ref().and_then(usage) else { return };
        let (task, session) = match self.known.counting() {
            Counting::Turn => (used, None),
            Counting::Session => {
                let task = match std::mem::replace(&mut self.usage, Total::Known(used)) {
                    Total::Known(AgentUsage::UNKNOWN) => used,
                    Total::Known(before) => used.minus(before),
                    Total::Unknown => AgentUsage::UNKNOWN,
                };
                (task, Some(used))
            }
        };
        answer.fact(Fact::Usage { task, session });
    }
}

impl Turn {
    /// The id of the message that goes on, or begins, with this fragment.
    pub(super) fn message(&mut self, role: MessageRole, given: Option<MessageId>) -> MessageId {
        let named = if given.is_some() { Named::ByAgent } else { Named::ByUs };
        let goes_on = |voice: &&Voice| {
            voice.role == role && voice.named == named && given.as_ref().is_none_or(|id| *id == voice.message)
        };
        if let Some(voice) = self.voice.as_ref().filter(goes_on) {
            return voice.message.clone();
        }
        let message = given.or_else(|| {
            self.nameless += 1;
            format!("prompt-{}-{}", self.prompt, self.nameless).parse().ok()
        });
        // A text of a few letters and numbers is an id.
        let message = message.unwrap_or_else(|| MessageId::generate(0));
        self.voice = Some(Voice { role, message: message.clone(), named });
        message
    }
}

/// What the result of a prompt means.
fn report(known: Known, turn: &Turn, result: &str) -> EndReport {
    let stop = match serde_json::from_str::<PromptResponse>(result) {
        Ok(response) => response.stop_reason,
        Err(_) => return EndReport::Unknown { status: short(result) },
    };
    match stop {
        // Some agents call it ended when what they asked was answered by a cancel.
        Stop::EndTurn if turn.course == Course::CutShort => EndReport::Interrupted,
        Stop::EndTurn => {
            hidden_failure(known, turn, result).unwrap_or(EndReport::Completed { stop_reason: StopReason::Finished })
        }
        // Gemini means by it that the next round would not fit.
        Stop::MaxTokens if known == Known::Gemini => {
            EndReport::Failed { kind: FailureKind::ContextOverflow, message: "the context is full".to_owned() }
        }
        Stop::MaxTokens => EndReport::Completed { stop_reason: StopReason::ProviderStopped },
        Stop::MaxTurnRequests => EndReport::Completed { stop_reason: StopReason::IterationLimit },
        Stop::Refusal => {
            EndReport::Failed { kind: FailureKind::PolicyBlocked, message: "the agent refused to go on".to_owned() }
        }
        Stop::Cancelled => EndReport::Interrupted,
        other => EndReport::Unknown { status: format!("{other:?}") },
    }
}

/// The failure behind an `end_turn`, where the agent itself gives it away.
fn hidden_failure(known: Known, turn: &Turn, result: &str) -> Option<EndReport> {
    if turn.course != Course::Running {
        return None;
    }
    let message = match known {
        Known::CodexAcp if turn.shown == Shown::SystemError => "codex said that it failed, and ended its turn",
        // It ends so when a model's answer was empty, blocked or malformed: not a word, and no model counted.
        Known::Gemini if turn.shown < Shown::Text && turn.obeyed_by == ObeyedBy::Model => {
            let result: Value = serde_json::from_str(result).ok()?;
            let models = result["_meta"]["quota"]["model_usage"].as_array()?;
            models.is_empty().then_some("gemini ended its turn without a word and without an answer of its model")?
        }
        _ => return None,
    };
    Some(EndReport::Failed { kind: FailureKind::Provider, message: message.to_owned() })
}

/// Errors that say that the request itself was not taken.
fn is_refusal(error: &Error) -> bool {
    matches!(error.code, ErrorCode::InvalidRequest | ErrorCode::MethodNotFound | ErrorCode::InvalidParams)
}

/// Classified by codes alone: those of the agent, of the protocol, and the HTTP status that some agents pass on.
fn failure(known: Known, error: &Error) -> EndReport {
    let by_code = || match i32::from(error.code) {
        -32000 | 401 | 403 => FailureKind::Authentication,
        408 | 409 | 425 | 429 | 500..=599 => FailureKind::Transient,
        400..=499 | -32603 => FailureKind::Provider,
        _ => FailureKind::Unknown,
    };
    let kind = known.failure_kind(error).unwrap_or_else(by_code);
    EndReport::Failed { kind, message: text_of(error) }
}

/// The usage in a prompt's result: the protocol's own member, or Gemini's.
fn usage(result: &Value) -> Option<AgentUsage> {
    if let Ok(usage) = serde_json::from_value::<Usage>(result["usage"].clone()) {
        return Some(AgentUsage {
            input_tokens: Some(usage.input_tokens),
            cached_input_tokens: usage.cached_read_tokens,
            output_tokens: Some(usage.output_tokens),
            reasoning_tokens: usage.thought_tokens,
            total_tokens: Some(usage.total_tokens),
            cache_write_input_tokens: usage.cached_write_tokens,
        });
    }
    let quota = &result["_meta"]["quota"];
    // Without a model there is nothing that was counted.
    quota["model_usage"].as_array().filter(|models| !models.is_empty())?;
    let count = |member: &str| quota["token_count"][member].as_u64();
    let (input_tokens, output_tokens) = (count("input_tokens"), count("output_tokens"));
    input_tokens.or(output_tokens)?;
    Some(AgentUsage { input_tokens, output_tokens, ..AgentUsage::UNKNOWN })
}
