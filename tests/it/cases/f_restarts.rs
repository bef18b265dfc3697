//! A question that is open while its daemon is killed.

use std::time::Duration;

use nix::sys::signal::Signal;
use ostler_supervisors::contract::ApprovalPolicy;

use super::socket::{block_on, delegate_with, door, open_session};
use super::{app_server, configure, kill, kill_keepers, settled, text};
use crate::support::kernel::wait_until;
use crate::support::shell::{Shell, assert_whole, signal};

const PROMPT: &str = "accept ;; ask item/commandExecution/requestApproval ;; await ;; say done ;; finish";

/// A task whose question is open: session, task, question.
fn asking(shell: &Shell) -> (String, String, String) {
    let (session, task) = block_on(async {
        let session = open_session(shell, "protocol").await;
        let task = delegate_with(&door(shell).await, &session, PROMPT, ApprovalPolicy::Ask).await;
        (session.to_string(), task.to_string())
    });
    let question = question(shell, &task);
    (session, task, question)
}

fn question(shell: &Shell, task: &str) -> String {
    wait_until(Duration::from_secs(30), "it asks", || {
        let shown = shell.ostler(&["task", "show", task, "--json"]);
        let open = shown.json()["open_interactions"][0]["id"].as_str().map(str::to_owned);
        open.ok_or(shown.stdout)
    })
}

#[test]
fn case_f8_a_question_of_an_app_server_is_answered_after_the_restart_and_once() {
    let shell = Shell::new();
    app_server::add(&shell, &[]);
    let daemon = shell.serve();
    let (session, task, first) = asking(&shell);
    kill(daemon);
    let daemon = shell.serve();
    assert_eq!(question(&shell, &task), first, "the same question");
    let answered = shell.ostler(&["task", "respond", &task, &first, "allow"]);
    assert_eq!(answered.code, 0, "{answered:?}");
    assert_eq!(text(&settled(&shell)[0]["outcome"], "verdict"), "completed");
    let answers = std::fs::read_to_string(shell.work().join("answers")).expect("answered");
    assert_eq!((answers.lines().count(), answers.contains("\"decision\": \"accept\"")), (1, true), "{answers}");
    let events = shell.events(&session);
    let of = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
    assert_eq!((of("approval.requested"), of("approval.resolved")), (1, 1), "{events:#?}");
    assert_whole(&events);
    shell.end(daemon);
}

/// Nobody comes back for it in time, or its keeper is killed too: it closes with the task, and says why.
#[test]
fn case_f8_a_question_whose_agent_is_gone_is_closed_with_its_reason() {
    for killed_keeper in [true, false] {
        let shell = Shell::new();
        app_server::add(&shell, &[]);
        configure(&shell, |config| config.replace("orphan_grace = \"20s\"", "orphan_grace = \"200ms\""));
        let daemon = shell.serve();
        let (session, task, first) = asking(&shell);
        // It must not see its keeper go and settle the task itself.
        signal(&daemon, Signal::SIGSTOP);
        if killed_keeper {
            kill_keepers(&shell);
        }
        kill(daemon);
        shell.marker.assert_gone(Duration::from_secs(20));
        let daemon = shell.serve();
        let verdict = if killed_keeper { "unresolved" } else { "failed" };
        assert_eq!(text(&settled(&shell)[0]["outcome"], "verdict"), verdict);
        let events = shell.events(&session);
        let closed: Vec<_> = events.iter().filter(|event| event["type"] == "approval.resolved").collect();
        assert_eq!(closed.len(), 1, "{events:#?}");
        assert_eq!(closed[0]["data"]["cleared"], "TASK_ENDED", "{events:#?}");
        assert_ne!(shell.ostler(&["task", "respond", &task, &first, "allow"]).code, 0);
        assert_whole(&events);
        shell.end(daemon);
    }
}
