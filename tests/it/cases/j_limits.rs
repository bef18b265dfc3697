//! A provider that takes no more for now is a cause of its own: no crash, and nothing against the harness.

use super::{configure, session_of};
use crate::support::agents;
use crate::support::model::Model;
use crate::support::shell::{Containment, Done, Shell};

const RULES: &str = r#"[
  { "contains": "too much", "status": 429, "retry_after": 1 },
  { "text": "reply number {n}" }
]"#;

/// More often than a harness may fail.
const OFTEN: usize = 7;

/// One failure counts; so does no start that is not needed.
const STRICT: &str = "failures = 1\nfirst_pause = \"1h\"\nlongest_pause = \"1h\"\n";

fn assert_limited(done: &Done) {
    let json = done.json();
    assert_eq!((done.code, &json["outcome"]["verdict"]), (1, &"failed".into()), "{done:?}");
    assert_eq!(json["outcome"]["kind"], "TRANSIENT", "{done:?}");
    assert_eq!(json["evidence"]["note"], "rate_limited", "{done:?}");
    assert!(json["evidence"]["rate_limit"].is_object(), "{done:?}");
}

/// What is told of the limit in the events of the session.
fn told(shell: &Shell, session: &str) -> Vec<serde_json::Value> {
    let events = shell.events(session).into_iter().filter(|event| event["type"] == "ostler.rate_limited");
    events.map(|event| event["data"].clone()).collect()
}

/// A real agent whose model's server refuses: the task fails of it, and the same process takes the next task.
fn a_real_agent(name: &str, harness: impl Fn(&Shell, &str) -> String) -> Vec<serde_json::Value> {
    let shell = Shell::with(Containment::Descent, "");
    let model = Model::start(shell.path(), RULES);
    agents::add(&shell, &[harness(&shell, &model.address)]);
    configure(&shell, |config| format!("{config}[harness.{name}.restarts]\n{STRICT}"));
    let daemon = shell.serve();
    let first = shell.ostler(&["run", "--harness", name, "--json", "too much of it"]);
    assert_limited(&first);
    let session = session_of(&first);
    let limits = told(&shell, &session);
    assert_eq!(limits, [first.json()["evidence"]["rate_limit"].clone()], "told once, as it is in the evidence");
    let next = shell.ostler(&["run", "--session", &session, "--json", "hello"]);
    assert_eq!(next.code, 0, "{next:?}");
    let elsewhere = shell.ostler(&["run", "--harness", name, "--json", "hello"]);
    assert_eq!(elsewhere.code, 0, "it is nothing against the harness: {elsewhere:?}");
    shell.end(daemon);
    limits
}

#[test]
fn case_j5_codex_at_its_providers_limit_has_not_crashed() {
    a_real_agent("codex", agents::codex);
}

#[test]
fn case_j5_claude_at_its_providers_limit_says_when_to_try_again() {
    let limits = a_real_agent("claude", agents::claude);
    let after = limits[0]["retry_after_ms"].as_u64().expect("it is told");
    assert!(after >= 1000, "{after}: at least what the provider asked for");
}

/// By its output alone; and until the provider takes more again, no other is started for nothing.
#[test]
fn case_j5_a_command_at_its_providers_limit_uses_no_restart_budget() {
    let shell = Shell::with(
        Containment::Descent,
        "[harness.limited]\nadapter = \"oneshot\"\noutput = \"json_lines\"\nenvironment = { MARK = \"@MARK@\" }\n\
         command = [\"sh\", \"-c\", 'echo x >> starts; echo \"{\\\"type\\\":\\\"rate_limited\\\"$1}\"; exit 1', \"sh\"]\n",
    );
    configure(&shell, |config| format!("{config}[harness.limited.restarts]\n{STRICT}"));
    let daemon = shell.serve();
    let run = |more: &str| shell.ostler(&["run", "--harness", "limited", "--json", more]);
    for _ in 0..OFTEN {
        let done = run(" ");
        assert_limited(&done);
        assert_eq!(done.json()["evidence"]["rate_limit"]["retry_after_ms"], serde_json::Value::Null);
    }
    let starts = || std::fs::read_to_string(shell.work().join("starts")).expect("notes").lines().count();
    assert_eq!(starts(), OFTEN, "where nobody says when it is over, whoever asks next finds out");
    let done = run(",\"retry_after_ms\":3600000");
    assert_limited(&done);
    assert_eq!(done.json()["evidence"]["rate_limit"]["retry_after_ms"], 3_600_000);
    let refused = run(" ");
    assert!(refused.stdout.contains("at its provider's limit; it is tried again in"), "{refused:?}");
    assert_eq!(starts(), OFTEN + 1);
    shell.end(daemon);
}
