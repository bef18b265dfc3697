//! OpenAI Responses, streaming.

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

pub(crate) async fn responses(body: web::Bytes, rules: Data<Rules>, record: Data<Record>) -> HttpResponse {
    let Ok(request) = serde_json::from_slice::<Value>(&body) else {
        return HttpResponse::BadRequest().json(json!({ "error": { "message": "not JSON" } }));
    };
    let asked = Asked::of_responses(&request);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    record.note(&json!({ "number": number, "last_user": asked.last_user, "users": asked.users, "request": request }));
    let Some(rule) = rules.answer(&asked) else {
        return HttpResponse::NotImplemented().json(json!({ "error": { "message": "no rule answers this" } }));
    };
    if let Some(status) = rule.status {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        return HttpResponse::build(status).json(json!({ "error": { "message": "as the rule says" } }));
    }
    let (events, response) = Events::open();
    actix_web::rt::spawn(async move {
        let mut stream = Stream { events, number, output: Vec::new() };
        if stream.answer(&rule, &request["tools"]).await.is_none() {
            record.note(&json!({ "number": number, "hung_up": true }));
        }
    });
    response
}

struct Stream {
    events: Events,
    number: u64,
    output: Vec<Value>,
}

impl Stream {
    /// The whole answer; `None` when the client hung up.
    async fn answer(&mut self, rule: &Rule, tools: &Value) -> Option<()> {
        let id = format!("resp_{}", self.number);
        self.events
            .send("response.created", json!({ "response": { "id": id, "status": "in_progress", "output": [] } }))
            .await?;
        match &rule.tool {
            Some(command) => self.tool(command, tools).await?,
            None => self.text(rule).await?,
        }
        let usage = json!({
            "input_tokens": 12, "input_tokens_details": { "cached_tokens": 0 },
            "output_tokens": 9, "output_tokens_details": { "reasoning_tokens": 0 }, "total_tokens": 21,
        });
        let response = json!({ "id": id, "status": "completed", "output": self.output, "usage": usage });
        self.events.send("response.completed", json!({ "response": response })).await
    }

    async fn text(&mut self, rule: &Rule) -> Option<()> {
        let id = format!("msg_{}", self.number);
        let item = |text: &str, status: &str| {
            let content = if text.is_empty() {
                json!([])
            } else {
                json!([{ "type": "output_text", "text": text, "annotations": [] }])
            };
            json!({ "type": "message", "id": id, "role": "assistant", "status": status, "content": content })
        };
        self.events
            .send("response.output_item.added", json!({ "output_index": 0, "item": item("", "in_progress") }))
            .await?;
        for word in rule.text.split_inclusive(' ') {
            let delta = json!({ "item_id": id, "output_index": 0, "content_index": 0, "delta": word });
            self.events.send("response.output_text.delta", delta).await?;
            if let Some(pause) = rule.every_ms {
                self.events.rest(Duration::from_millis(pause)).await?;
            }
        }
        self.done(item(&rule.text, "completed")).await
    }

    async fn tool(&mut self, command: &str, tools: &Value) -> Option<()> {
        let (name, argument) = shell_tool(tools);
        let arguments = json!({ argument: command }).to_string();
        let id = format!("fc_{}", self.number);
        let call = format!("call_{}", self.number);
        let item = json!({
            "type": "function_call", "id": id, "call_id": call, "name": name, "arguments": arguments, "status": "completed",
        });
        self.events.send("response.output_item.added", json!({ "output_index": 0, "item": item })).await?;
        self.done(item).await
    }

    async fn done(&mut self, item: Value) -> Option<()> {
        self.output.push(item.clone());
        self.events.send("response.output_item.done", json!({ "output_index": 0, "item": item })).await
    }
}

/// The tool that runs a shell command, and its argument's name, from the request's own list.
fn shell_tool(tools: &Value) -> (String, String) {
    let known = ["exec_command", "shell", "local_shell", "bash", "run_shell_command"];
    for tool in tools.as_array().into_iter().flatten() {
        let name = tool["name"].as_str().unwrap_or_default();
        if known.contains(&name) {
            let properties = &tool["parameters"]["properties"];
            let argument = ["cmd", "command"].into_iter().find(|argument| !properties[*argument].is_null());
            return (name.to_owned(), argument.unwrap_or("command").to_owned());
        }
    }
    ("exec_command".to_owned(), "cmd".to_owned())
}
