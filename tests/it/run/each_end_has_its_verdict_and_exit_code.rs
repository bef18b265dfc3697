//! The evidence table and the exit codes, end to end.

use serde_json::json;

use crate::support::shell::{Done, Shell};

fn verdict(done: &Done) -> (i32, String, String) {
    let json = done.json();
    let word = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    (done.code, word(&json["outcome"]["verdict"]), word(&json["evidence"]["proof"]))
}

fn expect(script: &str, code: i32, word: &str, proof: &str) {
    let shell = Shell::new();
    let done = shell.run(script);
    assert_eq!(verdict(&done), (code, word.to_owned(), proof.to_owned()), "{script}: {done:?}");
    shell.assert_nothing_left();
}

#[test]
fn a_result_is_completed() {
    expect("say done", 0, "completed", "exit_report");
}

#[test]
fn an_exit_code_is_a_failure() {
    expect("say half ;; exit 3", 1, "failed", "exit_report");
}

#[test]
fn a_signal_is_a_failure_once_the_tree_is_empty() {
    expect("say half ;; spawn setsid ;; crash 9", 1, "failed", "tree_empty");
}

#[test]
fn success_without_a_byte_is_unresolved() {
    expect("exit 0", 4, "unresolved", "partial");
}

#[test]
fn output_obtained_so_far_is_part_of_a_failure() {
    let shell = Shell::new();
    let json = shell.run("say half an answer ;; exit 9").json();
    assert_eq!(json["output"], "half an answer\n");
    assert_eq!(json["evidence"]["exit"], json!({ "kind": "code", "code": 9 }));
}

#[test]
fn a_time_limit_is_no_failure_of_the_agent() {
    let shell = Shell::new();
    let done = shell.ostler(&["run", "--harness", "scripted", "--json", "--timeout", "300ms", "say up ;; hang"]);
    assert_eq!(verdict(&done), (5, "cancelled".into(), "tree_empty".into()), "{done:?}");
    shell.assert_nothing_left();
}

#[test]
fn an_agent_that_cannot_start_is_said_to_be_so() {
    let shell = Shell::with(
        crate::support::shell::Containment::Descent,
        "[harness.missing]\nadapter = \"oneshot\"\ncommand = [\"no-such-agent\"]\n",
    );
    let done = shell.ostler(&["run", "--harness", "missing", "--json", "hi"]);
    assert_eq!(verdict(&done), (3, "failed".into(), "never_started".into()), "{done:?}");
    let message = done.json()["outcome"]["message"].as_str().expect("text").to_owned();
    assert!(message.contains("no-such-agent (looked for in /"), "{message}");
    shell.assert_nothing_left();
}

#[test]
fn an_agent_that_ends_at_its_start_is_quoted() {
    let shell = Shell::with(
        crate::support::shell::Containment::Descent,
        "[harness.early]\nadapter = \"claude\"\ncommand = [\"sh\", \"-c\", \"printf 'oops\\\\nnot logged in' >&2; exit 7\"]\n",
    );
    let done = shell.ostler(&["run", "--harness", "early", "hi"]);
    let said = "ostler: failed: the agent ended (exit code 7) before it was given the task: oops not logged in\n";
    assert_eq!((done.code, done.stderr.as_str()), (3, said), "{done:?}");
    let done = shell.ostler(&["run", "--harness", "early", "--json", "hi"]);
    assert_eq!(verdict(&done), (3, "failed".into(), "never_submitted".into()), "{done:?}");
    shell.assert_nothing_left();
}

#[test]
fn every_run_of_events_is_whole_and_ends_with_its_terminal() {
    let shell = Shell::new();
    for script in ["say a ;; say b", "exit 3", "exit 0"] {
        let session = shell.run(script).json()["session"].as_str().expect("id").to_owned();
        let events = shell.events(&session);
        crate::support::shell::assert_whole(&events);
        let terminals = events
            .iter()
            .filter(|event| matches!(event["type"].as_str(), Some("run.completed" | "run.failed" | "run.cancelled")));
        assert_eq!(terminals.count(), 1, "{script}");
    }
}
