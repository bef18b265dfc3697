//! SIGKILL on the daemon in mid-turn of each agent, at several instants.

use std::process::Child;
use std::time::Duration;

use crate::support::agents::{Agent, CLAUDE, CLAUDE_AGENT_ACP, CODEX, GEMINI};
use crate::support::shell::assert_whole;
use crate::support::user::User;

/// How long the answer takes, in milliseconds.
const SPEECH: u64 = 2000;

fn kill(mut child: Child) {
    child.kill().expect("killed");
    child.wait().expect("reaped");
}

#[test]
fn of_codex() {
    running_turns_finish_after_the_restart_and_nothing_is_asked_twice(CODEX, 10);
}

#[test]
fn of_claude() {
    running_turns_finish_after_the_restart_and_nothing_is_asked_twice(CLAUDE, 5);
}

#[test]
fn of_gemini() {
    running_turns_finish_after_the_restart_and_nothing_is_asked_twice(GEMINI, 4);
}

#[test]
fn of_claude_agent_acp() {
    running_turns_finish_after_the_restart_and_nothing_is_asked_twice(CLAUDE_AGENT_ACP, 4);
}

fn running_turns_finish_after_the_restart_and_nothing_is_asked_twice(agent: Agent, rounds: u64) {
    let user = User::of(agent);
    for round in 0..rounds {
        let daemon = user.shell.serve();
        let before = user.requests().len();
        let mut run = user.start("slow please");
        user.asked(before + 1);
        // The instant is the point.
        std::thread::sleep(Duration::from_millis(round * SPEECH / rounds));
        kill(daemon);
        run.wait().expect("ends");
        let daemon = user.shell.serve();
        let task = user.shell.tasks()[0].clone();
        let waited = user.shell.ostler(&["task", "wait", task["id"].as_str().expect("id"), "--json"]);
        let outcome = &waited.json()["outcome"];
        assert_eq!((waited.code, outcome["evidence"]["proof"].as_str()), (0, Some("end_report")), "{waited:?}");
        assert_eq!(outcome["output"]["text"], "one two three four five six seven eight nine ten");
        assert_whole(&user.shell.events(task["session"].as_str().expect("id")));
        assert_eq!(user.requests().len(), before + 1, "asked once, and not twice");
        user.shell.end(daemon);
    }
    assert_eq!(user.shell.tasks().len() as u64, rounds);
}
