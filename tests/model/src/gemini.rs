//! Gemini: `:streamGenerateContent` as server-sent events, and `:generateContent` for the helper calls that Gemini CLI
//! makes beside a conversation (which model to take, for one).

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::web::{Bytes, Data, Path};
use actix_web::{HttpResponse, web};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc::{Sender, channel};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

use crate::record::Record;
use crate::rules::{Asked, Rule, Rules};

static NUMBER: AtomicU64 = AtomicU64::new(1);

pub(crate) async fn generate(
    call: Path<String>,
    body: web::Bytes,
    rules: Data<Rules>,
    record: Data<Record>,
) -> HttpResponse {
    let Ok(request) = serde_json::from_slice::<Value>(&body) else {
        return failure(StatusCode::BAD_REQUEST, "not JSON");
    };
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    match call.rsplit_once(':') {
        Some((model, "streamGenerateContent")) => stream(number, model, &request, &rules, record),
        Some((model, "generateContent")) => {
            record.note(&json!({ "number": number, "model": model, "helper": request }));
            HttpResponse::Ok().json(chunk(helper(&request), Some("STOP")))
        }
        _ => failure(StatusCode::NOT_FOUND, "no such call"),
    }
}

fn failure(status: StatusCode, message: &str) -> HttpResponse {
    let error = json!({ "code": status.as_u16(), "message": message, "status": "UNKNOWN" });
    HttpResponse::build(status).json(json!({ "error": error }))
}

fn stream(number: u64, model: &str, request: &Value, rules: &Rules, record: Data<Record>) -> HttpResponse {
    let asked = asked(request);
    record.note(&json!({
        "number": number, "model": model, "last_user": asked.last_user, "users": asked.users, "request": request,
    }));
    let Some(rule) = rules.answer(&asked) else {
        return failure(StatusCode::NOT_IMPLEMENTED, "no rule answers this");
    };
    if let Some(status) = rule.status {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        return failure(status, "as the rule says");
    }
    let call = rule.tool.as_deref().map(|command| shell_call(&request["tools"], command));
    let (sender, receiver) = channel::<Bytes>(1);
    actix_web::rt::spawn(async move {
        if answer(&sender, &rule, call).await.is_none() {
            record.note(&json!({ "number": number, "hung_up": true }));
        }
    });
    let body = ReceiverStream::new(receiver).map(Ok::<_, Infallible>);
    HttpResponse::Ok().content_type("text/event-stream").streaming(body)
}

/// The whole answer; `None` when the client hung up.
async fn answer(sender: &Sender<Bytes>, rule: &Rule, call: Option<Value>) -> Option<()> {
    if let Some(call) = call {
        return send(sender, &chunk(call, Some("STOP"))).await;
    }
    let words: Vec<_> = rule.text.split_inclusive(' ').collect();
    for (index, word) in words.iter().enumerate() {
        let end = (index + 1 == words.len()).then_some("STOP");
        send(sender, &chunk(json!({ "text": word }), end)).await?;
        if let Some(pause) = rule.every_ms.map(Duration::from_millis) {
            // A client that hangs up meanwhile is noticed.
            tokio::select! {
                () = sender.closed() => return None,
                () = actix_web::rt::time::sleep(pause) => {}
            }
        }
    }
    Some(())
}

async fn send(sender: &Sender<Bytes>, chunk: &Value) -> Option<()> {
    sender.send(Bytes::from(format!("data: {chunk}\n\n"))).await.ok()
}

/// One piece of an answer; the last one has its reason to end, and the usage.
fn chunk(part: Value, end: Option<&str>) -> Value {
    let mut candidate = json!({ "index": 0, "content": { "role": "model", "parts": [part] } });
    let mut whole = json!({ "modelVersion": "scripted" });
    if let Some(reason) = end {
        candidate["finishReason"] = reason.into();
        whole["usageMetadata"] = json!({ "promptTokenCount": 12, "candidatesTokenCount": 9, "totalTokenCount": 21 });
    }
    whole["candidates"] = json!([candidate]);
    whole
}

