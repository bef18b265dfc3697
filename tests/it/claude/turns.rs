//! What a person does with Claude Code, and what is true afterwards.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::support::User;
use crate::support::kernel::{is_alive, wait_until};
use crate::support::shell::{Done, assert_whole, signal};

pub(super) fn word<'a>(done: &'a Value, pointer: &str) -> &'a str {
    done.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn verdict(done: &Done) -> (i32, String, String) {
    let json = done.json();
    (done.code, word(&json, "/outcome/verdict").to_owned(), word(&json, "/evidence/proof").to_owned())
}

fn of_type<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["type"] == kind).collect()
}

#[test]
fn a_text_turn() {
    let user = User::new();
    let done = user.run(&["hello there"]);
    assert_eq!(verdict(&done), (0, "completed".into(), "end_report".into()), "{done:?}");
    let json = done.json();
    assert_eq!(word(&json, "/output"), "reply number 1");
    assert_eq!((&json["usage"]["input_tokens"], &json["usage"]["output_tokens"]), (&12.into(), &9.into()), "{json}");
    let events = user.shell.events(word(&json, "/session"));
    assert_whole(&events);
    let results = of_type(&events, "adapter.claude.result");
    assert!(results.len() == 1 && results[0]["data"]["total_cost_usd"].as_f64().is_some_and(|cost| cost > 0.0));
    assert_eq!(user.requests().len(), 1);
    user.shell.assert_nothing_left();
}

#[test]
fn what_it_thinks_is_no_part_of_the_answer() {
    let user = User::new();
    let done = user.run(&["ponder this"]);
    assert_eq!(word(&done.json(), "/output"), "done", "{done:?}");
    let events = user.shell.events(word(&done.json(), "/session"));
    let thought = of_type(&events, "model.thinking");
    let thought: String = thought.iter().filter_map(|event| event["data"]["text"].as_str()).collect();
    assert_eq!(thought, "let me see");
}

#[test]
fn a_tool_turn_allowed_and_one_denied() {
    let user = User::new();
    let allowed = user.run(&["--approve", "allow", "please run it"]);
    assert_eq!(verdict(&allowed).1, "completed", "{allowed:?}");
    assert_eq!(word(&allowed.json(), "/output"), "the tool said hi", "{allowed:?}");
    assert_eq!(std::fs::read_to_string(user.shell.work().join("out.txt")).expect("the tool ran"), "hi\n");
    std::fs::remove_file(user.shell.work().join("out.txt")).expect("removed");
    let events = user.shell.events(word(&allowed.json(), "/session"));
    let resolved = of_type(&events, "approval.resolved");
    assert_eq!(resolved.len(), 1);
    assert_eq!(resolved[0]["data"]["decision"]["decision"], "approve_once", "its answer was confirmed");
    let ran = of_type(&events, "tool.completed");
    assert!(ran.len() == 1 && ran[0]["data"]["status"] == "completed" && ran[0]["data"]["output"] == "hi", "{ran:?}");

    let denied = user.run(&["--approve", "deny", "please run it"]);
    assert_eq!(verdict(&denied).1, "completed", "{denied:?}");
    assert!(!user.shell.work().join("out.txt").exists(), "a denied tool ran");
    let events = user.shell.events(word(&denied.json(), "/session"));
    assert_eq!(of_type(&events, "tool.completed")[0]["data"]["status"], "declined");
    user.shell.assert_nothing_left();
}

#[test]
fn a_failing_model_is_a_failure_of_its_kind() {
    let user = User::new();
    for (prompt, kind) in [("overload", "TRANSIENT"), ("malformed", "PROVIDER")] {
        let done = user.run(&[prompt]);
        assert_eq!(verdict(&done), (1, "failed".into(), "end_report".into()), "{done:?}");
        assert_eq!(word(&done.json(), "/outcome/kind"), kind);
        let events = user.shell.events(word(&done.json(), "/session"));
        let retried = of_type(&events, "ostler.warning").iter().any(|event| event["data"]["kind"] == "recoverable");
        assert_eq!(retried, kind == "TRANSIENT", "{events:#?}");
    }
    user.shell.assert_nothing_left();
}

