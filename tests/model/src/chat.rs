//! OpenAI Chat Completions, streaming and whole.

use serde_json::{Value, json};

use crate::dialect::{Dialect, Turn};
use crate::rules::{Asked, Failure};
use crate::sse::Broken;
use crate::tools::shell_call;

/// The dialect.
pub(crate) struct Chat;

impl Dialect for Chat {
    fn asked(request: &Value) -> Asked {
        Asked::of_chat(request)
    }

    fn failure(failure: &Failure) -> Value {
        openai_failure(failure)
    }

    fn streams(request: &Value) -> bool {
        request["stream"] == true
    }

    async fn say(turn: &Turn) -> Result<(), Broken> {
        let speaker = Speaker { turn, call: call(turn) };
        if Self::streams(&turn.request) { speaker.in_pieces().await } else { speaker.at_once().await }
    }
}

/// A failure as both dialects of OpenAI have it.
pub(crate) fn openai_failure(failure: &Failure) -> Value {
    let (kind, code) = match failure.status.as_u16() {
        401 => ("invalid_request_error", Some("invalid_api_key")),
        429 => ("requests", Some("rate_limit_exceeded")),
        400..500 => ("invalid_request_error", None),
        _ => ("server_error", None),
    };
    json!({ "error": { "message": failure.message, "type": kind, "param": null, "code": code } })
}

/// The tool that the rule asks for, with its arguments.
fn call(turn: &Turn) -> Option<(String, Value)> {
    let shell = turn.rule.tool.as_deref().map(|command| shell_call(&turn.request["tools"], command));
    shell.or_else(|| turn.rule.call.as_ref().map(|call| (call.name.clone(), call.input.clone())))
}

struct Speaker<'a> {
    turn: &'a Turn,
    call: Option<(String, Value)>,
}

impl Speaker<'_> {
    async fn in_pieces(&self) -> Result<(), Broken> {
        self.delta(json!({ "role": "assistant", "content": "" })).await?;
        for thought in self.turn.rule.thinking.iter().flat_map(|text| text.split_inclusive(' ')) {
            self.delta(json!({ "reasoning_content": thought })).await?;
        }
        match &self.call {
            Some((name, arguments)) => self.call_in_fragments(name, &arguments.to_string()).await?,
            None => self.words().await?,
        }
        self.chunk(json!([{ "index": 0, "delta": {}, "finish_reason": self.reason() }]), Value::Null).await?;
        if self.counts() {
            self.chunk(json!([]), usage()).await?;
        }
        self.turn.events.raw("data: [DONE]\n\n".to_owned()).await
    }

    async fn words(&self) -> Result<(), Broken> {
        for (said, word) in self.turn.rule.words() {
            self.delta(json!({ "content": word })).await?;
            self.turn.events.pace(&self.turn.rule, said).await?;
        }
        Ok(())
    }

    /// Its name comes first, its arguments after it, cut wherever it happens.
    async fn call_in_fragments(&self, name: &str, arguments: &str) -> Result<(), Broken> {
        let function = json!({ "name": name, "arguments": "" });
        let call = json!({ "index": 0, "id": self.call_id(), "type": "function", "function": function });
        self.delta(json!({ "tool_calls": [call] })).await?;
        let characters: Vec<char> = arguments.chars().collect();
        for fragment in characters.chunks(7).map(String::from_iter) {
            let call = json!({ "index": 0, "function": { "arguments": fragment } });
            self.delta(json!({ "tool_calls": [call] })).await?;
        }
        Ok(())
    }

    /// The whole answer, after its pauses. One that is cut has half of its bytes.
    async fn at_once(&self) -> Result<(), Broken> {
        let choice = json!({ "index": 0, "message": self.message(), "logprobs": null, "finish_reason": self.reason() });
        let whole = self.envelope("chat.completion", json!([choice]), usage()).to_string();
        let (begin, end) = whole.split_at(whole.floor_char_boundary(whole.len() / 2));
        self.turn.events.raw(begin.to_owned()).await?;
        if self.call.is_none() {
            for (said, _) in self.turn.rule.words() {
                self.turn.events.pace(&self.turn.rule, said).await?;
            }
        }
        self.turn.events.raw(end.to_owned()).await
    }

    fn message(&self) -> Value {
        let mut message = json!({ "role": "assistant", "refusal": null });
        if let Some(thinking) = &self.turn.rule.thinking {
            message["reasoning_content"] = thinking.as_str().into();
        }
        match &self.call {
            Some((name, arguments)) => {
                let function = json!({ "name": name, "arguments": arguments.to_string() });
                message["content"] = Value::Null;
                message["tool_calls"] = json!([{ "id": self.call_id(), "type": "function", "function": function }]);
            }
            None => message["content"] = self.turn.rule.text.as_str().into(),
        }
        message
    }

    fn call_id(&self) -> String {
        format!("call_{}", self.turn.number)
    }

    fn reason(&self) -> &'static str {
        if self.call.is_some() { "tool_calls" } else { "stop" }
    }

    /// Whether the client asked for usage, which a stream has only then.
    fn counts(&self) -> bool {
        self.turn.request["stream_options"]["include_usage"] == true
    }

    async fn delta(&self, delta: Value) -> Result<(), Broken> {
        self.chunk(json!([{ "index": 0, "delta": delta, "finish_reason": null }]), Value::Null).await
    }

    async fn chunk(&self, choices: Value, usage: Value) -> Result<(), Broken> {
        let mut chunk = self.envelope("chat.completion.chunk", choices, usage);
        if let Some(members) = chunk.as_object_mut().filter(|_| !self.counts()) {
            members.remove("usage");
        }
        self.turn.events.data(&chunk).await
    }

    fn envelope(&self, object: &str, choices: Value, usage: Value) -> Value {
        let model = &self.turn.request["model"];
        json!({
            "id": format!("chatcmpl-{}", self.turn.number), "object": object, "created": 0, "model": model,
            "choices": choices, "usage": usage,
        })
    }
}

fn usage() -> Value {
    json!({
        "prompt_tokens": 12, "completion_tokens": 9, "total_tokens": 21, "prompt_tokens_details": { "cached_tokens": 0 },
        "completion_tokens_details": { "reasoning_tokens": 0 },
    })
}
