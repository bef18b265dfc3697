//! Each dialect as a client on the wire sees it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::channel;

use serde_json::{Value, json};

use crate::listen;
use crate::record::Record;
use crate::rules::Rules;

const RULES: &str = r#"[
  { "contains": "limited", "first": 1, "status": 429, "retry_after": 7 },
  { "contains": "limited", "text": "there you are" },
  { "contains": "broken", "status": 500 },
  { "contains": "cut", "text": "one two three four", "cut_after": 2 },
  { "contains": "run", "after_tool": false, "tool": "echo héllo, \"world\"" },
  { "contains": "run", "text": "it said {tool}" },
  { "contains": "ponder", "thinking": "let me see", "text": "well done" },
  { "text": "reply number {n}" }
]"#;

/// One way to ask the model for something.
#[derive(Debug, Clone, Copy)]
struct Door {
    path: &'static str,
    ask: fn(&str) -> Value,
    /// What is in the body of a rate limit, and of a server's error.
    refusals: [(&'static str, &'static str); 2],
    /// What ends a whole answer.
    end: &'static str,
}

const DOORS: [Door; 4] = [
    Door {
        path: "/v1/responses",
        ask: |prompt| json!({ "input": [{ "type": "message", "role": "user", "content": prompt }] }),
        refusals: [("/error/code", "rate_limit_exceeded"), ("/error/type", "server_error")],
        end: "response.completed",
    },
    Door {
        path: "/v1/chat/completions",
        ask: |prompt| json!({ "stream": true, "messages": [{ "role": "user", "content": prompt }] }),
        refusals: [("/error/code", "rate_limit_exceeded"), ("/error/type", "server_error")],
        end: "[DONE]",
    },
    Door {
        path: "/v1/messages",
        ask: |prompt| json!({ "messages": [{ "role": "user", "content": prompt }] }),
        refusals: [("/error/type", "rate_limit_error"), ("/error/type", "api_error")],
        end: "message_stop",
    },
    Door {
        path: "/v1beta/models/any:streamGenerateContent",
        ask: |prompt| json!({ "contents": [{ "role": "user", "parts": [{ "text": prompt }] }] }),
        refusals: [("/error/details/0/retryDelay", "7s"), ("/error/status", "INTERNAL")],
        end: "finishReason",
    },
];

/// What came back, as it was on the wire.
#[derive(Debug)]
struct Reply {
    head: String,
    body: String,
    /// Whether the body was ended, and not just over.
    whole: bool,
}

impl Reply {
    fn status(&self) -> &str {
        self.head.split(' ').nth(1).expect("a status")
    }

    /// The data of its events.
    fn data(&self) -> Vec<Value> {
        let lines = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        lines.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).expect("JSON")).collect()
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("JSON")
    }
}

/// A server that obeys the rules for as long as the test lives.
fn serve() -> SocketAddr {
    let (tell, told) = channel();
    std::thread::spawn(move || {
        actix_web::rt::System::new().block_on(async {
            let rules = Rules::parse(RULES).expect("rules");
            let record = Record::open(None).expect("none");
            let (addresses, server) = listen(rules, record, "127.0.0.1:0").expect("bound");
            tell.send(addresses[0]).expect("awaited");
            server.await.expect("served");
        });
    });
    told.recv().expect("an address")
}

fn post(address: SocketAddr, path: &str, request: &Value) -> Reply {
    let (body, mut stream) = (request.to_string(), TcpStream::connect(address).expect("connected"));
    let length = body.len();
    let head = format!("POST {path} HTTP/1.1\r\nhost: model\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all((head + &body).as_bytes()).expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("read");
    let answer = String::from_utf8(answer).expect("UTF-8");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    if !head.contains("transfer-encoding: chunked") {
        return Reply { head: head.to_owned(), body: body.to_owned(), whole: true };
    }
    let (body, whole) = unchunked(body);
    Reply { head: head.to_owned(), body, whole }
}

fn unchunked(mut rest: &str) -> (String, bool) {
    let mut body = String::new();
    while let Some((length, after)) = rest.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).expect("a length");
        if length == 0 {
            return (body, true);
        }
        body += &after[..length];
        rest = &after[length + 2..];
    }
    (body, false)
}

#[test]
fn a_rate_limit_comes_in_each_dialects_form_and_then_it_goes_on() {
    for Door { path, ask, refusals, end } in DOORS {
        let address = serve();
        let refused = post(address, path, &ask("limited"));
        assert_eq!(refused.status(), "429", "{refused:?}");
        assert!(refused.head.contains("\r\nretry-after: 7"), "{refused:?}");
        let (place, word) = refusals[0];
        assert_eq!(refused.json().pointer(place), Some(&word.into()), "{refused:?}");
        let answered = post(address, path, &ask("limited"));
        assert_eq!((answered.status(), answered.whole), ("200", true), "{answered:?}");
        assert!(answered.body.contains("you ") && answered.body.contains(end), "{answered:?}");
    }
}

#[test]
fn a_servers_error_has_each_dialects_form_and_stays() {
    for Door { path, ask, refusals, .. } in DOORS {
        let address = serve();
        for _ in 0..2 {
            let refused = post(address, path, &ask("broken"));
            assert_eq!((refused.status(), refused.head.contains("retry-after")), ("500", false), "{refused:?}");
            let (place, word) = refusals[1];
            assert_eq!(refused.json().pointer(place), Some(&word.into()), "{refused:?}");
        }
    }
}

