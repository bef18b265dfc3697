//! One user with real Pi, whose model is on loopback.

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
  { "contains": "write it", "after_tool": false, "call": { "name": "write", "input": { "path": "note.txt", "content": "kept" } } },
  { "contains": "write it", "after_tool": true, "text": "written" },
  { "contains": "work long", "after_tool": false, "tool": "sleep 1000" },
  { "contains": "beat", "after_tool": false, "tool": "(setsid sh -c 'trap \"\" TERM HUP; while :; do date +%N > background; sleep 0.02; done' &) ; while :; do date +%N > foreground; sleep 0.02; done" },
  { "contains": "ponder", "thinking": "let me see", "text": "done" },
  { "contains": "slow", "text": "one two three four five six seven eight nine ten", "every_ms": 200 },
  { "contains": "at length", "text": "@LONG@" },
  { "contains": "fragile", "first": 1, "text": "one two three", "cut_after": 2 },
  { "contains": "overload", "status": 500 },
  { "contains": "malformed", "status": 400 },
  { "text": "reply number {n}" }
]"#;

/// The answer to whoever asks for a long one.
pub(crate) fn long_answer() -> String {
    "twelve bytes".repeat(10) + &" and so on".repeat(400)
}

/// A user with Pi.
pub(crate) struct User {
    pub(crate) shell: Shell,
    model: Model,
}

impl User {
    pub(crate) fn new() -> Self {
        Self::with(Containment::Descent)
    }

    pub(crate) fn with(containment: Containment) -> Self {
        let shell = Shell::with(containment, "");
        let model = Model::start(shell.path(), &RULES.replace("@LONG@", &long_answer()));
        agents::add(&shell, &[agents::pi(&shell, &model.address)]);
        Self { shell, model }
    }

    /// The requests that reached the model, in order; hang-ups apart.
    pub(crate) fn requests(&self) -> Vec<Value> {
        self.model.requests()
    }

    /// Waits until so many requests have reached the model.
    pub(crate) fn asked(&self, count: usize) {
        wait_until(Duration::from_secs(60), "it is asked", || {
            let asked = self.requests().len();
            if asked >= count { Ok(()) } else { Err(format!("{asked} of {count}")) }
        });
    }

    /// A task in a session of its own; it allows everything, as Pi wants it.
    pub(crate) fn run(&self, more: &[&str]) -> Done {
        self.shell.ostler(&[&["run", "--harness", "pi", "--json", "--approve", "allow"], more].concat())
    }

    pub(crate) fn start(&self, prompt: &str) -> Child {
        self.shell.spawn(&["run", "--harness", "pi", "--json", "--approve", "allow", prompt])
    }

    /// The next task of a session.
    pub(crate) fn next(&self, session: &str, prompt: &str) -> Done {
        self.shell.ostler(&["run", "--session", session, "--json", "--approve", "allow", prompt])
    }

    /// Every process of this user whose command line has this text.
    pub(crate) fn processes(&self, text: &str) -> Vec<i32> {
        self.shell.marker.alive().into_iter().filter(|(_, line)| line.contains(text)).map(|(pid, _)| pid).collect()
    }

    /// Waits until its tool runs.
    pub(crate) fn tool(&self) -> i32 {
        wait_until(Duration::from_secs(60), "the tool runs", || {
            self.processes("sleep 1000").first().copied().ok_or_else(|| "not yet".to_owned())
        })
    }

    /// The agents' own processes, which are named as their program wants it.
    pub(crate) fn agents(&self) -> Vec<i32> {
        let is_agent = |line: &str| line.trim_end() == "pi" || line.contains("cli.js");
        self.shell.marker.alive().into_iter().filter(|(_, line)| is_agent(line)).map(|(pid, _)| pid).collect()
    }

    /// Waits until the newest task has said something.
    pub(crate) fn speaks(&self) {
        wait_until(Duration::from_secs(60), "it speaks", || {
            let tasks = self.shell.tasks();
            let session = tasks.first().and_then(|task| task["session"].as_str()).ok_or("no task yet")?;
            let said = self.shell.events(session).iter().any(|event| event["type"] == "message.delta");
            if said { Ok(()) } else { Err("nothing yet".to_owned()) }
        });
    }
}

pub(crate) fn word<'a>(done: &'a Value, pointer: &str) -> &'a str {
    done.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn verdict(done: &Done) -> (i32, String, String) {
    let json = done.json();
    (done.code, word(&json, "/outcome/verdict").to_owned(), word(&json, "/evidence/proof").to_owned())
}

pub(crate) fn of_type<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["type"] == kind).collect()
}
