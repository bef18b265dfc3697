//! Cancel: from the terminal, from another shell, by a closed terminal or output, gently and by force.

use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::support::kernel::wait_until;
use crate::support::shell::{Done, Shell, signal};

fn running(shell: &Shell) {
    wait_until(Duration::from_secs(20), "the agent runs", || {
        if shell.received() > 0 { Ok(()) } else { Err("no prompt received".into()) }
    });
}

fn finish(child: std::process::Child) -> Done {
    child.wait_with_output().expect("ends").into()
}

#[test]
fn ctrl_c_cancels_and_the_tree_is_empty() {
    let shell = Shell::new();
    let child = shell.spawn(&["run", "--harness", "scripted", "--json", "say up ;; spawn setsid ;; hang"]);
    running(&shell);
    signal(&child, Signal::SIGINT);
    let done = finish(child);
    assert_eq!(done.code, 130, "{done:?}");
    let json = done.json();
    assert_eq!((&json["outcome"]["cause"], &json["evidence"]["proof"]), (&"requested".into(), &"tree_empty".into()));
    shell.assert_nothing_left();
}

#[test]
fn a_second_ctrl_c_forces() {
    let shell = Shell::with(crate::support::shell::Containment::Descent, "");
    let config = std::fs::read_to_string(shell.path().join("ostler.toml")).expect("readable");
    let patient = config.replace("terminate = \"200ms\"", "terminate = \"60s\"");
    std::fs::write(shell.path().join("ostler.toml"), patient).expect("written");
    let child = shell.spawn(&["run", "--harness", "scripted", "spawn ignore-term ;; say up ;; hang"]);
    running(&shell);
    let asked = Instant::now();
    signal(&child, Signal::SIGINT);
    std::thread::sleep(Duration::from_millis(300));
    signal(&child, Signal::SIGINT);
    let done = finish(child);
    assert_eq!(done.code, 130, "{done:?}");
    assert!(asked.elapsed() < Duration::from_secs(20), "{:?}", asked.elapsed());
    shell.assert_nothing_left();
}

#[test]
fn a_hang_up_and_a_closed_output_cancel_cleanly() {
    let shell = Shell::new();
    let child = shell.spawn(&["run", "--harness", "scripted", "--json", "say up ;; hang"]);
    running(&shell);
    signal(&child, Signal::SIGHUP);
    let done = finish(child);
    assert_eq!((done.code, done.json()["outcome"]["cause"].as_str()), (130, Some("consumer_cancelled")));
    shell.assert_nothing_left();

    let mut child = shell
        .command(&["run", "--harness", "scripted", "--events", "stream 1000 20 20"])
        .stderr(Stdio::null())
        .spawn()
        .expect("runs");
    drop(child.stdout.take());
    let code = child.wait().expect("ends").code();
    assert_eq!(code, Some(130));
    shell.assert_nothing_left();
}

#[test]
fn another_shell_reaches_the_owner() {
    let shell = Shell::new();
    let child = shell.spawn(&["run", "--harness", "scripted", "--json", "say up ;; hang"]);
    running(&shell);
    let task = shell.tasks()[0]["id"].as_str().expect("id").to_owned();
    let asked = Instant::now();
    let cancelled = shell.ostler(&["task", "cancel", &task]);
    assert_eq!(cancelled.code, 0, "{cancelled:?}");
    assert!(asked.elapsed() < Duration::from_secs(20), "{:?}", asked.elapsed());
    let done = finish(child);
    assert_eq!(done.code, 130, "{done:?}");
    let again = shell.ostler(&["task", "cancel", &task]);
    assert!(again.stdout.contains("settled already: cancelled"), "{again:?}");
    shell.assert_nothing_left();
}

#[test]
fn at_any_moment_of_the_start() {
    let shell = Shell::new();
    for round in 0..40u64 {
        let child = shell.spawn(&["run", "--harness", "scripted", "--json", "say up ;; hang"]);
        std::thread::sleep(Duration::from_millis(15 + round * 2));
        signal(&child, Signal::SIGINT);
        let done = finish(child);
        // Before it took signals, it ended by this one like any program.
        assert!(done.code == 130 || done.code == -2, "round {round}: {done:?}");
    }
    for task in shell.tasks() {
        assert_eq!(task["outcome"]["verdict"], "cancelled", "{task}");
    }
    shell.assert_nothing_left();
}

#[test]
fn while_output_keeps_coming() {
    let shell = Shell::new();
    let mut command = shell.command(&["run", "--harness", "scripted", "--events", "flood 20000000"]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("runs");
    running(&shell);
    std::thread::sleep(Duration::from_millis(500));
    signal(&child, Signal::SIGINT);
    let done = finish(child);
    assert_eq!(done.code, 130, "{done:?}");
    let task = shell.tasks()[0].clone();
    assert_eq!(
        (&task["outcome"]["verdict"], &task["outcome"]["evidence"]["proof"]),
        (&"cancelled".into(), &"tree_empty".into())
    );
    shell.assert_nothing_left();
}

#[test]
fn while_the_ledger_is_locked_before_anything_is_accepted() {
    let shell = Shell::new();
    assert_eq!(shell.run("say x").code, 0);
    let mut holder = std::process::Command::new("python3")
        .args(["-c", LOCK])
        .arg(shell.state().join("ledger.sqlite"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3");
    let mut held = [0];
    std::io::Read::read_exact(holder.stdout.as_mut().expect("piped"), &mut held).expect("locked");
    let child = shell.spawn(&["run", "--harness", "scripted", "say never"]);
    std::thread::sleep(Duration::from_millis(300));
    signal(&child, Signal::SIGINT);
    std::thread::sleep(Duration::from_millis(100));
    signal(&child, Signal::SIGINT);
    let asked = Instant::now();
    let done = finish(child);
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    assert_eq!((done.code, shell.received()), (130, 1), "{done:?}");
    drop(holder.stdin.take());
    holder.wait().expect("ends");
    shell.assert_nothing_left();
}

const LOCK: &str = "
import sqlite3, sys
ledger = sqlite3.connect(sys.argv[1], isolation_level=None)
ledger.execute('BEGIN IMMEDIATE')
print('x', flush=True)
sys.stdin.read()
";
