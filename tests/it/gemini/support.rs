//! One user with real Gemini CLI, whose model is on loopback.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::support::kernel::wait_until;
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
    model: Child,
}

impl User {
    pub(super) fn new() -> Self {
        let shell = Shell::with(Containment::Descent, "");
        let path = |name: &str| shell.path().join(name);
        std::fs::write(path("rules.json"), RULES).expect("written");
        let mut model = Command::new(PathBuf::from(env!("CARGO_BIN_EXE_ostler")).with_file_name("ostler-model"))
            .arg("--rules")
            .arg(path("rules.json"))
            .arg("--record")
            .arg(path("record.jsonl"))
            .stdout(Stdio::piped())
            .spawn()
            .expect("the model server is built: run scripts/test");
        let mut address = String::new();
        BufReader::new(model.stdout.as_mut().expect("piped")).read_line(&mut address).expect("an address");
        std::fs::create_dir_all(path("home/.gemini")).expect("made");
        let settings = r#"{ "security": { "auth": { "selectedType": "gemini-api-key" } },
            "general": { "enableAutoUpdate": false }, "privacy": { "usageStatisticsEnabled": false } }"#;
        std::fs::write(path("home/.gemini/settings.json"), settings).expect("written");
        let home = path("home").display().to_string();
        let harness = format!(
            "[harness.gemini]\ncommand = [\"node\", {:?}, \"--acp\"]\n\
             environment = {{ HOME = {home:?}, GEMINI_CLI_HOME = {home:?}, GEMINI_API_KEY = \"x\", MARK = {:?},\
             GOOGLE_GEMINI_BASE_URL = \"http://{}\" }}\n",
            gemini_program().display().to_string(),
            shell.marker.text(),
            address.trim(),
        );
        let config = std::fs::read_to_string(path("ostler.toml")).expect("readable");
        std::fs::write(path("ostler.toml"), config + &harness).expect("written");
        let init = Command::new("git").args(["init", "-q"]).current_dir(shell.work()).status();
        assert!(init.is_ok_and(|status| status.success()));
        Self { shell, model }
    }

    fn entries(&self) -> Vec<Value> {
        let record = std::fs::read_to_string(self.shell.path().join("record.jsonl")).unwrap_or_default();
        // The last line may be half written.
        let lines = record.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        lines.map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// The requests of conversations that reached the model, in order.
    pub(super) fn requests(&self) -> Vec<Value> {
        self.entries().into_iter().filter(|entry| entry["request"].is_object()).collect()
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
        self.entries().iter().any(|entry| entry["hung_up"] == true)
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

impl Drop for User {
    fn drop(&mut self) {
        let _ended = self.model.kill();
        let _reaped = self.model.wait();
    }
}

fn gemini_program() -> PathBuf {
    let bundle = ".agents/gemini/node_modules/@google/gemini-cli/bundle/gemini.js";
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(bundle);
    assert!(path.is_file(), "Gemini CLI is not installed at {}: run scripts/setup", path.display());
    path
}