/// A daemon, so that what is left warm can be seen.
#[test]
fn a_cancel_in_mid_stream_and_one_in_mid_tool_keep_the_runtime_warm() {
    let user = User::new();
    let daemon = user.shell.serve();
    let first = user.shell.spawn(&["run", "--harness", "claude", "--json", "slow please"]);
    user.asked(1);
    std::thread::sleep(Duration::from_millis(700));
    signal(&first, Signal::SIGINT);
    let done: Done = first.wait_with_output().expect("ends").into();
    assert_eq!(verdict(&done), (130, "cancelled".into(), "end_report".into()), "{done:?}");
    assert!(word(&done.json(), "/output").starts_with("one "), "{done:?}");
    let session = word(&done.json(), "/session").to_owned();
    let warm = user.agents();
    assert_eq!(warm.len(), 1, "the runtime is warm");

    let second = user.shell.spawn(&["run", "--session", &session, "--json", "--approve", "allow", "work long"]);
    let tool = user.tool();
    signal(&second, Signal::SIGINT);
    let done: Done = second.wait_with_output().expect("ends").into();
    assert_eq!(verdict(&done), (130, "cancelled".into(), "end_report".into()), "{done:?}");
    assert!(!is_alive(tool), "the tool lives on");
    assert_eq!(user.agents(), warm, "the runtime stayed warm");

    let third = user.shell.ostler(&["run", "--session", &session, "--json", "and now"]);
    assert_eq!(verdict(&third).1, "completed", "{third:?}");
    assert_eq!(user.agents(), warm);
    assert_whole(&user.shell.events(&session));
    user.shell.end(daemon);
}

#[test]
fn a_resume_in_a_new_process_knows_the_earlier_text() {
    let user = User::new();
    let first = user.run(&["remember the word walnut"]);
    let session = word(&first.json(), "/session").to_owned();
    user.shell.assert_nothing_left();
    let second = user.shell.ostler(&["run", "--session", &session, "--json", "what was it"]);
    assert_eq!(word(&second.json(), "/output"), "reply number 2", "{second:?}");
    let requests = user.requests();
    let last = requests.last().expect("two requests")["request"]["messages"].to_string();
    assert!(last.contains("walnut"), "the earlier text is not in the second request");
    user.shell.assert_nothing_left();
}

#[test]
fn a_sigkill_from_outside_is_a_failure_with_its_signal() {
    let user = User::new();
    let child = user.shell.spawn(&["run", "--harness", "claude", "--json", "--approve", "allow", "work long"]);
    let tool = user.tool();
    let agent = wait_until(Duration::from_secs(30), "it runs", || {
        user.agents().first().copied().ok_or_else(|| "not yet".to_owned())
    });
    kill(Pid::from_raw(agent), Signal::SIGKILL).expect("killed");
    let done: Done = child.wait_with_output().expect("ends").into();
    assert_eq!(verdict(&done), (1, "failed".into(), "tree_empty".into()), "{done:?}");
    assert_eq!(done.json()["evidence"]["exit"]["signal"], 9);
    assert!(!is_alive(tool), "its tool outlived it");
    user.shell.assert_nothing_left();
}

#[test]
fn a_session_that_it_has_lost_is_said_to_be_lost() {
    let user = User::new();
    let first = user.run(&["remember the word walnut"]);
    let session = word(&first.json(), "/session").to_owned();
    std::fs::remove_dir_all(user.shell.path().join("claude-home/projects")).expect("removed");
    let second = user.shell.ostler(&["run", "--session", &session, "--json", "what was it"]);
    let said = second.stdout.clone() + &second.stderr;
    assert!(second.code == 3 && said.contains("has lost its session"), "{second:?}");
    assert!(said.contains("No conversation found"), "{second:?}");
    assert_eq!(user.requests().len(), 1, "nothing was asked of the model");
    user.shell.assert_nothing_left();
}
