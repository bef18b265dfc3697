//! The Agent Client Protocol on stdin and stdout, one object a line.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::perform::{Cancel, TurnEnd, Voice, perform};
use crate::script::{self, AskKind, Step};
use crate::wire::{Output, each_message, lock};

pub(crate) fn run() -> ExitCode {
    let agent = Arc::new(Agent::default());
    if let Ok(start) = std::env::var("OSTLER_AGENT_START") {
        let mut voice = Turn { agent: agent.clone(), session: String::new() };
        perform(&script::parse(&start), &mut voice, &Arc::default());
    }
    each_message(|message| agent.message(message));
    ExitCode::SUCCESS
}

#[derive(Default)]
struct Agent {
    output: Output,
    next: AtomicU64,
    turns: Mutex<HashMap<String, Arc<Cancel>>>,
    questions: Mutex<HashMap<u64, Sender<Value>>>,
}

impl Agent {
    fn answer(&self, id: &Value, result: Value) {
        self.output.send(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
    }

    fn message(self: &Arc<Self>, message: Value) {
        let id = message.get("id").cloned();
        match (message.get("method").and_then(Value::as_str), id) {
            (Some("session/cancel"), _) => self.cancel(&message["params"]),
            (Some(method), Some(id)) => self.request(method, &id, &message["params"]),
            (None, Some(id)) => self.answered(&id, message),
            _ => {}
        }
    }

    fn request(self: &Arc<Self>, method: &str, id: &Value, params: &Value) {
        match method {
            "initialize" => self.answer(id, initialized()),
            "session/new" => {
                let session = self.new_session();
                self.answer(id, json!({ "sessionId": session }));
            }
            "session/load" | "session/resume" => self.load(id, params),
            "session/prompt" => self.prompt(id.clone(), params.clone()),
            _ => {
                let error = json!({ "code": -32601, "message": format!("no method {method}") });
                self.output.send(&json!({ "jsonrpc": "2.0", "id": id, "error": error }));
            }
        }
    }

    fn new_session(&self) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let session = format!("scripted-{}-{number}", std::process::id());
        if let Some(path) = history(&session) {
            let _kept_in_memory_only = std::fs::write(path, "");
        }
        session
    }

    fn load(&self, id: &Value, params: &Value) {
        let session = params["sessionId"].as_str().unwrap_or_default();
        if history(session).is_some_and(|path| path.exists()) {
            self.answer(id, Value::Null);
        } else {
            let error = json!({ "code": -32002, "message": format!("no session {session}") });
            self.output.send(&json!({ "jsonrpc": "2.0", "id": id, "error": error }));
        }
    }

    fn prompt(self: &Arc<Self>, id: Value, params: Value) {
        let session = params["sessionId"].as_str().unwrap_or_default().to_owned();
        let prompt = params["prompt"][0]["text"].as_str().unwrap_or_default().to_owned();
        crate::log_prompt(&prompt);
        let steps = script::parse(&prompt);
        if steps.contains(&Step::ReadNothing) {
            std::thread::sleep(std::time::Duration::from_secs(86_400));
        }
        let cancel = Arc::new(Cancel::default());
        lock(&self.turns).insert(session.clone(), cancel.clone());
        let agent = self.clone();
        std::thread::spawn(move || {
            let mut voice = Turn { agent: agent.clone(), session: session.clone() };
            let reason = match perform(&steps, &mut voice, &cancel) {
                TurnEnd::Finished => "end_turn".to_owned(),
                TurnEnd::Cancelled => "cancelled".to_owned(),
                TurnEnd::Reason(reason) => reason,
            };
            lock(&agent.turns).remove(&session);
            agent.answer(&id, json!({ "stopReason": reason }));
        });
    }

    fn cancel(&self, params: &Value) {
        let session = params["sessionId"].as_str().unwrap_or_default();
        if let Some(cancel) = lock(&self.turns).get(session) {
            cancel.request();
        }
    }

