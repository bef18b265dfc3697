//! A part of the tree that fails is started again, and what it was at goes on.

use std::time::Duration;

use crate::support::kernel::wait_until;
use crate::support::shell::{Shell, assert_whole};

/// The journal panics in mid-work, and takes everybody who writes through it along.
#[test]
fn after_a_panic_of_the_journal_the_work_goes_on() {
    for instant in [3, 9, 14, 20, 31] {
        let shell = Shell::new();
        let daemon = shell.serve_with(&[("OSTLER_PANIC_AT", &format!("journal:{instant}"))]);
        let script = "say begin ;; stream 20 16 20 ;; say end";
        let runs: Vec<_> = (0..3).map(|_| shell.spawn(&["run", "--harness", "json", "--quiet", script])).collect();
        // Whoever asked at that instant is told that he was interrupted, or finds his task by its id.
        runs.into_iter().for_each(|run| drop(run.wait_with_output()));
        let tasks = wait_until(Duration::from_secs(30), "every task is settled", || {
            let tasks = shell.tasks();
            if tasks.iter().all(|task| task["outcome"].is_object()) { Ok(tasks) } else { Err(format!("{tasks:?}")) }
        });
        for task in &tasks {
            let events = shell.events(task["session"].as_str().expect("id"));
            assert_eq!(task["outcome"]["verdict"], "completed", "at {instant}: {task}\n{events:#?}");
            assert!(task["outcome"]["output"]["text"].as_str().is_some_and(|text| text.ends_with("end")), "{task}");
            assert_whole(&events);
        }
        assert_eq!(shell.received(), tasks.len(), "at {instant}: a task was given twice, or not at all");
        assert_eq!(shell.run("say after").json()["outcome"]["verdict"], "completed", "at {instant}");
        let said = std::fs::read_to_string(shell.path().join("daemon.log")).expect("readable");
        assert!(said.contains("OSTLER_PANIC_AT"), "at {instant}: it did not panic: {said}");
        shell.end(daemon);
    }
}

/// What was configured when a task began may be gone when the next daemon finds it.
#[test]
fn a_task_of_a_harness_that_is_configured_no_more_is_ended_and_settled() {
    let shell = Shell::new();
    let mut daemon = shell.serve();
    let run = shell.spawn(&["run", "--harness", "json", "spawn setsid ;; say up ;; hang"]);
    wait_until(Duration::from_secs(20), "it works", || if shell.received() == 1 { Ok(()) } else { Err(String::new()) });
    daemon.kill().expect("killed");
    daemon.wait().expect("reaped");
    drop(run.wait_with_output());
    let path = shell.path().join("ostler.toml");
    let config = std::fs::read_to_string(&path).expect("readable");
    std::fs::write(&path, config.replace("harness.json", "harness.other")).expect("written");
    let daemon = shell.serve();
    let task = wait_until(Duration::from_secs(30), "it is settled", || {
        let task = shell.tasks().remove(0);
        if task["outcome"].is_object() { Ok(task) } else { Err(task.to_string()) }
    });
    assert_eq!(task["outcome"]["verdict"], "unresolved", "{task}");
    assert_eq!(task["outcome"]["reason"], "OBSERVATION_LOST", "{task}");
    shell.marker.assert_gone(Duration::from_secs(20));
    shell.end(daemon);
}
