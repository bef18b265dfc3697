//! SIGKILL on the daemon: a turn goes on, a request stays answerable, nothing is asked twice.

use std::process::Child;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;

use super::{configure, finish, history, open_request, received, running, start};
use crate::support::kernel::{is_alive, wait_until};
use crate::support::shell::{Containment, Shell, assert_whole, signal};

fn kill(mut child: Child) {
    child.kill().expect("killed");
    child.wait().expect("reaped");
}

fn user() -> Shell {
    let shell = Shell::with(Containment::Descent, "");
    configure(&shell, &[("OSTLER_AGENT_HISTORY", &history(&shell))]);
    shell
}

#[test]
fn a_turn_goes_on_without_a_gap() {
    let shell = user();
    for round in 0..5 {
        let daemon = shell.serve();
        let client = start(&shell, "stream 60 16 20");
        received(&shell, round + 1);
        std::thread::sleep(Duration::from_millis(100 + 173 * round as u64));
        kill(daemon);
        finish(client);
        let daemon = shell.serve();
        let task = shell.tasks()[0].clone();
        let waited = shell.ostler(&["task", "wait", task["id"].as_str().expect("an id"), "--json"]);
        assert_eq!(waited.code, 0, "{waited:?}");
        let text = waited.json()["outcome"]["output"]["text"].as_str().expect("a text").to_owned();
        let numbers: Vec<usize> =
            (0..60).filter(|number| text.matches(&format!("{number:07} ")).count() == 1).collect();
        assert_eq!((numbers.len(), text.len()), (60, 60 * 16), "{text}");
        assert_whole(&shell.events(task["session"].as_str().expect("an id")));
        shell.end(daemon);
    }
    assert_eq!(shell.received(), 5, "asked once each");
}

#[test]
fn case_f8_what_is_asked_stays_answerable() {
    let shell = user();
    let daemon = shell.serve();
    let client = start(&shell, "sleep 1000 ;; ask-foreign may I ;; say done");
    received(&shell, 1);
    signal(&client, Signal::SIGSTOP);
    let (task, request) = open_request(&shell);
    kill(daemon);
    signal(&client, Signal::SIGCONT);
    finish(client);
    let daemon = shell.serve();
    let answered = wait_until(Duration::from_secs(20), "it can be answered", || {
        let done = shell.ostler(&["task", "respond", &task, &request, "allow", "--json"]);
        if done.code == 0 { Ok(done) } else { Err(format!("{done:?}")) }
    });
    assert_eq!(answered.code, 0);
    let waited = shell.ostler(&["task", "wait", &task, "--json"]);
    let outcome = &waited.json()["outcome"];
    assert_eq!(
        (&outcome["verdict"], &outcome["output"]["text"]),
        (&"completed".into(), &"allowed done".into()),
        "{waited:?}"
    );
    shell.end(daemon);
}

/// The next daemon has a cancel for the agent before it knows how far the agent was told things. An agent that heard of
/// it ends its turn by itself; one that did not is stopped with its tree.
#[test]
fn a_cancel_that_was_stored_reaches_the_agent_after_a_restart() {
    let shell = user();
    let mut verdicts = Vec::new();
    for round in 0..12 {
        let daemon = shell.serve();
        let client = start(&shell, "say so far ;; stream 200 10 20");
        received(&shell, round + 1);
        let task = shell.tasks()[0]["id"].as_str().expect("an id").to_owned();
        signal(&client, Signal::SIGINT);
        std::thread::sleep(Duration::from_millis(2 * round as u64));
        kill(daemon);
        finish(client);
        let daemon = shell.serve();
        let waited = shell.ostler(&["task", "wait", &task, "--json"]).json();
        let word = |pointer: &str| waited.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        verdicts.push((word("/outcome/verdict"), word("/outcome/evidence/proof")));
        shell.end(daemon);
    }
    assert!(verdicts.iter().all(|(_, proof)| proof == "end_report"), "{verdicts:?}");
    assert!(verdicts.iter().any(|(verdict, _)| verdict == "cancelled"), "{verdicts:?}");
}

#[test]
fn what_the_agent_had_before_the_task_is_its_own_also_after_a_restart() {
    let shell = Shell::with(Containment::Descent, "");
    // The kernel tells the instant of a start in hundredths of a second: one in the same hundredth could be either.
    configure(&shell, &[("OSTLER_AGENT_START", "spawn setsid ;; sleep 50")]);
    let daemon = shell.serve();
    let client = start(&shell, "say up ;; hang");
    received(&shell, 1);
    let helper = running(&shell, "setsid");
    kill(daemon);
    finish(client);
    let daemon = shell.serve();
    let task = shell.tasks()[0]["id"].as_str().expect("an id").to_owned();
    assert_eq!(shell.ostler(&["task", "cancel", &task]).code, 0);
    let waited = shell.ostler(&["task", "wait", &task, "--json"]);
    let outcome = &waited.json()["outcome"];
    assert_eq!(
        (&outcome["verdict"], &outcome["evidence"]["proof"]),
        (&"cancelled".into(), &"end_report".into()),
        "{waited:?}"
    );
    assert!(is_alive(helper), "it was taken for the task's");
    shell.end(daemon);
}
