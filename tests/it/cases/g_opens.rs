//! Opens that are killed or cancelled on their way.

use std::time::Duration;

use ostler::door::{Door, Remote};
use ostler::ledger::{SqliteLedger, SqliteOptions};
use ostler_supervisors::contract::{CancelCause, TaskId, Verdict};
use ostler_supervisors::ledger::Ledger;

use super::socket::{block_on, delegate, door, open_session};
use super::{app_server, finish, kill, settled, text};
use crate::support::kernel::wait_until;
use crate::support::shell::{Shell, assert_whole};

const ROUNDS: u64 = 20;

/// The daemon is killed at one instant after another of an open; the session can be used afterwards.
fn killed_while_it_opens(harness: &str, step: u64, prompts: [&str; 2]) {
    let shell = Shell::new();
    app_server::add(&shell, &[]);
    let mut daemon = shell.serve();
    for round in 0..ROUNDS {
        let session = block_on(open_session(&shell, harness)).to_string();
        let before = shell.received();
        let client = shell.spawn(&["run", "--session", &session, "--json", prompts[0]]);
        wait_until(Duration::from_secs(20), "it is accepted", || {
            if shell.tasks().iter().any(|task| task["session"] == session.as_str()) {
                Ok(())
            } else {
                Err(String::new())
            }
        });
        std::thread::sleep(Duration::from_millis(round * step));
        kill(daemon);
        finish(client);
        daemon = shell.serve();
        let task = settled(&shell).into_iter().find(|task| task["session"] == session.as_str()).expect("known");
        assert_eq!(task["outcome"]["verdict"], "completed", "round {round}: {task}");
        assert_eq!(shell.received(), before + 1, "round {round}");
        // Its session may hear of the verdict a little later than whoever reads the ledger.
        assert_eq!(shell.ostler(&["task", "wait", text(&task, "id")]).code, 0);
        let next = shell.ostler(&["run", "--session", &session, "--json", prompts[1]]);
        assert_eq!(next.code, 0, "round {round}: {next:?}");
        assert_whole(&shell.events(&session));
    }
    shell.end(daemon);
}

#[test]
fn case_g9_a_program_that_was_starting_when_the_daemon_was_killed_leaves_a_usable_session() {
    killed_while_it_opens("scripted", 2, ["say up ;; sleep 30 ;; say end", "say next"]);
}

#[test]
fn case_g9_an_app_server_that_was_starting_when_the_daemon_was_killed_leaves_a_usable_session() {
    killed_while_it_opens("protocol", 6, ["accept ;; say up ;; finish", "accept ;; say next ;; finish"]);
}

/// Its verdict is that it was cancelled.
async fn cancelled(door: &Remote, task: &TaskId, what: &str) {
    let waited = tokio::time::timeout(Duration::from_secs(20), door.wait(task)).await.expect("a verdict in time");
    let outcome = waited.expect("a verdict").outcome.expect("an outcome");
    assert!(matches!(outcome.verdict, Verdict::Cancelled { .. }), "{what}: {outcome:?}");
}

/// A cancel this long after the task was accepted, a hundred times over twenty milliseconds.
fn cancelled_at_each_instant(harness: &str, [harmless, prompt]: [&str; 2]) {
    let shell = Shell::new();
    app_server::add(&shell, &[]);
    let daemon = shell.serve();
    block_on(async {
        let door = door(&shell).await;
        let session = open_session(&shell, harness).await;
        for round in 0..100 {
            if round % 3 == 0 {
                // A start that succeeds, so that each cancel meets a harness without a history.
                let task = delegate(&door, &session, harmless).await;
                door.wait(&task).await.expect("a verdict");
            }
            let task = delegate(&door, &session, prompt).await;
            tokio::time::sleep(Duration::from_micros(round * 200)).await;
            door.cancel(&task, CancelCause::Requested).await.expect("requested");
            cancelled(&door, &task, &format!("round {round}")).await;
        }
        assert_whole(&shell.events(session.as_str()));
    });
    shell.end(daemon);
}

#[test]
fn case_g13_a_program_is_cancelled_at_each_instant_of_its_start() {
    cancelled_at_each_instant("scripted", ["say hi", "say up ;; hang"]);
}

#[test]
fn case_g13_an_app_server_is_cancelled_at_each_instant_of_its_start() {
    cancelled_at_each_instant("protocol", ["accept ;; finish", "accept ;; say up ;; hang"]);
}

/// Somebody else finds a task by the list, and cancels it before whoever asked for it was answered.
#[test]
fn case_g13_a_cancel_from_elsewhere_meets_a_task_that_is_only_just_accepted() {
    let shell = Shell::new();
    let daemon = shell.serve();
    block_on(async {
        let (ours, theirs) = (door(&shell).await, door(&shell).await);
        let ledger = SqliteLedger::open(SqliteOptions::new(shell.state().join("ledger.sqlite"))).await.expect("opens");
        for round in 0..50 {
            let session = open_session(&shell, "scripted").await;
            if round % 3 == 0 {
                let task = delegate(&ours, &session, "say hi").await;
                ours.wait(&task).await.expect("a verdict");
            }
            let cancel = async {
                let task = loop {
                    let found = ledger.tasks(Some(&session)).await.expect("readable");
                    if let Some(task) = found.into_iter().find(|task| task.outcome.is_none()) {
                        break task.id;
                    }
                };
                theirs.cancel(&task, CancelCause::Requested).await.expect("requested");
            };
            let (task, ()) = tokio::join!(delegate(&ours, &session, "say up ;; hang"), cancel);
            cancelled(&ours, &task, &format!("round {round}")).await;
        }
    });
    shell.end(daemon);
}

#[test]
fn case_g13_a_limit_that_is_over_during_the_start_is_kept() {
    let shell = Shell::new();
    for round in 0..20 {
        let limit = format!("{}ms", 1 + round);
        let done = shell.ostler(&["run", "--harness", "scripted", "--json", "--timeout", &limit, "say up ;; hang"]);
        assert_eq!((done.code, &done.json()["outcome"]["cause"]), (5, &"timeout".into()), "{limit}: {done:?}");
        assert_eq!(shell.marker.alive(), vec![], "{limit}");
    }
    shell.assert_nothing_left();
}

/// What was cancelled while it started has not failed: the harness is as good as before.
#[test]
fn case_g13_cancelled_starts_are_no_failures_of_the_harness() {
    let shell = Shell::new();
    let daemon = shell.serve();
    block_on(async {
        let door = door(&shell).await;
        for round in 0..20 {
            let session = open_session(&shell, "scripted").await;
            let task = delegate(&door, &session, "say up ;; hang").await;
            tokio::time::sleep(Duration::from_micros(round * 50)).await;
            door.cancel(&task, CancelCause::Requested).await.expect("requested");
            cancelled(&door, &task, &format!("round {round}")).await;
        }
    });
    let innocent = shell.run("say hi");
    assert_eq!((innocent.code, &innocent.json()["output"]), (0, &"hi\n".into()), "{innocent:?}");
    shell.end(daemon);
}
