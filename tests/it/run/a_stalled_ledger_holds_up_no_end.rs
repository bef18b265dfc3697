//! A ledger that is full, held or waited for: signals, health, reads and stops go on.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::support::holder::Holder;
use crate::support::kernel::wait_until;
use crate::support::shell::{Containment, Done, Shell, assert_whole, signal};

/// Longer than everything that is waited for with a bound, on a busy machine.
const BOUND: Duration = Duration::from_secs(90);

fn impatient() -> Shell {
    Shell::with(Containment::Descent, "[ledger]\nbusy_timeout = \"100ms\"")
}

fn finish(mut child: Child, what: &str) -> Done {
    wait_until(BOUND, what, || match child.try_wait().expect("a child") {
        Some(_) => Ok(()),
        None => Err("it runs".into()),
    });
    child.wait_with_output().expect("ended").into()
}

/// A command that must end, whatever it waits for.
fn ends(shell: &Shell, arguments: &[&str]) -> Done {
    finish(shell.spawn(arguments), &format!("{arguments:?} ends"))
}

fn working(shell: &Shell, arguments: &[&str]) -> Child {
    let before = shell.received();
    let child = shell.spawn(arguments);
    wait_until(Duration::from_secs(30), "the agent works", || match shell.received() > before {
        true => Ok(()),
        false => Err("no prompt received".into()),
    });
    child
}

/// What the daemon said last after this word, up to the end of it.
fn said(shell: &Shell, before: &str) -> String {
    wait_until(BOUND, &format!("the daemon says {before:?}"), || {
        let log = std::fs::read_to_string(shell.path().join("daemon.log")).unwrap_or_default();
        let found = log.rsplit_once(before).map(|(_, after)| after.split(['/', '\n']).next().unwrap_or("").to_owned());
        found.filter(|found| !found.is_empty()).ok_or(log)
    })
}

/// Status and body.
fn get(address: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").expect("written");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("read");
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, answer.split_once("\r\n\r\n").expect("a body").1.to_owned())
}

fn readiness(address: &str, status: u16, words: &str) {
    wait_until(BOUND, &format!("/readyz is {status} and says {words:?}"), || match get(address, "/readyz") {
        (found, body) if found == status && body.contains(words) => Ok(()),
        other => Err(format!("{other:?}")),
    });
}

fn not_ready(address: &str, why: &str) {
    readiness(address, 503, why);
}

/// Starts a daemon that may not come to listen.
fn starting(shell: &Shell) -> Child {
    let log = File::options().create(true).append(true).open(shell.path().join("daemon.log")).expect("writable");
    shell.command(&["serve"]).stdout(Stdio::null()).stderr(log).spawn().expect("runs")
}

fn log(shell: &Shell) -> String {
    std::fs::read_to_string(shell.path().join("daemon.log")).expect("readable")
}

#[test]
fn a_start_that_waits_for_the_ledger_answers_health_and_hears_how_to_end() {
    for asked in [Signal::SIGTERM, Signal::SIGUSR1] {
        let shell = impatient();
        let mut killed = shell.serve();
        let client = working(&shell, &["run", "--harness", "scripted", "say up ;; hang"]);
        killed.kill().expect("killed");
        killed.wait().expect("reaped");
        finish(client, "the client of a killed daemon ends");
        let holder = Holder::hold(&shell.state().join("ledger.sqlite"));
        let daemon = starting(&shell);
        let address =
            said(&shell, "taken over: the ledger is locked by another process; it is tried again; see http://");
        assert_eq!(get(&address, "/healthz").0, 200);
        not_ready(&address, "ledger stalled: the ledger is locked");
        assert!(!log(&shell).rsplit_once("taken over").expect("said").1.contains("listening"));
        signal(&daemon, asked);
        let done = finish(daemon, "the daemon ends");
        assert_eq!(done.code, 3, "{done:?} {}", log(&shell));
        assert!(log(&shell).contains("is not stored: the ledger is locked"), "{}", log(&shell));
        holder.release();
        let daemon = shell.serve();
        shell.end(daemon);
    }
}

#[test]
fn a_start_is_not_ready_before_it_has_taken_over() {
    let shell = impatient();
    let mut killed = shell.serve();
    let client = working(&shell, &["run", "--harness", "scripted", "say up ;; hang"]);
    killed.kill().expect("killed");
    killed.wait().expect("reaped");
    finish(client, "the client of a killed daemon ends");
    let other = File::create(shell.state().join("owners.lock")).expect("made");
    other.lock().expect("locked");
    let daemon = starting(&shell);
    let address = said(&shell, "what earlier owners left is still being taken over; see http://");
    not_ready(&address, "what earlier owners left is being taken over");
    drop(other);
    assert!(said(&shell, "1 sessions ").starts_with("go on"));
    readiness(&address, 200, "ready");
    shell.end(daemon);
}

#[test]
fn a_daemon_that_cannot_store_leaves_and_the_next_one_goes_on() {
    let shell = impatient();
    let daemon = shell.serve();
    let address = said(&shell, "and http://");
    let client = working(&shell, &["run", "--harness", "scripted", "say up ;; hang"]);
    let task = shell.tasks()[0].clone();
    let holder = Holder::hold(&shell.state().join("ledger.sqlite"));
    let stuck = shell.spawn(&["run", "--harness", "scripted", "say never"]);
    not_ready(&address, "ledger stalled");
    signal(&daemon, Signal::SIGUSR1);
    let done = finish(daemon, "the daemon leaves");
    assert_eq!(done.code, 3, "{}", log(&shell));
    finish(client, "the client of a daemon that left ends");
    finish(stuck, "the client that was not answered ends");
    holder.release();
    let daemon = shell.serve();
    assert!(said(&shell, "1 sessions ").starts_with("go on"));
    assert_whole(&shell.events(task["session"].as_str().expect("id")));
    shell.end(daemon);
}