/// What bears on the choice of a rule, from the `contents` of a request.
fn asked(request: &Value) -> Asked {
    let mut asked = Asked::default();
    for content in request["contents"].as_array().into_iter().flatten().filter(|content| content["role"] == "user") {
        let parts = || content["parts"].as_array().into_iter().flatten();
        if let Some(response) = parts().find_map(|part| part["functionResponse"]["response"].as_object()) {
            let text = response.get("output").or(response.get("error")).and_then(Value::as_str);
            asked.tool_result = Some(text.unwrap_or_default().to_owned());
            continue;
        }
        // What an agent says about its surroundings is not a prompt.
        let texts = parts().filter_map(|part| part["text"].as_str()).filter(|text| !text.trim_start().starts_with('<'));
        let text = texts.collect::<Vec<_>>().join("\n");
        if !text.is_empty() {
            asked = Asked { last_user: text, users: asked.users + 1, tool_result: None };
        }
    }
    asked
}

/// A call of the tool that runs a shell command, from the request's own list.
fn shell_call(tools: &Value, command: &str) -> Value {
    let declared = tools.as_array().into_iter().flatten();
    let declared = declared.flat_map(|tool| tool["functionDeclarations"].as_array().into_iter().flatten());
    let name = declared.filter_map(|tool| tool["name"].as_str()).find(|name| name.contains("shell"));
    json!({ "functionCall": { "name": name.unwrap_or("run_shell_command"), "args": { "command": command } } })
}

/// The answer to a helper call: an object by its schema, else a word.
fn helper(request: &Value) -> Value {
    let config = &request["generationConfig"];
    let schemas = [&config["responseJsonSchema"], &config["responseSchema"]];
    let text = match schemas.into_iter().find(|schema| schema.is_object()) {
        Some(schema) => by_schema(schema).to_string(),
        None => "fine".to_owned(),
    };
    json!({ "text": text })
}

fn by_schema(schema: &Value) -> Value {
    if let Some(first) = schema["enum"].as_array().and_then(|values| values.first()) {
        return first.clone();
    }
    match schema["type"].as_str().unwrap_or_default().to_lowercase().as_str() {
        "object" => {
            let members = schema["properties"].as_object().into_iter().flatten();
            members.map(|(name, schema)| (name.clone(), by_schema(schema))).collect::<Map<_, _>>().into()
        }
        "number" | "integer" => schema.get("minimum").cloned().unwrap_or_else(|| 1.into()),
        "boolean" => false.into(),
        "array" => json!([]),
        _ => "as the schema says".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surroundings_are_no_prompt_and_a_tools_result_follows_its_prompt() {
        let user = |parts: Value| json!({ "role": "user", "parts": parts });
        let mut request = json!({ "contents": [
            user(json!([{ "text": "<session_context>\n" }])),
            user(json!([{ "text": "one" }])),
            { "role": "model", "parts": [{ "text": "reply" }] },
            user(json!([{ "text": "two" }])),
        ]});
        assert_eq!(asked(&request), Asked { last_user: "two".into(), users: 2, tool_result: None });
        let response = json!({ "functionResponse": { "name": "x", "response": { "output": "hi" } } });
        request["contents"].as_array_mut().expect("a list").push(user(json!([response])));
        assert_eq!(asked(&request).tool_result.as_deref(), Some("hi"));
    }

    #[test]
    fn a_helper_gets_an_object_of_its_schema() {
        let schema = json!({ "type": "object", "properties": {
            "why": { "type": "string" }, "choice": { "type": "string", "enum": ["flash", "pro"] }, "score": { "type": "integer" },
        }});
        let answered = helper(&json!({ "generationConfig": { "responseJsonSchema": schema } }));
        let object: Value = serde_json::from_str(answered["text"].as_str().expect("text")).expect("JSON");
        assert_eq!((&object["choice"], &object["score"]), (&"flash".into(), &1.into()));
    }
}
