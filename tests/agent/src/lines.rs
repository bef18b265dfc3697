//! One task on plain lines or JSON lines.

use std::io::{Read, Write};
use std::process::ExitCode;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::perform::{Cancel, TurnEnd, Voice, perform};
use crate::script::{self, AskKind, Step};

pub(crate) fn run(arguments: Vec<String>) -> ExitCode {
    let json = arguments.iter().any(|argument| argument == "--json");
    let on_stdin = arguments.iter().any(|argument| argument == "--prompt-on-stdin");
    let cancel = Arc::new(Cancel::default());
    let mut voice = Lines { json, open: true };
    if let Ok(start) = std::env::var("OSTLER_AGENT_START") {
        perform(&script::parse(&start), &mut voice, &cancel);
    }
    let prompt = match arguments.iter().find(|argument| !argument.starts_with("--")) {
        Some(prompt) if !on_stdin => prompt.clone(),
        _ => read_prompt(),
    };
    crate::log_prompt(&prompt);
    let steps = script::parse(&prompt);
    if steps.contains(&Step::ReadNothing) {
        std::thread::sleep(std::time::Duration::from_secs(86_400));
    }
    match perform(&steps, &mut voice, &cancel) {
        TurnEnd::Finished => ExitCode::SUCCESS,
        TurnEnd::Cancelled => ExitCode::from(130),
        TurnEnd::Reason(_) => ExitCode::FAILURE,
    }
}

fn read_prompt() -> String {
    let mut bytes = Vec::new();
    match std::io::stdin().read_to_end(&mut bytes) {
        Ok(_) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => format!("say {error}"),
    }
}

struct Lines {
    json: bool,
    open: bool,
}

impl Lines {
    fn line(&mut self, kind: &str, text: &str, event: Value) {
        let line = if self.json {
            let mut event = event;
            event["type"] = kind.into();
            format!("{event}\n")
        } else {
            format!("{text}\n")
        };
        self.raw(line.as_bytes());
    }
}

impl Voice for Lines {
    fn say(&mut self, text: &str) {
        self.line("message.delta", text, json!({ "text": text }));
    }

    fn think(&mut self, text: &str) {
        self.line("model.thinking", text, json!({ "text": text }));
    }

    fn tool_started(&mut self, id: &str, command: &str) {
        let event = json!({ "tool_name": "shell", "tool_call_id": id, "arguments": command });
        self.line("tool.requested", &format!("$ {command}"), event);
    }

    fn tool_ended(&mut self, id: &str, output: &str, code: Option<i32>) {
        let event = json!({ "tool_name": "shell", "tool_call_id": id, "output": output, "success": code == Some(0) });
        self.line("tool.completed", output.trim_end(), event);
    }

    fn ask(&mut self, _kind: AskKind, text: &str) -> Vec<bool> {
        self.ask_left(text);
        vec![false]
    }

    fn ask_left(&mut self, text: &str) {
        self.line("adapter.question", text, json!({ "text": text }));
    }

    fn raw(&mut self, bytes: &[u8]) {
        let mut stdout = std::io::stdout().lock();
        if self.open && stdout.write_all(bytes).and_then(|()| stdout.flush()).is_err() {
            self.open = false;
        }
    }

    fn close_stdout(&mut self) {
        self.open = false;
        let _closed = nix::unistd::close(1);
    }
}
