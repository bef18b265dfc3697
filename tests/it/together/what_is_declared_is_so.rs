//! What the file of a real agent's harness declares is what the agent does.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::support::agents;
use crate::support::kernel::wait_until;
use crate::support::model::Model;
use crate::support::shell::{Containment, Done, Shell, signal};

const RULES: &str = r#"[
  { "contains": "run it", "after_tool": false, "tool": "echo hi > out.txt && cat out.txt" },
  { "contains": "slow", "text": "one two three four five six seven eight nine ten", "every_ms": 200 },
  { "text": "one two three four five", "every_ms": 50 }
]"#;

/// One agent, and what it was seen to do.
struct Seen {
    shell: Shell,
    model: Model,
    harness: &'static str,
    abilities: BTreeMap<&'static str, bool>,
}

impl Seen {
    fn run(&self, more: &[&str]) -> Done {
        let done = self.shell.ostler(&[&["run", "--json"], more].concat());
        assert_eq!(done.code, 0, "{}: {done:?}", self.harness);
        done
    }

    /// A turn with a tool and another model.
    fn works(&mut self, model: &str) -> String {
        let chosen = ["--harness", self.harness, "--model", model, "--approve", "allow", "run it, with walnuts"];
        let done = self.run(&chosen).json();
        let session = done["session"].as_str().expect("an id").to_owned();
        let events = self.shell.events(&session);
        let count = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
        let asked = self.model.entries();
        let models = asked.iter().flat_map(|entry| [&entry["model"], &entry["request"]["model"]]);
        let chose = models.filter_map(Value::as_str).any(|asked| asked.contains(model));
        self.abilities.extend([
            ("streaming", count("message.delta") > 1),
            ("approvals", count("approval.requested") > 0),
            ("tools", count("tool.requested") > 0 && count("tool.completed") > 0),
            ("usage", done["usage"]["output_tokens"].as_u64().is_some_and(|tokens| tokens > 0)),
            ("model", chose),
        ]);
        session
    }

    /// A turn that is cancelled: the process stays or goes.
    fn is_cancelled(&mut self, session: &str) {
        let before = self.shell.marker.alive();
        let slow = self.shell.spawn(&["run", "--session", session, "--json", "--approve", "allow", "slow please"]);
        wait_until(Duration::from_secs(60), "it speaks", || {
            let events = self.shell.events(session);
            let second = events.split(|event| event["type"] == "run.started").nth(2).unwrap_or_default();
            let spoke = second.iter().any(|event| event["type"] == "message.delta");
            if spoke { Ok(()) } else { Err(format!("{second:?}")) }
        });
        signal(&slow, nix::sys::signal::Signal::SIGINT);
        let done: Done = slow.wait_with_output().expect("ends").into();
        assert_eq!(done.code, 130, "{}: {done:?}", self.harness);
        let (first, after) = (before.first().expect("it lives"), self.shell.marker.alive());
        self.abilities.insert("cancel", after.contains(first));
    }

    /// A turn in a new process.
    fn goes_on(&mut self, session: &str) {
        self.run(&["--session", session, "--approve", "allow", "what was it"]);
        let last = self.model.requests().pop().expect("a request").to_string();
        self.abilities.insert("resume", last.contains("walnuts"));
    }

    fn declared(&self) -> BTreeMap<String, bool> {
        let shown = self.shell.ostler(&["harness", "show", self.harness, "--json"]).json();
        let declared = shown["settings"]["capabilities"].as_object().expect("capabilities").clone();
        declared.into_iter().map(|(name, value)| (name, value == Value::Bool(true))).collect()
    }
}

fn see(harness: &'static str, agent: fn(&Shell, &str) -> String, other_model: &str) {
    let shell = Shell::with(Containment::Descent, "");
    let model = Model::start(shell.path(), RULES);
    agents::add(&shell, &[agent(&shell, &model.address)]);
    let mut seen = Seen { shell, model, harness, abilities: BTreeMap::new() };
    let daemon = seen.shell.serve();
    let session = seen.works(other_model);
    seen.is_cancelled(&session);
    seen.shell.end(daemon);
    assert_eq!(seen.shell.marker.alive(), vec![], "the next process is a new one");
    seen.goes_on(&session);
    let abilities: BTreeMap<String, bool> = seen.abilities.iter().map(|(name, is)| ((*name).to_owned(), *is)).collect();
    assert_eq!(abilities, seen.declared(), "{harness}");
    seen.shell.assert_nothing_left();
}

#[test]
fn of_codex() {
    see("codex", agents::codex, "other-model");
}

#[test]
fn of_claude() {
    see("claude", agents::claude, "other-model");
}

#[test]
fn of_gemini() {
    see("gemini", agents::gemini, "gemini-2.5-flash");
}

#[test]
fn of_pi() {
    see("pi", agents::pi, "other");
}

#[test]
fn of_claude_agent_acp() {
    see("claude-agent-acp", agents::claude_agent_acp, "sonnet");
}
