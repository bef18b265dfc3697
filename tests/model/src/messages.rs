//! Anthropic Messages, streaming.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::web::Data;
use actix_web::{HttpResponse, web};
use serde_json::{Value, json};

use crate::record::Record;
use crate::rules::{Asked, Rule, Rules};
use crate::sse::Events;

static NUMBER: AtomicU64 = AtomicU64::new(1);

pub(crate) async fn messages(body: web::Bytes, rules: Data<Rules>, record: Data<Record>) -> HttpResponse {
    let Ok(request) = serde_json::from_slice::<Value>(&body) else {
        return failure(StatusCode::BAD_REQUEST, "not JSON");
    };
    let asked = Asked::of_messages(&request);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    record.note(&json!({ "number": number, "last_user": asked.last_user, "users": asked.users, "request": request }));
    let Some(rule) = rules.answer(&asked) else {
        return failure(StatusCode::NOT_IMPLEMENTED, "no rule answers this");
    };
    if let Some(status) = rule.status {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        return failure(status, "as the rule says");
    }
    let (events, response) = Events::open();
    actix_web::rt::spawn(async move {
        let stream = Stream { events, number, model: request["model"].clone() };
        if stream.answer(&rule).await.is_none() {
            record.note(&json!({ "number": number, "hung_up": true }));
        }
    });
    response
}

fn failure(status: StatusCode, message: &str) -> HttpResponse {
    let kind = match status.as_u16() {
        400 => "invalid_request_error",
        401 => "authentication_error",
        403 => "permission_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        _ => "api_error",
    };
    HttpResponse::build(status).json(json!({ "type": "error", "error": { "type": kind, "message": message } }))
}

struct Stream {
    events: Events,
    number: u64,
    model: Value,
}

impl Stream {
    /// The whole answer; `None` when the client hung up.
    async fn answer(&self, rule: &Rule) -> Option<()> {
        let usage = json!({ "input_tokens": 12, "output_tokens": 1 });
        let message = json!({
            "id": format!("msg_{}", self.number), "type": "message", "role": "assistant", "model": self.model,
            "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage,
        });
        self.events.send("message_start", json!({ "message": message })).await?;
        let first = match &rule.thinking {
            Some(thinking) => self.thinking(thinking).await?,
            None => 0,
        };
        let stop = match (&rule.tool, &rule.call) {
            (Some(command), _) => {
                let input = json!({ "command": command, "description": "as the rule says" });
                self.call(first, "Bash", &input).await?
            }
            (None, Some(call)) => self.call(first, &call.name, &call.input).await?,
            (None, None) => self.text(first, rule).await?,
        };
        let delta = json!({ "stop_reason": stop, "stop_sequence": null });
        self.events.send("message_delta", json!({ "delta": delta, "usage": { "output_tokens": 9 } })).await?;
        self.events.send("message_stop", json!({})).await
    }

    /// The index of the block after it.
    async fn thinking(&self, text: &str) -> Option<usize> {
        self.start(0, json!({ "type": "thinking", "thinking": "", "signature": "" })).await?;
        self.delta(0, json!({ "type": "thinking_delta", "thinking": text })).await?;
        self.delta(0, json!({ "type": "signature_delta", "signature": "c2lnbmVk" })).await?;
        self.stop(0).await?;
        Some(1)
    }

    /// Why the message ends.
    async fn text(&self, index: usize, rule: &Rule) -> Option<&'static str> {
        self.start(index, json!({ "type": "text", "text": "" })).await?;
        for word in rule.text.split_inclusive(' ') {
            self.delta(index, json!({ "type": "text_delta", "text": word })).await?;
            if let Some(pause) = rule.every_ms {
                self.events.rest(Duration::from_millis(pause)).await?;
            }
        }
        self.stop(index).await?;
        Some("end_turn")
    }

    /// Why the message ends.
    async fn call(&self, index: usize, name: &str, input: &Value) -> Option<&'static str> {
        let id = format!("toolu_{}", self.number);
        self.start(index, json!({ "type": "tool_use", "id": id, "name": name, "input": {} })).await?;
        self.delta(index, json!({ "type": "input_json_delta", "partial_json": input.to_string() })).await?;
        self.stop(index).await?;
        Some("tool_use")
    }

    async fn start(&self, index: usize, block: Value) -> Option<()> {
        self.events.send("content_block_start", json!({ "index": index, "content_block": block })).await
    }

    async fn delta(&self, index: usize, delta: Value) -> Option<()> {
        self.events.send("content_block_delta", json!({ "index": index, "delta": delta })).await
    }

    async fn stop(&self, index: usize) -> Option<()> {
        self.events.send("content_block_stop", json!({ "index": index })).await
    }
}
