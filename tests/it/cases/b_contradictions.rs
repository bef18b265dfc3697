//! Ends that contradict each other or the cancel: the first of documented meaning is the verdict, once.

use serde_json::Value;

use super::{everywhere_over_a_daemon, finish, newest_task, received};
use crate::support::shell::{Done, Shell, assert_whole};

/// Until the file is there; a cancel ends it only where it is heeded.
const GATE: &str = "tool while ! test -e go; do sleep 0.01; done";
const ERROR: &str = r#"noise {"method":"error","params":{"turnId":"turn-1","willRetry":false,"error":{"message":"overheated","codexErrorInfo":"badRequest"}}}"#;
const COMPLETED: &str = r#"noise {"method":"turn/completed","params":{"turn":{"id":"turn-1","status":"completed"}}}"#;

/// The agent passes its gate after the cancel is in force, and then says this.
fn after_a_cancel(shell: &Shell, then: &str) -> Done {
    let script = format!("ignore-cancel ;; say up ;; {GATE} ;; {then}");
    let run = shell.spawn(&["run", "--harness", "warm", "--json", &script]);
    received(shell, 1);
    assert_eq!(shell.ostler(&["task", "cancel", &newest_task(shell)]).code, 0);
    std::fs::write(shell.work().join("go"), "").expect("written");
    finish(run)
}

/// The events of a run that has this terminal event, and no other.
fn ends_once(shell: &Shell, done: &Done, terminal: &str) -> Vec<Value> {
    let events = shell.events(done.json()["session"].as_str().expect("id"));
    assert_whole(&events);
    let is_terminal = |kind: &&str| matches!(*kind, "run.completed" | "run.failed" | "run.cancelled");
    let kinds: Vec<_> = events.iter().filter_map(|event| event["type"].as_str()).filter(is_terminal).collect();
    assert_eq!(kinds, [terminal], "{done:?}");
    events
}

#[test]
fn case_b8_completed_after_a_cancel_stays_completed() {
    everywhere_over_a_daemon(|shell| {
        let done = after_a_cancel(shell, "say done");
        assert_eq!((done.code, &done.json()["evidence"]["cancel_requested"]), (0, &true.into()), "{done:?}");
        ends_once(shell, &done, "run.completed");
    });
}

#[test]
fn case_b8_an_error_just_before_cancelled_is_the_end() {
    everywhere_over_a_daemon(|shell| {
        let done = after_a_cancel(shell, &format!("{ERROR} ;; end interrupted"));
        assert_eq!((done.code, &done.json()["outcome"]["kind"]), (1, &"PROVIDER".into()), "{done:?}");
        ends_once(shell, &done, "run.failed");
    });
}

#[test]
fn case_b9_of_two_stop_reasons_the_first_is_the_end() {
    everywhere_over_a_daemon(|shell| {
        let done = after_a_cancel(shell, &format!("{COMPLETED} ;; end interrupted"));
        assert_eq!(done.code, 0, "{done:?}");
        ends_once(shell, &done, "run.completed");
    });
}

#[test]
fn case_b9_the_second_stop_reason_is_not_that_of_the_next_task() {
    everywhere_over_a_daemon(|shell| {
        let first =
            shell.ostler(&["run", "--harness", "warm", "--json", &format!("{COMPLETED} ;; sleep 200 ;; end failed")]);
        assert_eq!(first.code, 0, "{first:?}");
        let session = first.json()["session"].as_str().expect("id").to_owned();
        let next = shell.ostler(&["run", "--session", &session, "--json", "sleep 400 ;; say next"]);
        assert_eq!((next.code, next.json()["output"].as_str()), (0, Some("next")), "{next:?}");
    });
}
