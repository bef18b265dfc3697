//! One user with real Gemini CLI, whose model is on loopback.

use std::process::Child;
use std::time::Duration;

use serde_json::Value;

use crate::support::agents;
use crate::support::kernel::wait_until;
use crate::support::model::Model;
use crate::support::shell::{Containment, Done, Shell};

const RULES: &str = r#"[
  { "contains": "run it", "after_tool": false, "tool": "echo hi > out.txt && cat out.txt" },
  { "contains": "run it", "after_tool": true, "text": "the tool said {tool}" },
  { "contains": "sleep", "after_tool": false, "tool": "sleep 1000" },
  { "contains": "leave", "after_tool": false, "tool": "setsid -f sleep 1000; sleep 1000" },
  { "contains": "slow", "text": "one two three four five six seven eight nine ten", "every_ms": 200 },
  { "contains": "malformed", "status": 400 },
  { "contains": "overload", "status": 500 },
  { "text": "reply number {n}" }
]"#;

/// A user with Gemini CLI.
pub(super) struct User {
    pub(super) shell: Shell,
    model: Model,
}

impl User {
    pub(super) fn new() -> Self {
        let shell = Shell::with(Containment::Descent, "");
        let model = Model::start(shell.path(), RULES);
        agents::add(&shell, &[agents::gemini(&shell, &model.address)]);
        Self { shell, model }
    }

    /// The requests of conversations that reached the model, in order.
    pub(super) fn requests(&self) -> Vec<Value> {
        self.model.requests()
    }

    /// Waits until so many requests have reached the model.
    pub(super) fn asked(&self, count: usize) {
        wait_until(Duration::from_secs(60), "it is asked", || {
            let asked = self.requests().len();
            if asked >= count { Ok(()) } else { Err(format!("{asked} of {count}")) }
        });
    }

    /// Whether the agent hung up on the model.
    pub(super) fn hung_up(&self) -> bool {
        self.model.entries().iter().any(|entry| entry["hung_up"] == true)
    }

    pub(super) fn run(&self, more: &[&str]) -> Done {
        self.shell.ostler(&[&["run", "--harness", "gemini", "--json"], more].concat())
    }

    pub(super) fn start(&self, prompt: &str) -> Child {
        self.shell.spawn(&["run", "--harness", "gemini", "--json", "--approve", "allow", prompt])
    }

    /// Every process of this user whose command line has this text.
    pub(super) fn processes(&self, text: &str) -> Vec<i32> {
        self.shell.marker.alive().into_iter().filter(|(_, line)| line.contains(text)).map(|(pid, _)| pid).collect()
    }

    /// The newest task's events have a fragment of the answer.
    pub(super) fn speaks(&self) {
        self.asked(1);
        wait_until(Duration::from_secs(60), "it speaks", || {
            let tasks = self.shell.tasks();
            let session = tasks.first().and_then(|task| task["session"].as_str()).unwrap_or_default().to_owned();
            let spoke = !session.is_empty() && self.shell.events(&session).iter().any(|e| e["type"] == "message.delta");
            if spoke { Ok(()) } else { Err("not a word".into()) }
        });
    }
}
