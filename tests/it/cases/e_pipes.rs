//! Pipes that somebody else holds, or that nobody reads yet.

use super::{configure, everywhere_with};
use crate::acp;
use crate::support::programs;
use crate::support::shell::Shell;

/// What reads a program's version waits for its end, and not for whoever else has its output.
#[test]
fn case_e19_a_version_is_read_although_a_child_holds_the_output() {
    let script = "export MARK=@MARK@; setsid -f sleep 1000; sleep 1000 & echo version 1.0";
    let harness =
        format!("[harness.probed]\nadapter = \"oneshot\"\ncommand = [\"sh\"]\nversion = [\"-c\", {script:?}]\n");
    everywhere_with(&harness, |shell| {
        for verb in [&["doctor"][..], &["harness", "show", "probed"]] {
            let done = shell.ostler(verb);
            assert!(done.code == 0 && done.stdout.contains("version 1.0"), "{done:?}");
            assert_eq!(shell.marker.alive(), vec![], "left by {verb:?}");
        }
    });
}

/// An agent that speaks ACP, behind a shell that does this first.
fn behind(shell: &Shell, first: &str) {
    acp::configure(shell, &[]);
    let plain = programs::agent(&["acp"]);
    let script = format!("{first}; exec \"$0\" \"$@\"");
    let wrapped: Vec<_> = ["sh", "-c", &script].map(Into::into).into_iter().chain(plain.clone()).collect();
    configure(shell, |config| {
        let config = config.replace(&format!("command = {plain:?}"), &format!("command = {wrapped:?}"));
        config.replace("ready = \"5s\"", "ready = \"3s\"")
    });
}

/// What is written before anybody reads is kept for whoever reads first.
#[test]
fn case_e21_an_agent_that_reads_late_has_lost_nothing() {
    let shell = Shell::new();
    behind(&shell, "sleep 1");
    let done = shell.ostler(&["run", "--harness", "acp", "--json", "say on"]);
    assert_eq!((done.code, done.json()["output"].as_str()), (0, Some("on")), "{done:?}");
    shell.assert_nothing_left();
}

/// What its wrapper has eaten cannot be given again; that it never became ready is said, within its deadline.
#[test]
fn case_e21_an_agent_whose_wrapper_eats_its_input_is_said_not_to_be_ready() {
    let shell = Shell::new();
    behind(&shell, "read eaten");
    let done = shell.ostler(&["run", "--harness", "acp", "--json", "say on"]);
    let outcome = done.json()["outcome"].clone();
    assert_eq!((done.code, outcome["verdict"].as_str()), (3, Some("failed")), "{done:?}");
    assert!(outcome["message"].as_str().is_some_and(|said| said.contains("not ready within its deadline")), "{done:?}");
    assert_eq!(shell.received(), 0);
    shell.assert_nothing_left();
}
