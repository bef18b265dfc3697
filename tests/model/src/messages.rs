//! Anthropic Messages, streaming.

use serde_json::{Value, json};

use crate::dialect::{Dialect, Turn};
use crate::rules::{Asked, Failure};
use crate::sse::Broken;

/// The dialect.
pub(crate) struct Messages;

impl Dialect for Messages {
    fn asked(request: &Value) -> Asked {
        Asked::of_messages(request)
    }

    fn failure(failure: &Failure) -> Value {
        let kind = match failure.status.as_u16() {
            400 => "invalid_request_error",
            401 => "authentication_error",
            403 => "permission_error",
            413 => "request_too_large",
            429 => "rate_limit_error",
            529 => "overloaded_error",
            _ => "api_error",
        };
        json!({ "type": "error", "error": { "type": kind, "message": failure.message } })
    }

    async fn say(turn: &Turn) -> Result<(), Broken> {
        let speaker = Speaker(turn);
        let usage = json!({ "input_tokens": 12, "output_tokens": 1 });
        let message = json!({
            "id": format!("msg_{}", turn.number), "type": "message", "role": "assistant",
            "model": turn.request["model"], "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage,
        });
        turn.events.send("message_start", json!({ "message": message })).await?;
        let first = match &turn.rule.thinking {
            Some(thinking) => speaker.thinking(thinking).await?,
            None => 0,
        };
        let stop = match (&turn.rule.tool, &turn.rule.call) {
            (Some(command), _) => {
                let input = json!({ "command": command, "description": "as the rule says" });
                speaker.call(first, "Bash", &input).await?
            }
            (None, Some(call)) => speaker.call(first, &call.name, &call.input).await?,
            (None, None) => speaker.text(first).await?,
        };
        let delta = json!({ "stop_reason": stop, "stop_sequence": null });
        turn.events.send("message_delta", json!({ "delta": delta, "usage": { "output_tokens": 9 } })).await?;
        turn.events.send("message_stop", json!({})).await
    }
}

struct Speaker<'a>(&'a Turn);

impl Speaker<'_> {
    /// The index of the block after it.
    async fn thinking(&self, text: &str) -> Result<usize, Broken> {
        self.start(0, json!({ "type": "thinking", "thinking": "", "signature": "" })).await?;
        self.delta(0, json!({ "type": "thinking_delta", "thinking": text })).await?;
        self.delta(0, json!({ "type": "signature_delta", "signature": "c2lnbmVk" })).await?;
        self.stop(0).await?;
        Ok(1)
    }

    /// Why the message ends.
    async fn text(&self, index: usize) -> Result<&'static str, Broken> {
        self.start(index, json!({ "type": "text", "text": "" })).await?;
        for (said, word) in self.0.rule.words() {
            self.delta(index, json!({ "type": "text_delta", "text": word })).await?;
            self.0.events.pace(&self.0.rule, said).await?;
        }
        self.stop(index).await?;
        Ok("end_turn")
    }

    /// Why the message ends.
    async fn call(&self, index: usize, name: &str, input: &Value) -> Result<&'static str, Broken> {
        let id = format!("toolu_{}", self.0.number);
        self.start(index, json!({ "type": "tool_use", "id": id, "name": name, "input": {} })).await?;
        self.delta(index, json!({ "type": "input_json_delta", "partial_json": input.to_string() })).await?;
        self.stop(index).await?;
        Ok("tool_use")
    }

    async fn start(&self, index: usize, block: Value) -> Result<(), Broken> {
        self.0.events.send("content_block_start", json!({ "index": index, "content_block": block })).await
    }

    async fn delta(&self, index: usize, delta: Value) -> Result<(), Broken> {
        self.0.events.send("content_block_delta", json!({ "index": index, "delta": delta })).await
    }

    async fn stop(&self, index: usize) -> Result<(), Broken> {
        self.0.events.send("content_block_stop", json!({ "index": index })).await
    }
}
