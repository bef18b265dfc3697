//! One user with real Claude Code, whose model is on loopback.

use std::time::Duration;

use serde_json::Value;

use crate::support::agents;
use crate::support::kernel::wait_until;
use crate::support::model::Model;
use crate::support::shell::{Containment, Done, Shell};

// Its Bash tool refuses a plain `sleep`.
const RULES: &str = r#"[
  { "contains": "run it", "after_tool": false, "tool": "echo hi > out.txt && cat out.txt" },
  { "contains": "run it", "after_tool": true, "text": "the tool said {tool}" },
  { "contains": "work long", "after_tool": false, "tool": "python3 -c 'import time; time.sleep(1000)'" },
  { "contains": "in the background", "after_tool": false, "call": { "name": "Bash", "input":
    { "command": "python3 -c 'import time; time.sleep(2)'; echo x > done", "run_in_background": true } } },
  { "contains": "serve for ever", "after_tool": false, "call": { "name": "Bash", "input":
    { "command": "python3 -c 'import time; time.sleep(1000)'", "run_in_background": true } } },
  { "contains": "ask a helper", "after_tool": false, "call": { "name": "Task", "input":
    { "description": "help", "prompt": "look into it", "subagent_type": "general-purpose" } } },
  { "contains": "ask a helper", "text": "the helper was asked" },
  { "contains": "look into it", "text": "a helper has looked into it", "every_ms": 200 },
  { "contains": "ponder", "thinking": "let me see", "text": "done" },
  { "contains": "slow", "text": "one two three four five six seven eight nine ten", "every_ms": 200 },
  { "contains": "overload", "status": 500 },
  { "contains": "malformed", "status": 400 },
  { "text": "reply number {n}" }
]"#;

/// What the command lines of its tools have in them, and no other process's has.
pub(super) const TOOL: &str = "time.sleep(1000)";

/// A user with Claude Code.
pub(super) struct User {
    pub(super) shell: Shell,
    model: Model,
}

impl User {
    pub(super) fn new() -> Self {
        let shell = Shell::with(Containment::Descent, "");
        let model = Model::start(shell.path(), RULES);
        agents::add(&shell, &[agents::claude(&shell, &model.address)]);
        Self { shell, model }
    }

    /// The requests that reached the model, in order.
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

    pub(super) fn run(&self, more: &[&str]) -> Done {
        self.shell.ostler(&[&["run", "--harness", "claude", "--json"], more].concat())
    }

    /// Every process of this user whose command line has this text.
    pub(super) fn processes(&self, text: &str) -> Vec<i32> {
        self.shell.marker.alive().into_iter().filter(|(_, line)| line.contains(text)).map(|(pid, _)| pid).collect()
    }

    /// Waits until its tool runs.
    pub(super) fn tool(&self) -> i32 {
        wait_until(Duration::from_secs(60), "the tool runs", || {
            self.processes(TOOL).first().copied().ok_or_else(|| "not yet".to_owned())
        })
    }

    /// The agents' own processes.
    pub(super) fn agents(&self) -> Vec<i32> {
        self.processes("--permission-prompt-tool")
    }
}