#[test]
fn a_cut_stream_has_its_first_words_and_no_end() {
    for Door { path, ask, end, .. } in DOORS {
        let cut = post(serve(), path, &ask("cut"));
        assert_eq!((cut.status(), cut.whole), ("200", false), "{cut:?}");
        assert!(cut.body.contains("two ") && !cut.body.contains("three") && !cut.body.contains(end), "{cut:?}");
    }
}

#[test]
fn what_is_not_json_is_refused_in_each_dialect() {
    for Door { path, .. } in DOORS {
        let mut stream = TcpStream::connect(serve()).expect("connected");
        let request =
            format!("POST {path} HTTP/1.1\r\nhost: model\r\nconnection: close\r\ncontent-length: 1\r\n\r\n{{");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("read");
        assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("\"error\""), "{answer}");
    }
}

fn chat(request: Value) -> Reply {
    post(serve(), "/v1/chat/completions", &request)
}

fn shell() -> Value {
    let parameters = json!({ "properties": { "command": { "type": "string" } }, "required": ["command"] });
    json!([{ "type": "function", "function": { "name": "bash", "parameters": parameters } }])
}

/// The deltas of a streamed chat, which has one id and says who speaks first.
fn deltas(reply: &Reply) -> Vec<Value> {
    let chunks = reply.data();
    assert!(chunks.iter().all(|chunk| chunk["id"] == chunks[0]["id"] && chunk["object"] == "chat.completion.chunk"));
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    chunks.iter().filter_map(|chunk| chunk.pointer("/choices/0/delta").cloned()).collect()
}

fn joined(deltas: &[Value], pointer: &str) -> String {
    deltas.iter().filter_map(|delta| delta.pointer(pointer)?.as_str()).collect()
}

#[test]
fn a_chat_streams_its_thoughts_its_words_and_its_end() {
    let reply = chat(json!({ "model": "m", "stream": true, "messages": [{ "role": "user", "content": "ponder" }] }));
    let deltas = deltas(&reply);
    assert_eq!(joined(&deltas, "/reasoning_content"), "let me see");
    assert_eq!(joined(&deltas, "/content"), "well done");
    let chunks = reply.data();
    assert_eq!(chunks.last().expect("chunks")["choices"][0]["finish_reason"], "stop");
    assert!(chunks.iter().all(|chunk| chunk.get("usage").is_none() && chunk["model"] == "m"), "{reply:?}");
    assert!(reply.body.ends_with("data: [DONE]\n\n"));
}

#[test]
fn a_chat_says_its_usage_last_and_only_where_it_was_asked_for() {
    let options = json!({ "include_usage": true });
    let messages = json!([{ "role": "user", "content": "hello" }]);
    let chunks = chat(json!({ "stream": true, "stream_options": options, "messages": messages })).data();
    let (last, others) = chunks.split_last().expect("chunks");
    assert_eq!((&last["choices"], &last["usage"]["total_tokens"]), (&json!([]), &21.into()));
    assert!(others.iter().all(|chunk| chunk["usage"].is_null() && chunk.get("usage").is_some()));
}

#[test]
fn a_chat_calls_its_tool_in_fragments_that_are_one_object() {
    let messages = json!([{ "role": "user", "content": "run" }]);
    let reply = chat(json!({ "stream": true, "tools": shell(), "messages": messages }));
    let deltas = deltas(&reply);
    let fragments = deltas.iter().filter(|delta| delta.get("tool_calls").is_some()).count();
    assert!(fragments > 3, "{fragments}");
    assert_eq!(joined(&deltas, "/tool_calls/0/function/name"), "bash");
    assert!(joined(&deltas, "/tool_calls/0/id").starts_with("call_"));
    let arguments: Value = serde_json::from_str(&joined(&deltas, "/tool_calls/0/function/arguments")).expect("JSON");
    assert_eq!(arguments, json!({ "command": "echo héllo, \"world\"" }));
    assert_eq!(reply.data().last().expect("chunks")["choices"][0]["finish_reason"], "tool_calls");
}

#[test]
fn a_chat_that_is_not_streamed_comes_whole() {
    let user = json!({ "role": "user", "content": "run" });
    let called = chat(json!({ "tools": shell(), "messages": [user] }));
    assert!(called.head.contains("content-type: application/json"), "{called:?}");
    let call = &called.json()["choices"][0];
    assert_eq!((&call["finish_reason"], &call["message"]["content"]), (&"tool_calls".into(), &Value::Null));
    assert_eq!(call["message"]["tool_calls"][0]["function"]["name"], "bash");
    let answered = chat(json!({ "messages": [user, { "role": "tool", "tool_call_id": "c", "content": "hi" }] })).json();
    assert_eq!(answered["choices"][0]["message"]["content"], "it said hi");
    assert_eq!((&answered["object"], &answered["usage"]["total_tokens"]), (&"chat.completion".into(), &21.into()));
    let cut = chat(json!({ "messages": [{ "role": "user", "content": "cut" }] }));
    assert!(!cut.whole && serde_json::from_str::<Value>(&cut.body).is_err(), "{cut:?}");
}
