//! One user with a real agent, whose model is on loopback.

use std::process::Child;
use std::time::Duration;

use serde_json::Value;

use super::agents::{self, Agent};
use super::kernel::wait_until;
use super::model::Model;
use super::shell::{Containment, Done, Shell};

/// What every agent's model knows. No tool is a plain `sleep`, which Claude Code's Bash tool refuses.
const RULES: &str = r#"
  { "contains": "run it", "after_tool": false, "tool": "echo hi > out.txt && cat out.txt" },
  { "contains": "run it", "after_tool": true, "text": "the tool said {tool}" },
  { "contains": "work long", "after_tool": false, "tool": "python3 -c 'import time; time.sleep(1000)'" },
  { "contains": "leave one", "after_tool": false, "tool":
    "setsid -f python3 -c 'import time; time.sleep(1000)'; python3 -c 'import time; time.sleep(1000)'" },
  { "contains": "slow", "text": "one two three four five six seven eight nine ten", "every_ms": 200 },
  { "contains": "limited", "first": 1, "status": 429, "retry_after": 1 },
  { "contains": "malformed", "status": 400 },
  { "contains": "overload", "status": 500 },
  { "text": "reply number {n}" }
]"#;

/// What the command line of such a tool has, and not that of the shell around it.
const TOOL: &str = "-c import time; time.sleep(1000)";

/// A user with one of the agents.
pub struct User {
    pub shell: Shell,
    pub agent: Agent,
    model: Model,
}

impl User {
    pub fn of(agent: Agent) -> Self {
        Self::with(agent, "")
    }

    /// With more rules for the model, before those of every agent; each ends with a comma.
    pub fn with(agent: Agent, rules: &str) -> Self {
        let shell = Shell::with(Containment::Descent, "");
        let model = Model::start(shell.path(), &format!("[{rules}{RULES}"));
        agents::add(&shell, &[(agent.configured)(&shell, &model.address)]);
        Self { shell, agent, model }
    }

    /// The requests with a prompt that reached the model, in order.
    pub fn requests(&self) -> Vec<Value> {
        self.model.requests()
    }

    /// Waits until so many requests have reached the model.
    pub fn asked(&self, count: usize) {
        wait_until(Duration::from_secs(60), "it is asked", || {
            let asked = self.requests().len();
            if asked >= count { Ok(()) } else { Err(format!("{asked} of {count}")) }
        });
    }

    /// Waits until the agent has hung up on the model.
    pub fn hangs_up(&self) {
        wait_until(Duration::from_secs(10), "the model is told", || {
            let hung_up = self.model.entries().iter().any(|entry| entry["hung_up"] == true);
            if hung_up { Ok(()) } else { Err(String::new()) }
        });
    }

    pub fn run(&self, more: &[&str]) -> Done {
        self.shell.ostler(&[&["run", "--harness", self.agent.harness, "--json"], more].concat())
    }

    /// Starts a task in a new session, in which everything is allowed.
    pub fn start(&self, prompt: &str) -> Child {
        self.shell.spawn(&["run", "--harness", self.agent.harness, "--json", "--approve", "allow", prompt])
    }

    /// Every process of this user whose command line has this text.
    pub fn processes(&self, text: &str) -> Vec<i32> {
        self.shell.marker.alive().into_iter().filter(|(_, line)| line.contains(text)).map(|(pid, _)| pid).collect()
    }

    /// The agent's own processes.
    pub fn own(&self) -> Vec<i32> {
        self.agent.processes.iter().flat_map(|text| self.processes(text)).collect()
    }

    /// Waits until so many of its tools run.
    pub fn tools(&self, count: usize) -> Vec<i32> {
        wait_until(Duration::from_secs(60), "the tools run", || {
            let tools = self.processes(TOOL);
            if tools.len() >= count { Ok(tools) } else { Err(format!("{tools:?} of {count}")) }
        })
    }

    /// Waits until the newest task's events have a fragment of the answer.
    pub fn speaks(&self) {
        self.asked(1);
        wait_until(Duration::from_secs(60), "it speaks", || {
            let tasks = self.shell.tasks();
            let session = tasks.first().and_then(|task| task["session"].as_str()).unwrap_or_default().to_owned();
            let spoke = !session.is_empty() && self.shell.events(&session).iter().any(|e| e["type"] == "message.delta");
            if spoke { Ok(()) } else { Err("not a word".into()) }
        });
    }
}

/// A text in what a command printed, or none.
pub fn word<'a>(done: &'a Value, pointer: &str) -> &'a str {
    done.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Exit code, verdict and proof.
pub fn verdict(done: &Done) -> (i32, String, String) {
    let json = done.json();
    (done.code, word(&json, "/outcome/verdict").to_owned(), word(&json, "/evidence/proof").to_owned())
}

/// The events of one type.
pub fn of_type<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["type"] == kind).collect()
}
