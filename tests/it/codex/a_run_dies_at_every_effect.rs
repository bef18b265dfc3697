//! SIGKILL on `ostler run` once at each boundary of an effect: its keeper ends the tree by itself, and the next Ostler
//! process has the verdict.

use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;

use super::support::{Boundary, User, boundaries};
use crate::support::kernel::wait_until;
use crate::support::shell::{assert_whole, signal};

#[test]
fn before_each() {
    die_at_each("before:");
}

#[test]
fn after_each() {
    die_at_each("after:");
}

fn die_at_each(side: &str) {
    let user = User::new();
    let mut known = 0;
    for boundary in boundaries(&ostler_supervisors::faults::boundaries(), side) {
        // A process that ends its own runtime waits for it, and so has nothing that could fail but its verdict.
        if boundary.effect != "Failed" {
            known = die_at(&user, &boundary, known);
        }
    }
}

/// A way to each effect, and whether somebody has to interrupt it.
fn way(boundary: &Boundary) -> (&'static str, &'static str, Option<Signal>) {
    match (boundary.machine, boundary.effect) {
        // It closes its runtime when it has its verdict.
        ("close", _) => ("codex", "hello", None),
        // Only an agent that knows no interrupt has its tree stopped.
        (_, "StopTree") => ("json", "say up ;; hang", Some(Signal::SIGINT)),
        // Only a real tool leaves strays.
        _ => ("codex", "leave one behind", Some(Signal::SIGINT)),
    }
}

/// How many tasks are known afterwards, when so many were known before.
fn die_at(user: &User, boundary: &Boundary, known: usize) -> usize {
    let asked = user.requests().len();
    let (name, prompt, interrupt) = way(boundary);
    let mut run = user.shell.command(&["run", "--harness", name, "--quiet", "--approve", "allow", prompt]);
    run.env("OSTLER_DIE_AT", boundary.name).stdout(Stdio::null()).stderr(Stdio::null());
    let mut run = run.spawn().expect("runs");
    let mut interrupt = interrupt;
    let status = wait_until(Duration::from_secs(30), &format!("the run dies {}", boundary.name), || {
        let at_work = || user.running("sleep 1000") == 2 || user.shell.received() > 0 && name == "json";
        if interrupt.is_some() && at_work() {
            interrupt.take().iter().for_each(|number| signal(&run, *number));
        }
        match run.try_wait().expect("a child") {
            Some(status) => Ok(status),
            None => Err("it lives".to_owned()),
        }
    });
    assert_eq!(status.signal(), Some(Signal::SIGKILL as i32), "{boundary:?} was not reached");
    let tasks = user.shell.tasks();
    assert!(tasks.len() <= known + 1, "{boundary:?}: {tasks:?}");
    let submitted = user.requests().len() - asked;
    // A tool's result is a second request of the same turn.
    assert!(submitted <= 1, "{boundary:?}: asked {submitted} times");
    if tasks.len() == known {
        assert_eq!(submitted, 0, "{boundary:?}: it ran and nobody knows of it");
    } else {
        collected(user, boundary, &tasks[0]);
    }
    user.shell.assert_nothing_left();
    tasks.len()
}

/// Its verdict is one that is known, and its history is whole.
fn collected(user: &User, boundary: &Boundary, task: &Value) {
    let verdict = task["outcome"]["verdict"].as_str();
    let events = user.shell.events(task["session"].as_str().expect("id"));
    let expected = if boundary.machine == "close" { &["completed"][..] } else { &["cancelled", "failed"][..] };
    assert!(verdict.is_some_and(|verdict| expected.contains(&verdict)), "{boundary:?}: {task}\n{events:#?}");
    assert_whole(&events);
    let terminals = ["run.completed", "run.cancelled", "run.failed"];
    let terminals = events.iter().filter(|event| terminals.iter().any(|terminal| event["type"] == *terminal)).count();
    assert_eq!(terminals, 1, "{boundary:?}: {events:#?}");
}
