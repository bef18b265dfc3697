//! What becomes of an answer whose daemon was killed, or whose agent does not listen.

use std::process::Child;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;

use super::{app_server, end, finish, kill, newest_task, received, settled, text};
use crate::support::kernel::wait_until;
use crate::support::shell::{Shell, signal};

fn show(shell: &Shell, task: &str) -> Value {
    shell.ostler(&["task", "show", task, "--json"]).json()
}

fn touch(shell: &Shell, name: &str) {
    std::fs::write(shell.work().join(name), "").expect("written");
}

/// A task that asks once its client, who would answer, was stopped.
fn asked(shell: &Shell, script: &str) -> (Child, String, String) {
    let client = shell.spawn(&["run", "--harness", "protocol", "--json", "--approve", "allow", script]);
    received(shell, 1);
    signal(&client, Signal::SIGSTOP);
    touch(shell, "stopped");
    let task = newest_task(shell);
    let request = wait_until(Duration::from_secs(20), "it asks", || {
        let shown = show(shell, &task);
        shown["open_interactions"][0]["id"].as_str().map(str::to_owned).ok_or_else(|| shown.to_string())
    });
    (client, task, request)
}

#[test]
fn one_that_nobody_can_hear_is_not_delivered_and_its_request_stays_open() {
    let shell = Shell::new();
    app_server::add(&shell, &[]);
    let daemon = shell.serve();
    let (client, task, request) = asked(&shell, "accept ;; deaf ;; until stopped ;; request may I ;; hang");
    for _ in 0..2 {
        let answered = shell.ostler(&["task", "respond", &task, &request, "allow"]);
        assert!(answered.code == 3 && answered.stderr.contains("was not delivered"), "{answered:?}");
        assert_eq!(show(&shell, &task)["open_interactions"][0]["id"], request.as_str());
    }
    signal(&client, Signal::SIGCONT);
    shell.end(daemon);
    finish(client);
}

#[test]
fn it_is_given_once_and_recorded_as_what_it_was() {
    let shell = Shell::new();
    app_server::add(&shell, &[]);
    let daemon = shell.serve();
    let script = "accept ;; until stopped ;; request may I ;; hear ;; until go ;; resolved ;; say done ;; finish";
    let (client, task, request) = asked(&shell, script);
    let answer = shell.spawn(&["task", "respond", &task, &request, "allow"]);
    let heard = || std::fs::read_to_string(shell.work().join("heard")).unwrap_or_default();
    wait_until(Duration::from_secs(20), "it is heard", || if heard().is_empty() { Err(String::new()) } else { Ok(()) });
    kill(daemon);
    signal(&client, Signal::SIGCONT);
    finish(client);
    finish(answer);
    let daemon = shell.serve();
    assert_eq!(show(&shell, &task)["open_interactions"], Value::Array(vec![]), "it was answered");
    let again = shell.ostler(&["task", "respond", &task, &request, "deny"]);
    assert!(again.code == 3 && again.stderr.contains("no such open request"), "{again:?}");
    touch(&shell, "go");
    let settled = &settled(&shell)[0];
    assert_eq!((text(&settled["outcome"], "verdict"), heard().as_str()), ("completed", "accept\n"), "{settled}");
    let events = shell.events(text(settled, "session"));
    let resolved = events.iter().filter(|event| event["type"] == "approval.resolved").map(|event| &event["data"]);
    let decisions: Vec<_> = resolved.map(|data| &data["decision"]["decision"]).collect();
    assert_eq!(decisions, ["approve_once"], "{events:#?}");
    end(daemon);
    shell.assert_nothing_left();
}
