//! What a person does with Gemini CLI, and what is true afterwards.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::support::User;
use crate::support::kernel::{is_alive, wait_until};
use crate::support::shell::{Done, assert_whole, signal};

fn word<'a>(done: &'a Value, pointer: &str) -> &'a str {
    done.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn verdict(done: &Done) -> (i32, String, String) {
    let json = done.json();
    (done.code, word(&json, "/outcome/verdict").to_owned(), word(&json, "/evidence/proof").to_owned())
}

#[test]
fn a_text_turn() {
    let user = User::new();
    let done = user.run(&["hello there"]);
    assert_eq!(verdict(&done), (0, "completed".into(), "end_report".into()), "{done:?}");
    let json = done.json();
    assert_eq!(word(&json, "/output"), "reply number 1");
    assert_eq!((&json["usage"]["input_tokens"], &json["usage"]["output_tokens"]), (&12.into(), &9.into()), "{json}");
    assert_whole(&user.shell.events(word(&json, "/session")));
    assert_eq!(user.requests().len(), 1);
    user.shell.assert_nothing_left();
}

#[test]
fn a_tool_turn_allowed_and_one_denied() {
    let user = User::new();
    let allowed = user.run(&["--approve", "allow", "please run it"]);
    assert_eq!(verdict(&allowed).1, "completed", "{allowed:?}");
    let output = word(&allowed.json(), "/output").to_owned();
    assert!(output.starts_with("the tool said") && output.contains("hi"), "{allowed:?}");
    let file = user.shell.work().join("out.txt");
    assert_eq!(std::fs::read_to_string(&file).expect("the tool ran"), "hi\n");
    std::fs::remove_file(&file).expect("removed");
    let events = user.shell.events(word(&allowed.json(), "/session"));
    let of = |kind: &str| events.iter().find(|event| event["type"] == kind).map(|event| event["data"].clone());
    assert_eq!(of("approval.requested").expect("it asked")["prompt"], "echo hi > out.txt && cat out.txt");
    assert_eq!(of("tool.completed").expect("it ended")["success"], true);

    let denied = user.run(&["--approve", "deny", "please run it"]);
    assert_eq!(verdict(&denied).1, "completed", "{denied:?}");
    assert!(!file.exists(), "a denied tool ran");
    user.shell.assert_nothing_left();
}

#[test]
fn a_request_that_the_model_refuses_is_a_failure() {
    let user = User::new();
    let done = user.run(&["malformed"]);
    assert_eq!(verdict(&done), (1, "failed".into(), "end_report".into()), "{done:?}");
    assert_eq!(word(&done.json(), "/outcome/kind"), "PROVIDER");
    user.shell.assert_nothing_left();
}

/// A daemon, so that what is left warm can be seen.
#[test]
fn a_cancel_in_mid_stream_and_one_in_mid_tool_keep_the_runtime_warm() {
    let user = User::new();
    let daemon = user.shell.serve();
    let first = user.start("slow please");
    user.speaks();
    signal(&first, Signal::SIGINT);
    let done: Done = first.wait_with_output().expect("ends").into();
    assert_eq!(verdict(&done), (130, "cancelled".into(), "end_report".into()), "{done:?}");
    assert!(word(&done.json(), "/output").starts_with("one "), "{done:?}");
    wait_until(
        Duration::from_secs(10),
        "the model is told",
        || if user.hung_up() { Ok(()) } else { Err(String::new()) },
    );
    let session = word(&done.json(), "/session").to_owned();
    let warm = user.processes("--acp");
    assert_eq!(warm.len(), 1, "the runtime is warm");

    let second = user.shell.spawn(&["run", "--session", &session, "--json", "--approve", "allow", "leave one behind"]);
    let tools = wait_until(Duration::from_secs(60), "the tools run", || {
        let tools: Vec<_> = user.processes("sleep 1000");
        if tools.len() >= 3 { Ok(tools) } else { Err(format!("{tools:?}")) }
    });
    signal(&second, Signal::SIGINT);
    let done: Done = second.wait_with_output().expect("ends").into();
    assert_eq!(verdict(&done), (130, "cancelled".into(), "end_report".into()), "{done:?}");
    assert!(!tools.into_iter().any(is_alive), "a tool lives on");
    assert_eq!(user.processes("--acp"), warm, "the runtime stayed warm");

    let third = user.shell.ostler(&["run", "--session", &session, "--json", "and now"]);
    assert_eq!(verdict(&third).1, "completed", "{third:?}");
    assert_eq!(user.processes("--acp"), warm);
    assert_whole(&user.shell.events(&session));
    user.shell.end(daemon);
}

#[test]
fn a_resume_in_a_new_process_knows_the_earlier_text_and_says_none_of_it_again() {
    let user = User::new();
    let first = user.run(&["remember the word walnut"]);
    let session = word(&first.json(), "/session").to_owned();
    user.shell.assert_nothing_left();
    let second = user.shell.ostler(&["run", "--session", &session, "--json", "what was it"]);
    assert_eq!(word(&second.json(), "/output"), "reply number 2", "{second:?}");
    let requests = user.requests();
    let last = requests.last().expect("two requests")["request"]["contents"].to_string();
    assert!(last.contains("walnut"), "the earlier text is not in the second request");
    let events = user.shell.events(&session);
    let said: String = events
        .iter()
        .filter(|event| event["type"] == "message.delta")
        .filter_map(|event| event["data"]["text"].as_str())
        .collect();
    assert_eq!(said, "reply number 1reply number 2");
    let third = user.shell.ostler(&["run", "--session", &session, "--json", "and again"]);
    assert_eq!(word(&third.json(), "/output"), "reply number 3", "{third:?}");
    user.shell.assert_nothing_left();
}

#[test]
fn a_sigkill_from_outside_is_a_failure_with_its_signal() {
    let user = User::new();
    let child = user.start("slow please");
    user.speaks();
    let pid = user.processes("--acp")[0];
    kill(Pid::from_raw(pid), Signal::SIGKILL).expect("killed");
    let done: Done = child.wait_with_output().expect("ends").into();
    assert_eq!(verdict(&done), (1, "failed".into(), "tree_empty".into()), "{done:?}");
    assert_eq!(done.json()["evidence"]["exit"]["signal"], 9);
    user.shell.assert_nothing_left();
}

#[test]
fn a_sigkill_in_mid_tool_takes_the_tool_along() {
    let user = User::new();
    let child = user.start("sleep now");
    let tool = wait_until(Duration::from_secs(60), "the tool runs", || {
        user.processes("sleep 1000").first().copied().ok_or_else(|| "not yet".to_owned())
    });
    kill(Pid::from_raw(user.processes("--acp")[0]), Signal::SIGKILL).expect("killed");
    let done: Done = child.wait_with_output().expect("ends").into();
    assert_eq!(verdict(&done), (1, "failed".into(), "tree_empty".into()), "{done:?}");
    assert!(!is_alive(tool));
    user.shell.assert_nothing_left();
}
