//! SIGKILL on the daemon once at each boundary of an effect. The list is made from the enum of effects.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;

use super::support::{Boundary, User, boundaries};
use crate::support::kernel::wait_until;
use crate::support::shell::{Done, assert_whole, signal};

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
    let mut tasks = 0;
    for boundary in boundaries(&ostler_supervisors::faults::boundaries(), side) {
        match boundary.machine {
            "close" => tasks = die_at_close(&user, &boundary, tasks),
            _ => tasks = die_at(&user, &boundary, tasks),
        }
    }
}

/// A way to each effect: only an agent that knows no interrupt has its tree stopped, and only a real tool leaves strays.
fn harness(boundary: &Boundary) -> (&'static str, &'static str) {
    if boundary.effect == "StopTree" { ("json", "say up ;; hang") } else { ("codex", "leave one behind") }
}

/// How many tasks are known afterwards, when so many were known before.
fn die_at(user: &User, boundary: &Boundary, tasks: usize) -> usize {
    let asked = user.requests().len();
    let mut daemon = user.shell.serve_with(&[("OSTLER_DIE_AT", boundary.name)]);
    let (name, prompt) = harness(boundary);
    let mut run = user.shell.command(&["run", "--harness", name, "--json", "--approve", "allow", prompt]);
    let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("runs");
    until(&mut daemon, "the agent is at work", || {
        user.running("sleep 1000") == 2 || user.shell.received() > 0 && name == "json"
    });
    signal(&run, Signal::SIGINT);
    until(&mut daemon, &format!("the daemon dies {}", boundary.name), || false);
    run.wait().expect("ends");

    let daemon = user.shell.serve();
    let known = user.shell.tasks();
    assert!(known.len() <= tasks + 1, "{boundary:?}: {known:?}");
    assert!(user.requests().len() <= asked + 1, "{boundary:?}: asked more than once");
    if known.len() == tasks {
        assert_eq!(user.requests().len(), asked, "{boundary:?}: it ran and nobody knows of it");
    } else {
        settled(user, boundary.name, &known[0]);
    }
    user.shell.end(daemon);
    known.len()
}

/// How often a tree may be gone before it counts as leaked.
const MOST_CLOSES: usize = 20;

/// A session is closed, by a request that has to be made again after the death; a second one changes nothing.
fn die_at_close(user: &User, boundary: &Boundary, tasks: usize) -> usize {
    let mut daemon = user.shell.serve_with(&[("OSTLER_DIE_AT", boundary.name)]);
    let mut closes = 0;
    let session = loop {
        closes += 1;
        let (session, lost) = close_one(user, boundary, tasks + closes);
        // Told to another thread, the answer may be out before the process is gone.
        let may_be_told = boundary.name == "after:close.Done";
        if lost.code == 4 || (may_be_told && lost.code == 0) {
            break session;
        }
        let was_quick = boundary.effect == "Failed" && lost.code == 0 && closes < MOST_CLOSES;
        assert!(was_quick, "{boundary:?}: {lost:?}");
    };
    until(&mut daemon, &format!("the daemon dies {}", boundary.name), || false);

    let daemon = user.shell.serve();
    wait_until(Duration::from_secs(30), "it is closed", || {
        let closed = user.shell.ostler(&["session", "close", &session]);
        if closed.code == 0 { Ok(()) } else { Err(format!("{boundary:?}: {closed:?}")) }
    });
    let events = user.shell.events(&session);
    assert_whole(&events);
    let closings = events.iter().filter(|event| event["type"] == "ostler.session.closed").count();
    assert_eq!(closings, 1, "{boundary:?}: {events:#?}");
    assert_eq!(events.last().expect("events")["type"], "ostler.session.closed", "{boundary:?}");
    user.shell.end(daemon);
    tasks + closes
}

/// Closes a session in which an agent is at work, or rests.
fn close_one(user: &User, boundary: &Boundary, tasks: usize) -> (String, Done) {
    // A large process takes a while to die: one that is given no time after SIGKILL counts as leaked meanwhile.
    let failed = boundary.effect == "Failed";
    let name = if failed { "hasty" } else { "codex" };
    let mut run = user.shell.spawn(&["run", "--harness", name, "--quiet", "hello"]);
    let session = wait_until(Duration::from_secs(30), "it is at work or done", || {
        let known = user.shell.tasks();
        let task = known.first().filter(|_| known.len() == tasks).ok_or("none")?;
        let session = task["session"].as_str().expect("id");
        let said = || user.shell.events(session).iter().any(|event| event["type"] == "message.delta");
        let at_work = if failed { said() } else { !task["outcome"].is_null() };
        if at_work { Ok(session.to_owned()) } else { Err(task.to_string()) }
    });
    let lost = user.shell.ostler(&["session", "close", &session]);
    run.wait().expect("ends");
    (session, lost)
}

/// Cancelled or already settled, its history is whole, and no process of its tool is left.
fn settled(user: &User, boundary: &str, task: &Value) {
    let id = task["id"].as_str().expect("id");
    let _settled_already = user.shell.ostler(&["task", "cancel", id, "--json"]);
    let waited = user.shell.ostler(&["task", "wait", id, "--json"]);
    let events = user.shell.events(task["session"].as_str().expect("id"));
    assert_eq!(waited.json()["outcome"]["verdict"], "cancelled", "{boundary}: {waited:?}\n{events:#?}");
    assert_whole(&events);
    let terminals = events.iter().filter(|event| event["type"] == "run.cancelled").count();
    assert_eq!(terminals, 1, "{boundary}: {events:#?}");
    assert_eq!(user.processes("sleep 1000"), Vec::<i32>::new(), "{boundary}");
}

/// Until this holds or the daemon was killed.
fn until(daemon: &mut Child, what: &str, mut holds: impl FnMut() -> bool) {
    wait_until(Duration::from_secs(30), what, || match daemon.try_wait().expect("a child") {
        Some(status) if status.signal() == Some(Signal::SIGKILL as i32) => Ok(()),
        Some(status) => panic!("{what}: the daemon ended by itself: {status}"),
        None if holds() => Ok(()),
        None => Err("it lives".to_owned()),
    });
}
