//! SIGKILL on the owner under load, at random instants: no task missing, none run twice, nothing left.

use std::process::Child;
use std::time::Duration;

use crate::support::kernel::wait_until;
use crate::support::shell::{Shell, assert_whole};

/// How often the owner is killed, by each way to have one.
const ROUNDS: u64 = 100;

/// A pseudo-random number, so that a failing round can be told by its number.
fn roll(round: u64, sides: u64) -> u64 {
    (round.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407) >> 33) % sides
}

fn kill(child: &mut Child) {
    child.kill().expect("killed");
    child.wait().expect("reaped");
}

/// Each prompt names itself, so that the agent's own log tells which were received, and how often.
fn script(number: u64) -> String {
    format!("say task-{number} ;; stream 12 16 10 ;; tool echo tool-{number} ;; say end-{number}")
}

fn received(shell: &Shell, number: u64) -> usize {
    let log = std::fs::read_to_string(&shell.log).unwrap_or_default();
    let mark = format!("say task-{number} ");
    log.lines().filter(|line| line.contains(&mark)).count()
}

#[test]
fn case_c1_of_serve_at_a_hundred_instants() {
    let shell = Shell::new();
    let mut accepted = Vec::new();
    let mut number = 0;
    for round in 0..ROUNDS {
        let mut daemon = shell.serve();
        let mut runs = Vec::new();
        for _ in 0..4 {
            let log = std::fs::File::create(shell.path().join(format!("out-{number}"))).expect("made");
            let mut command = shell.command(&["run", "--harness", "json", "--events", &script(number)]);
            runs.push((number, command.stdout(log).stderr(std::process::Stdio::null()).spawn().expect("runs")));
            number += 1;
        }
        std::thread::sleep(Duration::from_millis(20 + roll(round, 250)));
        kill(&mut daemon);
        for (number, mut run) in runs {
            run.wait().expect("ends");
            // A client that saw any event of its task has had it accepted.
            let seen = std::fs::read_to_string(shell.path().join(format!("out-{number}"))).expect("readable");
            if seen.contains("run.started") {
                accepted.push(number);
            }
        }
    }
    let daemon = shell.serve();
    settle(&shell);
    check(&shell, &accepted, number);
    for task in shell.tasks() {
        // An agent that went on, or one that was started again because it had received nothing.
        let verdict = task["outcome"]["verdict"].as_str().unwrap_or_default();
        let events = || shell.events(task["session"].as_str().expect("id"));
        let log = std::fs::read_to_string(&shell.log).unwrap_or_default();
        assert_eq!(verdict, "completed", "{task}\n{:#?}\n{log}", events());
    }
    shell.end(daemon);
}

#[test]
fn case_c1_of_run_at_a_hundred_instants() {
    let shell = Shell::new();
    for round in 0..ROUNDS {
        let mut run = shell
            .command(&["run", "--harness", "json", "--events", &script(round)])
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("runs");
        std::thread::sleep(Duration::from_millis(10 + roll(round, 250)));
        kill(&mut run);
    }
    settle(&shell);
    check(&shell, &[], ROUNDS);
    shell.assert_nothing_left();
}

fn settle(shell: &Shell) {
    wait_until(Duration::from_secs(60), "every task is settled", || {
        let open: Vec<_> = shell.tasks().into_iter().filter(|task| task["outcome"].is_null()).collect();
        if open.is_empty() { Ok(()) } else { Err(format!("{open:?}")) }
    });
}

fn check(shell: &Shell, accepted: &[u64], numbers: u64) {
    let tasks = shell.tasks();
    let known = |number: u64| {
        let mark = format!("say task-{number} ");
        tasks.iter().find(|task| task["delegation"]["prompt"].as_str().is_some_and(|prompt| prompt.contains(&mark)))
    };
    for number in accepted {
        assert!(known(*number).is_some(), "task {number} was accepted and is missing");
    }
    for number in 0..numbers {
        let times = received(shell, number);
        assert!(times <= 1, "task {number} was submitted {times} times");
        if let Some(task) = known(number) {
            let completed = task["outcome"]["verdict"] == "completed";
            assert!(!completed || times == 1, "task {number} completed without having been received");
        } else {
            assert_eq!(times, 0, "task {number} ran and nobody knows of it");
        }
    }
    for task in &tasks {
        let events = shell.events(task["session"].as_str().expect("id"));
        assert_whole(&events);
        let terminals = events
            .iter()
            .filter(|event| matches!(event["type"].as_str(), Some("run.completed" | "run.failed" | "run.cancelled")));
        assert_eq!(terminals.count(), 1, "{task}");
    }
}

/// A reader that started before the kill, and goes on after it from where it was, has every event exactly once.
#[test]
fn a_reader_across_a_kill_has_every_event_exactly_once() {
    let shell = Shell::new();
    let mut daemon = shell.serve();
    let mut run = shell.spawn(&["run", "--harness", "json", "--events", "stream 100 16 10 ;; say end"]);
    let session = wait_until(Duration::from_secs(20), "it runs", || {
        let task = shell.tasks().first().cloned().ok_or("none")?;
        if shell.received() == 1 { Ok(task["session"].as_str().expect("id").to_owned()) } else { Err("not yet".into()) }
    });
    let first = shell.spawn(&["events", &session, "--follow"]);
    std::thread::sleep(Duration::from_millis(300));
    kill(&mut daemon);
    run.wait().expect("ends");
    let first = first.wait_with_output().expect("the reader ends with the daemon");
    let mut events: Vec<serde_json::Value> =
        String::from_utf8_lossy(&first.stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let daemon = shell.serve();
    settle(&shell);
    let from = (events.len() + 1).to_string();
    let rest = shell.ostler(&["events", &session, "--from", &from]);
    events.extend(rest.stdout.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON")));
    assert_whole(&events);
    assert_eq!(events, shell.events(&session));
    shell.end(daemon);
}

/// What a killed run left is looked after while the next one starts: neither hinders the other.
#[test]
fn of_run_just_before_an_innocent_one() {
    let shell = Shell::new();
    for round in 0..40u64 {
        let mut killed = shell.spawn(&["run", "--harness", "scripted", "say x ;; sleep 60"]);
        std::thread::sleep(Duration::from_millis(20 + roll(round, 100)));
        kill(&mut killed);
        let innocent = shell.run("say hi");
        assert_eq!(innocent.code, 0, "round {round}: {innocent:?}");
    }
    shell.tasks();
    shell.assert_nothing_left();
}

/// A store that was being made when its maker was killed is made by the next one.
#[test]
fn of_the_first_run_of_all() {
    for round in 0..40u64 {
        let shell = Shell::new();
        let mut killed = shell.spawn(&["run", "--harness", "scripted", "say x"]);
        std::thread::sleep(Duration::from_millis(8 + round));
        kill(&mut killed);
        let next = shell.run("say hi");
        assert_eq!(next.code, 0, "round {round}: {next:?}");
    }
}
