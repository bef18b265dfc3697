//! What an agent says by itself.

use agent_client_protocol_schema::v1::{ContentBlock, ContentChunk, Plan, ToolCall, ToolCallUpdate};
use ostler_supervisors::adapter::{Answer, Fact};
use ostler_supervisors::contract::{ClearReason, EventKind, MessageId, MessageRole};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use super::turn::Shown;
use super::wire::{id_of, short};
use super::{Became, Machine, Phase, noise};

/// The members of `session/update`; the update itself is read by its kind.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Notified<'a> {
    session_id: String,
    #[serde(borrow)]
    update: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Update {
    session_update: String,
}

impl Machine {
    pub(super) fn notified(&mut self, method: &str, params: Option<&RawValue>, answer: &mut Answer) -> Became {
        let params = params.map_or("null", RawValue::get);
        match method {
            "session/update" if self.phase != Phase::Ready => self.before_tasks(params),
            "session/update" => match serde_json::from_str::<Notified<'_>>(params) {
                Ok(notified) if self.is_own(&notified.session_id) => self.update(notified.update, answer),
                // The sessions that an agent opens beside ours are its own affair.
                Ok(_) => Became::Noted,
                Err(_) => noise("a session/update that cannot be read".to_owned(), answer),
            },
            "$/cancel_request" => self.taken_back(params, answer),
            _ => Became::Noted,
        }
    }

    /// What is said before a session takes tasks belongs to none: a loaded history, or news of the session itself.
    fn before_tasks(&self, params: &str) -> Became {
        let loads = matches!(&self.phase, Phase::Opening(setup) if setup.loads());
        let replayed = loads && serde_json::from_str::<Notified<'_>>(params).is_ok_and(is_history);
        if replayed { Became::Redundant } else { Became::Noted }
    }

    fn update(&mut self, update: &RawValue, answer: &mut Answer) -> Became {
        let text = update.get();
        let Ok(Update { session_update: kind }) = serde_json::from_str(text) else {
            return noise("an update without a kind".to_owned(), answer);
        };
        match (kind.as_str(), &self.turn) {
            ("agent_message_chunk" | "agent_thought_chunk" | "tool_call" | "tool_call_update" | "plan", None) => {
                noise(format!("a {kind} outside of any task"), answer)
            }
            ("agent_message_chunk", Some(_)) => self
                .read(&kind, text, answer, |machine, chunk, answer| machine.chunk(chunk, MessageRole::Unknown, answer)),
            ("agent_thought_chunk", Some(_)) => self.read(&kind, text, answer, |machine, chunk, answer| {
                machine.chunk(chunk, MessageRole::Explanation, answer)
            }),
            ("tool_call", Some(_)) => {
                self.read(&kind, text, answer, |machine, call: ToolCall, answer| machine.tool_call(call.into(), answer))
            }
            ("tool_call_update", Some(_)) => {
                self.read(&kind, text, answer, |machine, call: ToolCallUpdate, answer| machine.tool_call(call, answer))
            }
            ("plan", Some(_)) => {
                self.read(&kind, text, answer, |machine, plan: Plan, answer| machine.plan(&plan, answer))
            }
            ("session_info_update", Some(_)) => self.session_info(text, answer),
            // An echo of the prompt, commands, modes, options, usage of the context, and kinds of later versions.
            _ => Became::Noted,
        }
    }

    fn read<T: DeserializeOwned>(
        &mut self,
        kind: &str,
        text: &str,
        answer: &mut Answer,
        take: impl FnOnce(&mut Self, T, &mut Answer) -> Became,
    ) -> Became {
        match serde_json::from_str(text) {
            Ok(update) => {
                self.saw(Shown::Sign, answer);
                take(self, update, answer)
            }
            Err(error) => noise(short(&format!("a {kind} that cannot be read: {error}")), answer),
        }
    }

    fn chunk(&mut self, chunk: ContentChunk, role: MessageRole, answer: &mut Answer) -> Became {
        let ContentBlock::Text(content) = chunk.content else { return Became::Noted };
        if role == MessageRole::Unknown {
            self.saw(Shown::Text, answer);
        }
        let Some(turn) = &mut self.turn else { return Became::Noted };
        // Some agents give a thought the id of the message it belongs to.
        let suffix = if role == MessageRole::Explanation { ".thought" } else { "" };
        let given = chunk.message_id.and_then(|id| id_of::<MessageId>(&format!("{}{suffix}", id.0)));
        let message = turn.message(role, given);
        answer.fact(Fact::MessageDelta { message, role, text: content.text });
        Became::Mapped
    }

    fn plan(&mut self, plan: &Plan, answer: &mut Answer) -> Became {
        let entries = serde_json::to_value(&plan.entries).unwrap_or(Value::Null);
        let data = serde_json::json!({ "entries": entries });
        answer.fact(Fact::Event { kind: EventKind::from_adapter("plan"), data });
        Became::Mapped
    }

    /// The Codex adapter passes on how its thread is; it calls a turn ended all the same.
    fn session_info(&mut self, text: &str, answer: &mut Answer) -> Became {
        let info: Value = serde_json::from_str(text).unwrap_or(Value::Null);
        if info["_meta"]["codex"]["threadStatus"]["type"] != "systemError" {
            return Became::Noted;
        }
        self.saw(Shown::SystemError, answer);
        Became::Mapped
    }

    /// A request of the agent's that it does not want answered any more.
    fn taken_back(&mut self, params: &str, answer: &mut Answer) -> Became {
        let params: Value = serde_json::from_str(params).unwrap_or(Value::Null);
        match self.permission_of(&params["requestId"]) {
            Some(id) => {
                self.close_permission(&id, ClearReason::ProviderWithdrawn, answer);
                Became::Mapped
            }
            None => Became::Noted,
        }
    }
}

fn is_history(notified: Notified<'_>) -> bool {
    let kind = serde_json::from_str::<Update>(notified.update.get());
    kind.is_ok_and(|update| {
        matches!(
            update.session_update.as_str(),
            "user_message_chunk"
                | "agent_message_chunk"
                | "agent_thought_chunk"
                | "tool_call"
                | "tool_call_update"
                | "plan"
        )
    })
}
