//! What clients are told, and what is left, when the daemon closes, dies or stands still.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::support::kernel::wait_until;
use crate::support::shell::{Done, Shell, signal};

fn finish(child: Child) -> Done {
    child.wait_with_output().expect("ends").into()
}

fn received(shell: &Shell, count: usize) {
    wait_until(Duration::from_secs(20), "prompts are received", || {
        let received = shell.received();
        if received >= count { Ok(()) } else { Err(format!("{received}")) }
    });
}

fn descriptors(of: &Child) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", of.id())).expect("lives").count()
}

#[test]
fn a_closing_daemon_accepts_nothing_and_leaves_nothing() {
    let shell = Shell::new();
    let mut daemon = shell.serve();
    // Its ladder is climbed to the end, which leaves time to ask for more.
    let slow = shell.spawn(&["run", "--harness", "scripted", "spawn ignore-term ;; say x ;; hang"]);
    received(&shell, 1);
    signal(&daemon, Signal::SIGTERM);
    let mut late = Vec::new();
    while daemon.try_wait().expect("a child").is_none() {
        if late.len() < 40 {
            late.push(shell.spawn(&["run", "--harness", "scripted", "say late ;; hang"]));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(finish(slow).code, 130);
    for mut client in late {
        // One that came after the end has a tree of its own.
        signal(&client, Signal::SIGTERM);
        client.wait().expect("ends");
    }
    shell.assert_nothing_left();
}

#[test]
fn a_client_of_a_killed_daemon_is_told_that_the_end_is_not_known() {
    let shell = Shell::new();
    let mut daemon = shell.serve();
    let client = shell.spawn(&["run", "--harness", "scripted", "say x ;; hang"]);
    received(&shell, 1);
    daemon.kill().expect("killed");
    daemon.wait().expect("reaped");
    let done = finish(client);
    assert_eq!(done.code, 4, "{done:?}");
    assert!(done.stderr.contains("ostler task show task_"), "{done:?}");
    let daemon = shell.serve();
    let cancelled = shell.ostler(&["task", "cancel", shell.tasks()[0]["id"].as_str().expect("id")]);
    assert_eq!(cancelled.code, 0, "{cancelled:?}");
    shell.end(daemon);
}

#[test]
fn a_client_of_a_daemon_that_stands_still_hears_signals() {
    let shell = Shell::new();
    let mut daemon = shell.serve();
    signal(&daemon, Signal::SIGSTOP);
    let client = shell.spawn(&["run", "--harness", "scripted", "say x"]);
    std::thread::sleep(Duration::from_millis(300));
    signal(&client, Signal::SIGINT);
    let at = Instant::now();
    let done = finish(client);
    assert!(at.elapsed() < Duration::from_secs(5), "{:?}", at.elapsed());
    assert!(done.code == 4 || done.code == 130, "{done:?}");
    signal(&daemon, Signal::SIGCONT);
    signal(&daemon, Signal::SIGTERM);
    daemon.wait().expect("ends");
}

#[test]
fn whoever_cancels_at_a_daemon_that_stands_still_may_go() {
    let shell = Shell::new();
    let mut daemon = shell.serve();
    let mut client = shell.spawn(&["run", "--harness", "scripted", "say x ;; hang"]);
    received(&shell, 1);
    signal(&daemon, Signal::SIGSTOP);
    wait_until(Duration::from_secs(20), "the client gives up", || match client.try_wait().expect("a child") {
        Some(_) => Ok(()),
        None => {
            // Each is heard; what comes faster than that is one to the kernel.
            signal(&client, Signal::SIGINT);
            std::thread::sleep(Duration::from_millis(50));
            Err("it waits for its answer".into())
        }
    });
    let done = finish(client);
    assert_eq!(done.code, 4, "{done:?}");
    assert!(done.stderr.contains("ostler task show task_"), "{done:?}");
    signal(&daemon, Signal::SIGCONT);
    signal(&daemon, Signal::SIGTERM);
    daemon.wait().expect("ends");
    shell.assert_nothing_left();
}

#[test]
fn readers_that_went_away_cost_nothing() {
    let shell = Shell::new();
    let daemon = shell.serve();
    let done = shell.run("say x");
    let session = done.json()["session"].as_str().expect("id").to_owned();
    let before = descriptors(&daemon);
    for _ in 0..30 {
        let mut reader = shell.command(&["events", &session, "--follow"]).stdout(Stdio::piped()).spawn().expect("runs");
        let mut first = [0];
        std::io::Read::read_exact(reader.stdout.as_mut().expect("piped"), &mut first).expect("an event");
        reader.kill().expect("killed");
        reader.wait().expect("reaped");
    }
    wait_until(Duration::from_secs(10), "their connections are closed", || {
        let now = descriptors(&daemon);
        if now <= before + 2 { Ok(()) } else { Err(format!("{before}, then {now}")) }
    });
    shell.end(daemon);
}