    fn answered(&self, id: &Value, message: Value) {
        let waiting = id.as_u64().and_then(|id| lock(&self.questions).remove(&id));
        if let Some(waiting) = waiting {
            let _asker_gone = waiting.send(message);
        }
    }

    fn ask(&self, method: &str, params: Value) -> Receiver<Value> {
        let (sender, receiver) = channel();
        let id = 1000 + self.next.fetch_add(1, Ordering::Relaxed);
        lock(&self.questions).insert(id, sender);
        self.output.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        receiver
    }
}

fn initialized() -> Value {
    json!({
        "protocolVersion": 1,
        "agentCapabilities": { "loadSession": std::env::var_os("OSTLER_AGENT_HISTORY").is_some() },
        "authMethods": [],
        "agentInfo": { "name": "ostler-agent", "version": env!("CARGO_PKG_VERSION") },
    })
}

fn history(session: &str) -> Option<PathBuf> {
    std::env::var_os("OSTLER_AGENT_HISTORY").map(|folder| PathBuf::from(folder).join(session))
}

struct Turn {
    agent: Arc<Agent>,
    session: String,
}

impl Turn {
    fn update(&self, update: Value) {
        let params = json!({ "sessionId": self.session, "update": update });
        self.agent.output.send(&json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }));
    }

    fn chunk(&self, kind: &str, text: &str) {
        self.update(json!({ "sessionUpdate": kind, "content": { "type": "text", "text": text } }));
    }

    fn permission(&self, number: usize, kind: AskKind, text: &str) -> Receiver<Value> {
        let ids = if kind == AskKind::Foreign { ["7f", "q0", "zz"] } else { ["allow", "always", "reject"] };
        let kinds = ["allow_once", "allow_always", "reject_once"];
        let options: Vec<Value> =
            ids.iter().zip(kinds).map(|(id, kind)| json!({ "optionId": id, "kind": kind, "name": kind })).collect();
        let call = json!({ "toolCallId": format!("ask-{number}"), "title": text, "kind": "execute" });
        let params = json!({ "sessionId": self.session, "toolCall": call, "options": options });
        self.agent.ask("session/request_permission", params)
    }
}

/// Whether the chosen option allows: both sets of ids name the allowing ones first.
fn allows(answer: &Value) -> bool {
    let chosen = answer["result"]["outcome"]["optionId"].as_str();
    matches!(chosen, Some("allow" | "always" | "7f" | "q0"))
}

impl Voice for Turn {
    fn say(&mut self, text: &str) {
        self.chunk("agent_message_chunk", text);
    }

    fn think(&mut self, text: &str) {
        self.chunk("agent_thought_chunk", text);
    }

    fn tool_started(&mut self, id: &str, command: &str) {
        let call = json!({ "sessionUpdate": "tool_call", "toolCallId": id, "title": command, "kind": "execute",
            "status": "in_progress", "rawInput": { "command": command } });
        self.update(call);
    }

    fn tool_ended(&mut self, id: &str, output: &str, code: Option<i32>) {
        let status = if code == Some(0) { "completed" } else { "failed" };
        let content = json!([{ "type": "content", "content": { "type": "text", "text": output } }]);
        self.update(
            json!({ "sessionUpdate": "tool_call_update", "toolCallId": id, "status": status, "content": content }),
        );
    }

    fn ask(&mut self, kind: AskKind, text: &str) -> Vec<bool> {
        let open: Vec<_> = match kind {
            AskKind::Unknown => vec![self.agent.ask("session/request_unknown", json!({ "sessionId": self.session }))],
            AskKind::Twice => vec![self.permission(0, kind, text), self.permission(1, kind, text)],
            AskKind::Plain | AskKind::Foreign => vec![self.permission(0, kind, text)],
        };
        open.into_iter().map(|answer| answer.recv().is_ok_and(|answer| allows(&answer))).collect()
    }

    fn ask_left(&mut self, text: &str) {
        drop(self.permission(0, AskKind::Plain, text));
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.agent.output.write(bytes);
    }

    fn close_stdout(&mut self) {
        let _closed = nix::unistd::close(1);
    }
}
