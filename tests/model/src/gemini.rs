//! Gemini: `:streamGenerateContent` as server-sent events, and `:generateContent` for the helper calls that Gemini CLI
//! makes beside a conversation (which model to take, for one).

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::web::{Bytes, Data, Path};
use serde_json::{Map, Value, json};

use crate::dialect::{Dialect, Turn, converse, fail};
use crate::record::Record;
use crate::rules::{Asked, Failure, Rules};
use crate::sse::Broken;

/// The dialect.
pub(crate) struct Gemini;

/// Answers a call, whose kind is in its path.
pub(crate) async fn generate(
    call: Path<String>,
    body: Bytes,
    rules: Data<Rules>,
    record: Data<Record>,
) -> HttpResponse {
    let Ok(Value::Object(mut request)) = serde_json::from_slice(&body) else {
        return fail::<Gemini>(&Failure::of(StatusCode::BAD_REQUEST, "not a JSON object"));
    };
    match call.rsplit_once(':') {
        Some((model, "streamGenerateContent")) => {
            // Other dialects have it in the request, where the record shows it.
            request.insert("model".to_owned(), model.into());
            converse::<Gemini>(request.into(), &rules, record)
        }
        Some((model, "generateContent")) => {
            record.note(&json!({ "model": model, "helper": request }));
            HttpResponse::Ok().json(chunk(helper(&request.into()), Some("STOP")))
        }
        _ => fail::<Gemini>(&Failure::of(StatusCode::NOT_FOUND, "no such call")),
    }
}

impl Dialect for Gemini {
    fn asked(request: &Value) -> Asked {
        asked(request)
    }

    fn failure(failure: &Failure) -> Value {
        let name = match failure.status.as_u16() {
            400 => "INVALID_ARGUMENT",
            401 => "UNAUTHENTICATED",
            403 => "PERMISSION_DENIED",
            404 => "NOT_FOUND",
            429 => "RESOURCE_EXHAUSTED",
            500 => "INTERNAL",
            503 => "UNAVAILABLE",
            _ => "UNKNOWN",
        };
        let mut error = json!({ "code": failure.status.as_u16(), "message": failure.message, "status": name });
        if let Some(seconds) = failure.retry_after {
            let kind = "type.googleapis.com/google.rpc.RetryInfo";
            error["details"] = json!([{ "@type": kind, "retryDelay": format!("{seconds}s") }]);
        }
        json!({ "error": error })
    }

    async fn say(turn: &Turn) -> Result<(), Broken> {
        if let Some(command) = &turn.rule.tool {
            let call = shell_call(&turn.request["tools"], command);
            return turn.events.data(&chunk(call, Some("STOP"))).await;
        }
        let last = turn.rule.words().count();
        for (said, word) in turn.rule.words() {
            let end = (said == last).then_some("STOP");
            turn.events.data(&chunk(json!({ "text": word }), end)).await?;
            turn.events.pace(&turn.rule, said).await?;
        }
        Ok(())
    }
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
