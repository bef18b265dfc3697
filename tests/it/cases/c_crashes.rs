//! Crashes, and states that lie.

use std::time::Duration;

use nix::sys::signal::Signal;

use crate::support::kernel::{is_alive, wait_until};
use crate::support::shell::{Done, Shell, assert_whole, signal};

#[test]
fn case_c4_what_was_accepted_before_its_start_is_run_by_the_next_daemon() {
    let shell = Shell::with(
        crate::support::shell::Containment::Descent,
        "[limits]\nstart_concurrency = 1\nmax_live_runtimes = 1\n",
    );
    let mut daemon = shell.serve();
    let first = shell.spawn(&["run", "--harness", "scripted", "say first ;; sleep 1500"]);
    wait_until(Duration::from_secs(20), "it runs", || if shell.received() == 1 { Ok(()) } else { Err(String::new()) });
    let second = shell.spawn(&["run", "--harness", "scripted", "say second"]);
    wait_until(Duration::from_secs(20), "it is accepted", || {
        if shell.tasks().len() == 2 { Ok(()) } else { Err(String::new()) }
    });
    daemon.kill().expect("killed");
    daemon.wait().expect("reaped");
    drop((first.wait_with_output(), second.wait_with_output()));
    let mut daemon = shell.serve();
    for task in shell.tasks() {
        let waited = shell.ostler(&["task", "wait", task["id"].as_str().expect("id"), "--json"]);
        assert_eq!(waited.json()["outcome"]["verdict"], "completed", "{waited:?}");
    }
    assert_eq!(shell.received(), 2, "each once");
    signal(&daemon, Signal::SIGTERM);
    daemon.wait().expect("ends");
    shell.assert_nothing_left();
}

#[test]
fn case_c8_an_agent_that_ends_before_its_first_line_has_one_terminal_event_and_it_is_last() {
    let shell = Shell::new();
    let done = shell.run("exit 1");
    assert_eq!(done.code, 1);
    let events = shell.events(done.json()["session"].as_str().expect("id"));
    assert_whole(&events);
    let of_run: Vec<_> = events.iter().filter(|event| event["run_id"].is_string()).collect();
    assert_eq!(of_run.last().expect("events")["type"], "run.failed");
}

#[test]
fn case_c10_every_end_is_typed() {
    let shell = Shell::new();
    for (script, exit) in [
        ("say x ;; exit 7", serde_json::json!({ "kind": "code", "code": 7 })),
        ("say x ;; crash 9", serde_json::json!({ "kind": "signal", "signal": 9, "core": false })),
        ("say x ;; crash 15", serde_json::json!({ "kind": "signal", "signal": 15, "core": false })),
        ("say x", serde_json::json!({ "kind": "code", "code": 0 })),
    ] {
        assert_eq!(shell.run(script).json()["evidence"]["exit"], exit, "{script}");
    }
}

#[test]
fn case_c15_silence_is_not_death() {
    let shell = Shell::new();
    let done = shell.run("sleep 3000 ;; say at last");
    assert_eq!((done.code, done.json()["output"].as_str()), (0, Some("at last\n")));
}

#[test]
fn case_c16_the_next_task_right_after_a_cancel_finds_a_clean_context() {
    let shell = Shell::new();
    let mut daemon = shell.serve();
    let child = shell.spawn(&["run", "--harness", "scripted", "--json", "spawn ignore-term ;; say up ;; hang"]);
    wait_until(Duration::from_secs(20), "it runs", || if shell.received() == 1 { Ok(()) } else { Err(String::new()) });
    signal(&child, Signal::SIGINT);
    let done: crate::support::shell::Done = child.wait_with_output().expect("ends").into();
    let session = done.json()["session"].as_str().expect("id").to_owned();
    let next = shell.ostler(&["run", "--session", &session, "--json", "say next"]);
    assert_eq!((next.code, next.json()["output"].as_str()), (0, Some("next\n")), "{next:?}");
    signal(&daemon, Signal::SIGTERM);
    daemon.wait().expect("ends");
    shell.assert_nothing_left();
}

/// The end of the agent meets the next task at every instant: the daemon stands still while it dies, and hears of both
/// at once.
#[test]
fn case_c6_an_agent_that_dies_as_it_gets_its_next_task_is_seen_to_have_died() {
    let shell = Shell::new();
    let mut daemon = shell.serve();
    let first = shell.ostler(&["run", "--harness", "warm", "--json", "say up"]);
    let session = first.json()["session"].as_str().expect("id").to_owned();
    for round in 0..100u64 {
        let alive = shell.marker.alive();
        let run = shell.spawn(&["run", "--session", &session, "--json", "--timeout", "10s", "say next"]);
        std::thread::sleep(Duration::from_micros(5000 + round * 250));
        signal(&daemon, Signal::SIGSTOP);
        for (agent, _) in alive.iter().filter(|(pid, _)| is_alive(*pid)) {
            nix::sys::signal::kill(nix::unistd::Pid::from_raw(*agent), Signal::SIGKILL).expect("it is warm");
            wait_until(Duration::from_secs(5), "it is dead", || {
                if is_alive(*agent) { Err(String::new()) } else { Ok(()) }
            });
        }
        signal(&daemon, Signal::SIGCONT);
        let done: Done = run.wait_with_output().expect("ends").into();
        // Completed before or after the death, or failed by it: and never a riddle until somebody gives up.
        assert!(done.code == 0 || done.code == 1, "round {round}: {done:?}, {:#?}", shell.events(&session));
    }
    signal(&daemon, Signal::SIGTERM);
    daemon.wait().expect("ends");
    shell.assert_nothing_left();
}
