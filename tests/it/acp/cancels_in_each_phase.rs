//! A cancel while the agent speaks, works, asks, or does not listen.

use std::process::Child;
use std::time::Duration;

use nix::sys::signal::Signal;

use super::{everywhere, finish, is, open_request, output, over_a_daemon, received, running, session, start, verdict};
use crate::support::kernel::{is_alive, wait_until};
use crate::support::shell::{Done, Shell, signal};

fn cancel(child: Child) -> Done {
    signal(&child, Signal::SIGINT);
    finish(child)
}

#[test]
fn in_mid_stream_what_was_said_is_kept_and_the_agent_stays_warm() {
    over_a_daemon(|shell| {
        let child = start(shell, "say so far ;; stream 1000 10 20");
        received(shell, 1);
        let agent = running(shell, "play-agent");
        let done = cancel(child);
        assert_eq!(verdict(&done), is(130, "cancelled", "end_report"), "{done:?}");
        let next = shell.ostler(&["run", "--session", &session(&done), "--json", "say on"]);
        assert_eq!((verdict(&next), output(&next)), (is(0, "completed", "end_report"), "on".to_owned()), "{next:?}");
        assert_eq!(running(shell, "play-agent"), agent);
    });
}

#[test]
fn in_mid_tool_the_tool_is_gone_and_so_is_what_it_left() {
    everywhere(|shell| {
        let child = start(shell, "tool-left sleep 1001 ;; tool sleep 1002");
        let tools = [running(shell, "sleep 1001"), running(shell, "sleep 1002")];
        let done = cancel(child);
        assert_eq!(verdict(&done), is(130, "cancelled", "end_report"), "{done:?}");
        assert!(!tools.into_iter().any(is_alive));
    });
}

#[test]
fn what_is_only_on_its_way_into_a_session_of_its_own_is_gone_as_well() {
    over_a_daemon(|shell| {
        let child = start(shell, "spawn late-setsid ;; say up ;; hang");
        let left = running(shell, "late-setsid");
        let agent = running(shell, "acp ");
        let done = cancel(child);
        assert_eq!(verdict(&done), is(130, "cancelled", "end_report"), "{done:?}");
        assert!(!is_alive(left));
        assert!(is_alive(agent), "the runtime stayed warm");
    });
}

#[test]
fn an_agent_that_answers_late_is_waited_for_and_one_that_does_not_is_stopped() {
    everywhere(|shell| {
        for (script, proof) in
            [("late-cancel 500 ;; say x ;; hang", "end_report"), ("ignore-cancel ;; say x ;; hang", "tree_empty")]
        {
            let before = shell.received();
            let child = start(shell, script);
            received(shell, before + 1);
            // Steps that come before the wait have been taken once there is a word of them.
            wait_until(Duration::from_secs(20), "it speaks", || {
                let session = shell.tasks()[0]["session"].as_str().expect("an id").to_owned();
                let spoke = shell.events(&session).iter().any(|event| event["type"] == "message.delta");
                if spoke { Ok(()) } else { Err(String::new()) }
            });
            let done = cancel(child);
            assert_eq!(verdict(&done), is(130, "cancelled", proof), "{script}: {done:?}");
        }
    });
}

/// A run over the daemon whose client stands still, so that nobody answers: its open request, and the client.
fn unanswered(shell: &Shell, script: &str) -> (Child, String, String) {
    let before = shell.received();
    let child = start(shell, &format!("sleep 1000 ;; {script}"));
    received(shell, before + 1);
    signal(&child, Signal::SIGSTOP);
    let (task, request) = open_request(shell);
    (child, task, request)
}

#[test]
fn with_a_permission_open_the_agent_gets_its_answer_with_the_cancel() {
    over_a_daemon(|shell| {
        for script in ["ask may I ;; say x", "ask-foreign may I ;; say x", "ask-twice may I ;; say x"] {
            let (child, task, request) = unanswered(shell, script);
            let agent = running(shell, "play-agent");
            let cancelled = shell.ostler(&["task", "cancel", &task]);
            assert_eq!(cancelled.code, 0, "{cancelled:?}");
            signal(&child, Signal::SIGCONT);
            let done = finish(child);
            assert_eq!(verdict(&done), is(130, "cancelled", "end_report"), "{script}: {done:?}");
            assert_eq!(running(shell, "play-agent"), agent, "it was not stopped for it");
            // A late answer finds nothing to answer.
            let late = shell.ostler(&["task", "respond", &task, &request, "allow", "--json"]);
            assert_ne!(late.code, 0, "{late:?}");
            shell.ostler(&["session", "close", &session(&done)]);
        }
    });
}

#[test]
fn somebody_else_may_answer() {
    over_a_daemon(|shell| {
        for (decision, said) in [("allow", "allowed "), ("deny", "declined ")] {
            let (child, task, request) = unanswered(shell, "ask-foreign may I");
            let answered = shell.ostler(&["task", "respond", &task, &request, decision, "--json"]);
            assert_eq!(answered.code, 0, "{answered:?}");
            let again = shell.ostler(&["task", "respond", &task, &request, decision, "--json"]);
            assert_ne!(again.code, 0, "an answer is given once: {again:?}");
            signal(&child, Signal::SIGCONT);
            let done = finish(child);
            assert_eq!(
                (verdict(&done), output(&done)),
                (is(0, "completed", "end_report"), said.to_owned()),
                "{done:?}"
            );
        }
    });
}

#[test]
fn a_stop_as_the_answer_ends_the_task() {
    over_a_daemon(|shell| {
        let (child, task, request) = unanswered(shell, "ask may I ;; hang");
        let answered = shell.ostler(&["task", "respond", &task, &request, "cancel", "--json"]);
        assert_eq!(answered.code, 0, "{answered:?}");
        signal(&child, Signal::SIGCONT);
        let done = finish(child);
        assert_eq!(verdict(&done), is(130, "cancelled", "end_report"), "{done:?}");
    });
}
