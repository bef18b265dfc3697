//! Case B16: the end of a turn is not the end of a task while work of it is outstanding.

use std::time::Duration;

use nix::sys::signal::Signal;

use super::support::user;
use crate::support::kernel::{is_alive, wait_until};
use crate::support::shell::{Done, assert_whole, signal};
use crate::support::user::{verdict, word};

#[test]
fn a_task_ends_when_its_background_command_has_and_the_agent_was_told() {
    let user = user();
    let done = user.run(&["--approve", "allow", "do it in the background"]);
    assert_eq!(verdict(&done), (0, "completed".into(), "end_report".into()), "{done:?}");
    assert!(user.shell.work().join("done").exists(), "it was reported as completed before its command ended");
    let events = user.shell.events(word(&done.json(), "/session"));
    let results = events.iter().filter(|event| event["type"] == "adapter.claude.result").count();
    assert_eq!(results, 2, "its own turn, and the one that the command's end woke it for");
    assert_whole(&events);
    user.shell.assert_nothing_left();
}

/// What a subagent says is no answer; the turn that its end wakes the agent for is the last.
#[test]
fn a_task_ends_when_its_subagent_has_and_the_agent_was_told() {
    let user = user();
    let done = user.run(&["--approve", "allow", "ask a helper"]);
    assert_eq!(verdict(&done), (0, "completed".into(), "end_report".into()), "{done:?}");
    assert_eq!(word(&done.json(), "/output"), "the helper was asked");
    let asked = user.requests();
    let by_helper = asked.iter().filter(|request| request["last_user"] == "look into it").count();
    assert_eq!((asked.len(), by_helper), (4, 1), "its turn in two requests, the subagent's one, and the last turn");
    let events = user.shell.events(word(&done.json(), "/session"));
    let said = events.iter().filter(|event| event["data"]["role"] == "commentary");
    let said: Vec<_> = said.filter_map(|event| event["data"]["text"].as_str()).collect();
    assert_eq!(said, ["a helper has looked into it"]);
    assert_whole(&events);
    user.shell.assert_nothing_left();
}

#[test]
fn case_b6_a_cancel_between_turns_ends_the_background_command_and_keeps_the_runtime_warm() {
    let user = user();
    let daemon = user.shell.serve();
    let run = user.shell.spawn(&["run", "--harness", "claude", "--json", "--approve", "allow", "serve for ever"]);
    let tool = user.tools(1)[0];
    let session = user.shell.tasks()[0]["session"].as_str().expect("id").to_owned();
    wait_until(Duration::from_secs(60), "its turn is over", || {
        let over = user.shell.events(&session).iter().any(|event| event["type"] == "adapter.claude.result");
        if over { Ok(()) } else { Err("not yet".into()) }
    });
    signal(&run, Signal::SIGINT);
    let done: Done = run.wait_with_output().expect("ends").into();
    assert_eq!(verdict(&done), (130, "cancelled".into(), "end_report".into()), "{done:?}");
    assert!(!is_alive(tool), "the background command lives on");
    let events = user.shell.events(&session);
    let ended: Vec<_> = events.iter().filter(|event| event["type"] == "adapter.claude.background.ended").collect();
    assert!(ended.len() == 1 && ended[0]["data"]["status"] == "stopped", "{ended:#?}");
    let warm = user.own();
    assert_eq!(warm.len(), 1, "the runtime is warm");
    let next = user.shell.ostler(&["run", "--session", &session, "--json", "and now"]);
    assert_eq!(verdict(&next).1, "completed", "{next:?}");
    assert_eq!(user.own(), warm);
    user.shell.end(daemon);
}
