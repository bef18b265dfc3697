//! What a person does with Codex, and what is true afterwards.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::support::User;
use crate::support::kernel::wait_until;
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
    assert_eq!((word(&json, "/output"), &json["usage"]["total_tokens"]), ("reply number 1", &21.into()));
    assert_whole(&user.shell.events(word(&json, "/session")));
    assert_eq!(user.requests().len(), 1);
    user.shell.assert_nothing_left();
}

#[test]
fn a_tool_turn_allowed_and_one_denied() {
    let user = User::new();
    let allowed = user.run(&["--approve", "allow", "please run it"]);
    assert_eq!(verdict(&allowed).1, "completed", "{allowed:?}");
    assert!(word(&allowed.json(), "/output").contains("hi"), "{allowed:?}");
    assert_eq!(std::fs::read_to_string(user.shell.work().join("out.txt")).expect("the tool ran"), "hi\n");
    std::fs::remove_file(user.shell.work().join("out.txt")).expect("removed");

    let denied = user.run(&["--approve", "deny", "please run it"]);
    assert_eq!(verdict(&denied).1, "completed", "{denied:?}");
    assert!(!user.shell.work().join("out.txt").exists(), "a denied tool ran");
    user.shell.assert_nothing_left();
}

#[test]
fn a_failing_model_is_a_failure_of_its_kind() {
    let user = User::new();
    let done = user.run(&["overload"]);
    assert_eq!(verdict(&done), (1, "failed".into(), "end_report".into()), "{done:?}");
    assert_eq!(word(&done.json(), "/outcome/kind"), "TRANSIENT");
    user.shell.assert_nothing_left();
}

/// A daemon, so that what is left warm can be seen.
#[test]
fn a_cancel_in_mid_stream_and_one_in_mid_tool_keep_the_runtime_warm() {
    let user = User::new();
    let daemon = user.shell.serve();
    let run = |prompt: &str| user.shell.spawn(&["run", "--harness", "codex", "--json", "--approve", "allow", prompt]);
    let first = run("slow please");
    wait_until(Duration::from_secs(30), "it streams", || {
        if user.requests().is_empty() { Err("no request yet".into()) } else { Ok(()) }
    });
    std::thread::sleep(Duration::from_millis(700));
    signal(&first, Signal::SIGINT);
    let done: Done = first.wait_with_output().expect("ends").into();
    assert_eq!(verdict(&done), (130, "cancelled".into(), "end_report".into()), "{done:?}");
    assert!(word(&done.json(), "/output").starts_with("one "), "{done:?}");
    let session = word(&done.json(), "/session").to_owned();
    let warm = user.processes("app-server");
    assert_eq!(warm.len(), 1, "the runtime is warm");

    let second = user.shell.spawn(&["run", "--session", &session, "--json", "--approve", "allow", "sleep now"]);
    let tool = wait_until(Duration::from_secs(30), "the tool runs", || {
        user.processes("sleep 1000").first().copied().ok_or_else(|| "not yet".to_owned())
    });
    signal(&second, Signal::SIGINT);
    let done: Done = second.wait_with_output().expect("ends").into();
    assert_eq!(verdict(&done), (130, "cancelled".into(), "end_report".into()), "{done:?}");
    assert!(!crate::support::kernel::is_alive(tool), "the tool lives on");
    assert_eq!(user.processes("app-server"), warm, "the runtime stayed warm");

    let third = user.shell.ostler(&["run", "--session", &session, "--json", "and now"]);
    assert_eq!(verdict(&third).1, "completed", "{third:?}");
    assert_eq!(user.processes("app-server"), warm);
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
    let last = requests.last().expect("two requests")["request"]["input"].to_string();
    assert!(last.contains("walnut"), "the earlier text is not in the second request");
    user.shell.assert_nothing_left();
}

#[test]
fn a_sigkill_from_outside_is_a_failure_with_its_signal() {
    let user = User::new();
    let child = user.shell.spawn(&["run", "--harness", "codex", "--json", "slow please"]);
    let pid = wait_until(Duration::from_secs(30), "it streams", || {
        let pid = user.processes("app-server").first().copied();
        pid.filter(|_| !user.requests().is_empty()).ok_or_else(|| "not yet".to_owned())
    });
    kill(Pid::from_raw(pid), Signal::SIGKILL).expect("killed");
    let done: Done = child.wait_with_output().expect("ends").into();
    assert_eq!(verdict(&done), (1, "failed".into(), "tree_empty".into()), "{done:?}");
    assert_eq!(done.json()["evidence"]["exit"]["signal"], 9);
    user.shell.assert_nothing_left();
}
