//! A cancel while Gemini CLI asks, and while it tries again without a word.

use std::time::Duration;

use crate::support::agents::GEMINI;
use crate::support::kernel::wait_until;
use crate::support::shell::{Done, signal};
use crate::support::user::{User, verdict};
use nix::sys::signal::Signal;

/// The newest task, and its open request as soon as there is one.
fn open_request(user: &User) -> (String, String) {
    wait_until(Duration::from_secs(60), "something is asked", || {
        let task = user.shell.tasks()[0]["id"].as_str().expect("an id").to_owned();
        let shown = user.shell.ostler(&["task", "show", &task, "--json"]).json();
        let open = shown["open_interactions"][0]["id"].as_str().map(str::to_owned);
        open.map(|open| (task, open)).ok_or_else(|| shown.to_string())
    })
}

#[test]
fn with_a_permission_open_it_gets_its_answer_with_the_cancel_and_stays_warm() {
    let user = User::of(GEMINI);
    let daemon = user.shell.serve();
    let child = user.start("please run it");
    user.asked(1);
    // A client that stands still answers nothing.
    signal(&child, Signal::SIGSTOP);
    let (task, request) = open_request(&user);
    let agent = user.processes("--acp");
    assert_eq!(user.shell.ostler(&["task", "cancel", &task]).code, 0);
    signal(&child, Signal::SIGCONT);
    let done: Done = child.wait_with_output().expect("ends").into();
    assert_eq!(verdict(&done), (130, "cancelled".into(), "end_report".into()), "{done:?}");
    assert_ne!(user.shell.ostler(&["task", "respond", &task, &request, "allow"]).code, 0, "a late answer");
    assert!(!user.shell.work().join("out.txt").exists(), "the tool ran");
    assert_eq!((agent.len(), user.processes("--acp")), (1, agent));
    user.shell.end(daemon);
}

#[test]
fn a_request_outlives_the_daemon_and_is_answered_over_the_next() {
    let user = User::of(GEMINI);
    let mut daemon = user.shell.serve();
    let child = user.start("please run it");
    user.asked(1);
    signal(&child, Signal::SIGSTOP);
    let (task, request) = open_request(&user);
    daemon.kill().expect("killed");
    daemon.wait().expect("reaped");
    signal(&child, Signal::SIGCONT);
    let _told_that_it_is_gone = child.wait_with_output().expect("ends");
    let daemon = user.shell.serve();
    wait_until(Duration::from_secs(20), "it can be answered", || {
        let done = user.shell.ostler(&["task", "respond", &task, &request, "allow", "--json"]);
        if done.code == 0 { Ok(()) } else { Err(format!("{done:?}")) }
    });
    let waited = user.shell.ostler(&["task", "wait", &task, "--json"]);
    assert_eq!(waited.json()["outcome"]["verdict"], "completed", "{waited:?}");
    assert_eq!(std::fs::read_to_string(user.shell.work().join("out.txt")).expect("the tool ran"), "hi\n");
    user.shell.end(daemon);
}

#[test]
fn while_it_tries_again_without_a_word() {
    let user = User::of(GEMINI);
    let child = user.start("overload");
    user.asked(1);
    signal(&child, Signal::SIGINT);
    let done: Done = child.wait_with_output().expect("ends").into();
    assert_eq!(verdict(&done), (130, "cancelled".into(), "end_report".into()), "{done:?}");
    user.shell.assert_nothing_left();
}
