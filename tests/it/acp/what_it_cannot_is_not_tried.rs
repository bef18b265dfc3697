//! An agent that is declared to be able to do less than its adapter.

use nix::sys::signal::Signal;

use super::{configure, finish, history, is, output, received, run, running, session, start, verdict};
use crate::support::kernel::is_alive;
use crate::support::shell::{Containment, Shell, signal};

/// With all that its adapter can, but for this.
fn without(capability: &str) -> Shell {
    let shell = Shell::with(Containment::Descent, "");
    configure(&shell, &[("OSTLER_AGENT_HISTORY", &history(&shell))]);
    declare(&shell, "acp", &format!("{capability} = false"));
    shell
}

fn declare(shell: &Shell, harness: &str, capability: &str) {
    let path = shell.path().join("ostler.toml");
    let config = std::fs::read_to_string(&path).expect("readable");
    std::fs::write(path, format!("{config}[harness.{harness}.capabilities]\n{capability}\n")).expect("written");
}

#[test]
fn a_model_that_nobody_can_choose_is_refused_before_anything_starts() {
    let shell = without("model");
    let refused = shell.ostler(&["run", "--harness", "acp", "--model", "other", "say hi"]);
    assert_eq!(refused.code, 3, "{refused:?}");
    assert!(refused.stderr.contains("harness acp lets nobody choose its model"), "{refused:?}");
    let first = run(&shell, "deny", "say one");
    let next = shell.ostler(&["run", "--session", &session(&first), "--model", "other", "say two"]);
    assert_eq!((next.code, next.stderr.contains("lets nobody choose its model")), (3, true), "{next:?}");
    assert_eq!((shell.tasks().len(), shell.received()), (1, 1), "nothing was accepted, nothing was started");
    shell.assert_nothing_left();
}

/// Rules 7: it could neither ask nor be declined.
#[test]
fn an_agent_that_never_asks_is_given_only_what_allows_everything() {
    let shell = without("approvals");
    for approve in ["ask", "deny"] {
        let refused = run(&shell, approve, "say hi");
        assert_eq!(refused.code, 3, "{refused:?}");
        let said = "harness acp asks for nothing before it does it";
        assert!(refused.stderr.contains(said) && refused.stderr.contains("--approve allow"), "{refused:?}");
    }
    assert_eq!((shell.tasks().len(), shell.received()), (0, 0), "nothing was accepted, nothing was started");
    assert_eq!(verdict(&run(&shell, "allow", "say hi")), is(0, "completed", "end_report"));
    shell.assert_nothing_left();
}

#[test]
fn a_plain_command_is_given_no_model_in_silence() {
    let shell = Shell::new();
    let refused = shell.ostler(&["run", "--harness", "scripted", "--model", "other", "say hi"]);
    assert_eq!((refused.code, shell.received()), (3, 0), "{refused:?}");
    assert!(refused.stderr.contains("harness scripted lets nobody choose its model"), "{refused:?}");
}

#[test]
fn an_agent_that_cannot_be_interrupted_is_stopped_at_once() {
    let shell = without("cancel");
    let daemon = shell.serve();
    let child = start(&shell, "say so far ;; stream 1000 10 20");
    received(&shell, 1);
    let agent = running(&shell, "play-agent");
    signal(&child, Signal::SIGINT);
    let done = finish(child);
    assert_eq!(verdict(&done), is(130, "cancelled", "tree_empty"), "{done:?}");
    assert!(!is_alive(agent));
    shell.end(daemon);
    shell.assert_nothing_left();
}

#[test]
fn an_agent_that_cannot_go_on_begins_anew_and_says_so() {
    let shell = without("resume");
    let first = run(&shell, "deny", "say one");
    let shown = shell.ostler(&["session", "show", &session(&first), "--json"]).json();
    assert_eq!(shown["session"]["native"]["resumable"], false, "{shown}");
    let next = shell.ostler(&["run", "--session", &session(&first), "--json", "say two"]);
    assert_eq!((verdict(&next), output(&next)), (is(0, "completed", "end_report"), "two".to_owned()), "{next:?}");
    let events = shell.events(&session(&first));
    let opened: Vec<_> = events.iter().filter(|event| event["type"] == "ostler.runtime.opened").collect();
    assert_eq!(opened[1]["data"]["resume"], "fresh-session");
    let stored = std::fs::read_dir(shell.path().join("history")).expect("a folder").count();
    assert_eq!(stored, 2, "the second is a session of its own");
    shell.assert_nothing_left();
}

#[test]
fn a_claim_beyond_the_adapter_is_a_mistake_of_the_configuration() {
    let shell = Shell::new();
    declare(&shell, "scripted", "resume = true");
    let checked = shell.ostler(&["config", "check"]);
    assert_eq!(checked.code, 2, "{checked:?}");
    let told = "harness.scripted.capabilities says more than its adapter can: it does not go on with a session";
    assert!(checked.stderr.contains(told) || checked.stdout.contains(told), "{checked:?}");
}
