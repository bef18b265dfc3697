//! Replacing a runtime closes the old one first.

use super::{app_server, everywhere_over_a_daemon, text};
use crate::support::shell::Shell;

/// The agents that live now.
fn agents(shell: &Shell) -> Vec<i32> {
    let alive = shell.marker.alive();
    alive.iter().filter(|(_, line)| line.ends_with("app-server ")).map(|(pid, _)| *pid).collect()
}

#[test]
fn case_a14_twenty_switches_of_the_model_leave_one_tree() {
    everywhere_over_a_daemon(|shell| {
        let first = shell.ostler(&["run", "--harness", "warm", "--json", "say one"]);
        assert_eq!(first.code, 0, "{first:?}");
        let session = text(&first.json(), "session").to_owned();
        let mut before = agents(shell);
        for number in 0..20 {
            let model = format!("model-{number}");
            let done = shell.ostler(&["run", "--session", &session, "--model", &model, "--json", "say next"]);
            assert_eq!(done.code, 0, "{done:?}");
            let now = agents(shell);
            assert_eq!(now.len(), 1, "{now:?}");
            assert_ne!(now, before, "the model is that of a new process");
            before = now;
        }
        // The same model again is no switch.
        let same = shell.ostler(&["run", "--session", &session, "--model", "model-19", "--json", "say same"]);
        assert_eq!((same.code, agents(shell)), (0, before), "{same:?}");
        let shown = shell.ostler(&["session", "show", &session, "--json"]).json();
        assert_eq!(shown["session"]["spec"]["model"], "model-19", "{shown}");
        let events = shell.events(&session);
        let order: Vec<_> = events
            .iter()
            .map(|event| text(event, "type"))
            .filter(|kind| ["ostler.runtime.opened", "ostler.runtime.closed"].contains(kind))
            .collect();
        assert_eq!(order.len(), 41, "{order:?}");
        assert!(order.iter().enumerate().all(|(at, kind)| kind.ends_with(if at % 2 == 0 {
            "opened"
        } else {
            "closed"
        })));
    });
}

#[test]
fn a_session_that_its_harness_has_not_stored_keeps_its_model() {
    let shell = Shell::new();
    app_server::add(&shell, &[]);
    let daemon = shell.serve();
    // Nothing was said in it yet, so nothing is on a disk; its agent lives.
    let first = shell.ostler(&["run", "--harness", "protocol", "--json", "refuse not now"]);
    assert_eq!(first.code, 1, "{first:?}");
    let session = text(&first.json(), "session").to_owned();
    let refused = shell.ostler(&["run", "--session", &session, "--model", "other", "accept ;; finish"]);
    assert_eq!(refused.code, 3, "{refused:?}");
    assert!(refused.stderr.contains("cannot change its model"), "{refused:?}");
    let kept = shell.ostler(&["run", "--session", &session, "--json", "accept ;; say as before ;; finish"]);
    assert_eq!((kept.code, text(&kept.json(), "output")), (0, "as before"), "{kept:?}");
    // By now it has: what it knows is not lost by a new process.
    let other = shell.ostler(&["run", "--session", &session, "--model", "other", "--json", "accept ;; finish"]);
    assert_eq!(other.code, 0, "{other:?}");
    shell.end(daemon);
    shell.assert_nothing_left();
}
