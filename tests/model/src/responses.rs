//! OpenAI Responses, streaming.

use serde_json::{Value, json};

use crate::chat::openai_failure;
use crate::dialect::{Dialect, Turn};
use crate::rules::{Asked, Failure};
use crate::sse::Broken;
use crate::tools::shell_call;

/// The dialect.
pub(crate) struct Responses;

impl Dialect for Responses {
    fn asked(request: &Value) -> Asked {
        Asked::of_responses(request)
    }

    fn failure(failure: &Failure) -> Value {
        openai_failure(failure)
    }

    async fn say(turn: &Turn) -> Result<(), Broken> {
        let id = format!("resp_{}", turn.number);
        let response = json!({ "id": id, "status": "in_progress", "output": [] });
        turn.events.send("response.created", json!({ "response": response })).await?;
        let item = match &turn.rule.tool {
            Some(command) => turn.call(command).await?,
            None => turn.message().await?,
        };
        turn.events.send("response.output_item.done", json!({ "output_index": 0, "item": item })).await?;
        let usage = json!({
            "input_tokens": 12, "input_tokens_details": { "cached_tokens": 0 },
            "output_tokens": 9, "output_tokens_details": { "reasoning_tokens": 0 }, "total_tokens": 21,
        });
        let response = json!({ "id": id, "status": "completed", "output": [item], "usage": usage });
        turn.events.send("response.completed", json!({ "response": response })).await
    }
}

impl Turn {
    /// Says the text; the item as it is at its end.
    async fn message(&self) -> Result<Value, Broken> {
        let id = format!("msg_{}", self.number);
        let item = |content: Value, status: &str| json!({ "type": "message", "id": id, "role": "assistant", "status": status, "content": content });
        let added = json!({ "output_index": 0, "item": item(json!([]), "in_progress") });
        self.events.send("response.output_item.added", added).await?;
        for (said, word) in self.rule.words() {
            let delta = json!({ "item_id": id, "output_index": 0, "content_index": 0, "delta": word });
            self.events.send("response.output_text.delta", delta).await?;
            self.events.pace(&self.rule, said).await?;
        }
        let text = json!({ "type": "output_text", "text": self.rule.text, "annotations": [] });
        let content = if self.rule.text.is_empty() { json!([]) } else { json!([text]) };
        Ok(item(content, "completed"))
    }

    async fn call(&self, command: &str) -> Result<Value, Broken> {
        let (name, arguments) = shell_call(&self.request["tools"], command);
        let (id, call) = (format!("fc_{}", self.number), format!("call_{}", self.number));
        let item = json!({
            "type": "function_call", "id": id, "call_id": call, "name": name, "arguments": arguments.to_string(),
            "status": "completed",
        });
        let added = json!({ "output_index": 0, "item": item });
        self.events.send("response.output_item.added", added).await?;
        Ok(item)
    }
}