#[test]
fn whoever_left_first_may_still_be_told_to_close() {
    let shell = impatient();
    let daemon = shell.serve();
    let address = said(&shell, "and http://");
    let client = working(&shell, &["run", "--harness", "scripted", "say up ;; hang"]);
    let holder = Holder::hold(&shell.state().join("ledger.sqlite"));
    let stuck = shell.spawn(&["run", "--harness", "scripted", "say never"]);
    not_ready(&address, "ledger stalled");
    signal(&daemon, Signal::SIGUSR1);
    signal(&daemon, Signal::SIGTERM);
    let done = finish(daemon, "the daemon closes");
    assert_eq!(done.code, 3, "{}", log(&shell));
    assert!(log(&shell).contains("closing everything"), "{}", log(&shell));
    shell.marker.assert_gone(Duration::from_secs(10));
    finish(client, "the client ends");
    finish(stuck, "the client that was not answered ends");
    holder.release();
    let daemon = shell.serve();
    shell.end(daemon);
}

#[test]
fn whoever_is_at_taking_over_holds_up_no_session_that_has_an_owner() {
    let shell = Shell::new();
    let daemon = shell.serve();
    let other = File::create(shell.state().join("owners.lock")).expect("made");
    other.lock().expect("locked");
    let done = ends(&shell, &["run", "--harness", "scripted", "say x"]);
    assert_eq!((done.code, done.stdout.as_str()), (0, "x\n"), "{done:?}");
    drop(other);
    shell.end(daemon);
}

/// What a killed `ostler run` left, and its task.
fn leftover(shell: &Shell) -> String {
    let mut run = working(shell, &["run", "--harness", "scripted", "say up ;; hang"]);
    let listed = shell.ostler(&["session", "list", "--json"]).json();
    run.kill().expect("killed");
    run.wait().expect("reaped");
    listed[0]["id"].as_str().expect("id").to_owned()
}

fn shown_as_left(shell: &Shell, session: &str, why: &str) {
    let listed = ends(shell, &["task", "list", "--json"]);
    assert_eq!(listed.code, 0, "{listed:?}");
    assert!(listed.stderr.contains(why) && listed.stderr.contains("shown is what is stored"), "{listed:?}");
    let task = &listed.json()[0];
    assert_eq!(task["outcome"], serde_json::Value::Null, "{task}");
    let read = ends(shell, &["events", session]);
    assert_eq!(read.code, 0, "{read:?}");
    assert!(read.stdout.contains("\"up"), "{read:?}");
    let refused = ends(shell, &["task", "cancel", task["id"].as_str().expect("id")]);
    assert_eq!(refused.code, 3, "{refused:?}");
    assert!(refused.stderr.contains(why), "{refused:?}");
}

#[test]
fn what_is_stored_is_shown_while_another_process_is_at_taking_over() {
    let shell = impatient();
    let session = leftover(&shell);
    let other = File::create(shell.state().join("owners.lock")).expect("made");
    other.lock().expect("locked");
    shown_as_left(&shell, &session, "another process has had the lock for a while");
    drop(other);
    assert_eq!(shell.tasks()[0]["outcome"]["verdict"], "failed");
    shell.assert_nothing_left();
}

#[test]
fn what_is_stored_is_shown_while_nothing_can_be_stored() {
    let shell = impatient();
    let session = leftover(&shell);
    let holder = Holder::hold(&shell.state().join("ledger.sqlite"));
    shown_as_left(&shell, &session, "the ledger is locked by another process");
    holder.release();
    assert_eq!(shell.tasks()[0]["outcome"]["verdict"], "failed");
    shell.assert_nothing_left();
}

#[test]
fn at_the_largest_size_of_its_ledger_nothing_new_is_taken_and_what_runs_settles() {
    let shell = Shell::with(Containment::Descent, "[ledger]\nmax_mib = 1");
    let daemon = shell.serve();
    let address = said(&shell, "and http://");
    let client = working(&shell, &["run", "--harness", "scripted", "--json", "say up ;; hang"]);
    let task = shell.tasks()[0]["id"].as_str().expect("id").to_owned();
    let flood = working(&shell, &["run", "--harness", "json", "--quiet", "flood 1000000"]);
    not_ready(&address, "largest size of 1 MiB");
    let refused = ends(&shell, &["run", "--harness", "scripted", "say no"]);
    assert_eq!(refused.code, 3, "{refused:?}");
    assert!(refused.stderr.contains("ledger.max_mib"), "{refused:?}");
    let cancelled = ends(&shell, &["task", "cancel", &task]);
    assert_eq!(cancelled.code, 0, "{cancelled:?}");
    let done = finish(client, "the cancelled task settles");
    assert_eq!((done.code, &done.json()["evidence"]["proof"]), (130, &"tree_empty".into()), "{done:?}");
    not_ready(&address, "largest size of 1 MiB");
    signal(&daemon, Signal::SIGTERM);
    finish(daemon, "the daemon ends");
    finish(flood, "the client of what is too much ends");
    shell.marker.assert_gone(Duration::from_secs(10));
    let path = shell.path().join("ostler.toml");
    let config = std::fs::read_to_string(&path).expect("readable").replace("max_mib = 1", "max_mib = 64");
    std::fs::write(path, config).expect("written");
    let daemon = shell.serve();
    assert!(shell.tasks().iter().all(|task| task["state"] == "settled"), "{:?}", shell.tasks());
    assert_eq!(shell.run("say again").code, 0);
    shell.end(daemon);
}
