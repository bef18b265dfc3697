//! Requests of a kind that nobody here can answer.

use std::time::Duration;

use serde_json::Value;

use super::{app_server, text};
use crate::acp;
use crate::support::kernel::wait_until;
use crate::support::shell::{Done, Shell};

/// The task went on, somebody was told, and nobody was asked.
fn assert_refused(shell: &Shell, done: &Done) {
    let json = done.json();
    assert_eq!((done.code, text(&json, "output")), (0, "on"), "{done:?}");
    let events = shell.events(text(&json, "session"));
    let refused = |event: &&Value| {
        event["type"] == "ostler.warning" && text(&event["data"], "message").contains("of unknown kind")
    };
    assert_eq!(events.iter().filter(refused).count(), 1, "{events:#?}");
    assert!(!events.iter().any(|event| event["type"] == "approval.requested"), "{events:#?}");
}

/// The scripted agent waits for its answer before it says the next word.
#[test]
fn case_f6_a_request_of_an_acp_agent_that_nobody_knows_is_refused_whoever_decides() {
    let shell = Shell::new();
    acp::configure(&shell, &[]);
    for approve in ["allow", "deny", "ask"] {
        let prompt = "ask-unknown x ;; say on";
        let done = shell.ostler(&["run", "--harness", "acp", "--json", "--approve", approve, prompt]);
        let said = text(&done.json(), "output").to_owned();
        assert_eq!(said, "declined on", "{done:?}");
        let shown = Done { stdout: done.stdout.replace("declined on", "on"), ..done };
        assert_refused(&shell, &shown);
    }
    shell.assert_nothing_left();
}

#[test]
fn case_f6_a_question_tool_of_an_app_server_is_refused_whoever_decides() {
    for approve in ["allow", "deny", "ask"] {
        let shell = Shell::new();
        app_server::add(&shell, &[]);
        let prompt = "accept ;; ask item/tool/requestUserInput ;; await ;; say on ;; finish";
        let done = shell.ostler(&["run", "--harness", "protocol", "--json", "--approve", approve, prompt]);
        assert_refused(&shell, &done);
        let answer = wait_until(Duration::from_secs(10), "it is answered", || {
            std::fs::read_to_string(shell.work().join("answers")).map_err(|error| error.to_string())
        });
        let answer: Value = serde_json::from_str(answer.trim()).expect("one answer");
        assert_eq!(answer["error"]["code"], -32601, "{answer}");
        shell.assert_nothing_left();
    }
}
