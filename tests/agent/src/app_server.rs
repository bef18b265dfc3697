//! The app-server protocol of Codex on stdin and stdout, one object a line: as much of it as a supervisor is judged by.
//!
//! Threads are never lost, turns are named `turn-1`, `turn-2`, …, an interrupt ends the script and nothing that the
//! script started, and `end STATUS` is the turn's status. It asks for no approvals.

use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::perform::{Cancel, TurnEnd, Voice, perform};
use crate::script::{self, AskKind};
use crate::wire::{Output, each_message, lock};

pub(crate) fn run() -> ExitCode {
    let server = Arc::new(Server::default());
    each_message(|message| server.message(&message));
    ExitCode::SUCCESS
}

#[derive(Default)]
struct Server {
    output: Output,
    turns: AtomicU64,
    running: Mutex<HashMap<String, Arc<Cancel>>>,
}

impl Server {
    fn message(self: &Arc<Self>, message: &Value) {
        let (Some(method), Some(id)) = (message["method"].as_str(), message.get("id")) else { return };
        let params = &message["params"];
        let result = match method {
            "initialize" | "thread/backgroundTerminals/clean" => json!({}),
            "thread/start" => json!({ "thread": { "id": format!("thread-{}", std::process::id()) } }),
            "thread/resume" => json!({ "thread": { "id": params["threadId"] } }),
            "turn/start" => return self.start(id, params),
            "turn/interrupt" => {
                lock(&self.running).get(params["turnId"].as_str().unwrap_or_default()).iter().for_each(|c| c.request());
                json!({})
            }
            _ => {
                return self
                    .output
                    .send(&json!({ "id": id, "error": { "code": -32600, "message": "no such method" } }));
            }
        };
        self.output.send(&json!({ "id": id, "result": result }));
    }

    fn start(self: &Arc<Self>, id: &Value, params: &Value) {
        let prompt = params["input"][0]["text"].as_str().unwrap_or_default().to_owned();
        crate::log_prompt(&prompt);
        let id_of_turn = format!("turn-{}", 1 + self.turns.fetch_add(1, Ordering::Relaxed));
        let mut turn = Turn { server: self.clone(), thread: params["threadId"].clone(), id: id_of_turn };
        let cancel = Arc::new(Cancel::default());
        lock(&self.running).insert(turn.id.clone(), cancel.clone());
        self.output.send(&json!({ "id": id, "result": { "turn": { "id": turn.id, "status": "inProgress" } } }));
        std::thread::spawn(move || {
            turn.tell("turn/started", json!({ "turn": { "id": turn.id, "status": "inProgress" } }));
            let status = match perform(&script::parse(&prompt), &mut turn, &cancel) {
                TurnEnd::Finished => "completed".to_owned(),
                TurnEnd::Cancelled => "interrupted".to_owned(),
                TurnEnd::Reason(status) => status,
            };
            lock(&turn.server.running).remove(&turn.id);
            turn.tell("turn/completed", json!({ "turn": { "id": turn.id, "status": status } }));
        });
    }
}

struct Turn {
    server: Arc<Server>,
    thread: Value,
    id: String,
}

impl Turn {
    fn tell(&self, method: &str, mut params: Value) {
        params["threadId"] = self.thread.clone();
        self.server.output.send(&json!({ "method": method, "params": params }));
    }

    fn item(&self, method: &str, item: Value) {
        self.tell(method, json!({ "turnId": self.id, "item": item }));
    }
}

impl Voice for Turn {
    fn say(&mut self, text: &str) {
        self.tell("item/agentMessage/delta", json!({ "turnId": self.id, "itemId": "answer", "delta": text }));
    }

    fn think(&mut self, text: &str) {
        self.tell("item/reasoning/textDelta", json!({ "turnId": self.id, "itemId": "thought", "delta": text }));
    }

    fn tool_started(&mut self, id: &str, command: &str) {
        let item = json!({ "type": "commandExecution", "id": id, "command": command, "status": "inProgress" });
        self.item("item/started", item);
    }

    fn tool_ended(&mut self, id: &str, output: &str, code: Option<i32>) {
        let status = if code == Some(0) { "completed" } else { "failed" };
        let item = json!({ "type": "commandExecution", "id": id, "status": status, "aggregatedOutput": output,
            "exitCode": code });
        self.item("item/completed", item);
    }

    fn ask(&mut self, _kind: AskKind, _text: &str) -> Vec<bool> {
        vec![false]
    }

    fn ask_left(&mut self, _text: &str) {}

    fn raw(&mut self, bytes: &[u8]) {
        self.server.output.write(bytes);
    }

    fn close_stdout(&mut self) {
        let _closed = nix::unistd::close(1);
    }
}
