//! An agent that delegates work itself: what it opened ends with it.

use std::time::Duration;

use nix::sys::signal::Signal;

use super::{everywhere, finish, received, settled, text};
use crate::support::programs;
use crate::support::shell::{Shell, signal};

/// A tool that delegates to another agent, through the daemon if there is one.
fn delegates(shell: &Shell, script: &str) -> String {
    let (config, state) = (shell.path().join("ostler.toml"), shell.state());
    let environment = format!("OSTLER_CONFIG={} OSTLER_STATE={}", config.display(), state.display());
    let ostler = programs::ostler();
    format!("env {environment} {} run --harness scripted --quiet '{script}'", ostler.display())
}

/// The parent's task is cancelled while its child's runs.
fn cancel_the_parent(shell: &Shell) {
    let child = delegates(shell, "hang");
    let parent = shell.spawn(&["run", "--harness", "scripted", "--json", &format!("tool {child}")]);
    received(shell, 2);
    signal(&parent, Signal::SIGINT);
    let done = finish(parent);
    assert_eq!((done.code, text(&done.json()["outcome"], "verdict")), (130, "cancelled"), "{done:?}");
    shell.marker.assert_gone(Duration::from_secs(20));
    let tasks = settled(shell);
    assert_eq!(tasks.len(), 2, "{tasks:?}");
}

#[test]
fn case_a12_a_session_that_an_agent_opened_by_itself_ends_with_its_own() {
    everywhere(cancel_the_parent);
}

#[test]
fn case_a12_a_session_that_an_agent_opened_at_the_daemon_is_cancelled_with_its_own() {
    everywhere(|shell| {
        let daemon = shell.serve();
        cancel_the_parent(shell);
        let verdicts: Vec<_> = settled(shell).iter().map(|task| text(&task["outcome"], "verdict").to_owned()).collect();
        assert_eq!(verdicts, ["cancelled", "cancelled"]);
        super::end(daemon);
    });
}
