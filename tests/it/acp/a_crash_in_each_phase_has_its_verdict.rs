//! The agent ends without a word: before it is ready, in mid-turn, while it asks, and with success.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{configure, everywhere, finish, is, open_request, output, received, run, running, start, verdict};
use crate::support::shell::{Containment, Shell, signal};

#[test]
fn before_it_is_ready() {
    for script in ["exit 3", "crash 9", "exit 0", "close-stdout ;; exit 1"] {
        let shell = Shell::with(Containment::Descent, "");
        configure(&shell, &[("OSTLER_AGENT_START", script)]);
        let done = run(&shell, "deny", "say never");
        assert_eq!((verdict(&done), shell.received()), (is(3, "failed", "never_submitted"), 0), "{script}: {done:?}");
        shell.assert_nothing_left();
    }
}

#[test]
fn in_mid_turn() {
    everywhere(|shell| {
        for (script, expected) in [
            ("say half ;; exit 3", is(1, "failed", "tree_empty")),
            ("say half ;; crash 9", is(1, "failed", "tree_empty")),
            ("say half ;; spawn setsid ;; crash 11", is(1, "failed", "tree_empty")),
            ("say half ;; half {\"jsonrpc\" ;; exit 1", is(1, "failed", "tree_empty")),
            // Success that nobody reported proves nothing.
            ("say half ;; exit 0", is(4, "unresolved", "partial")),
        ] {
            let done = run(shell, "deny", script);
            assert_eq!((verdict(&done), output(&done)), (expected, "half".to_owned()), "{script}: {done:?}");
        }
    });
}

#[test]
fn in_mid_tool_the_tool_goes_with_it() {
    everywhere(|shell| {
        let child = start(shell, "tool sleep 1003");
        let tool = running(shell, "sleep 1003");
        kill(Pid::from_raw(running(shell, "play-agent")), Signal::SIGKILL).expect("killed");
        let done = finish(child);
        assert_eq!(verdict(&done), is(1, "failed", "tree_empty"), "{done:?}");
        assert_eq!(done.json()["evidence"]["exit"]["signal"], 9);
        assert!(!crate::support::kernel::is_alive(tool));
    });
}

#[test]
fn while_it_asks() {
    for containment in Containment::all() {
        let shell = Shell::with(containment, "");
        configure(&shell, &[]);
        let daemon = shell.serve();
        let child = start(&shell, "sleep 1000 ;; ask may I");
        received(&shell, 1);
        signal(&child, Signal::SIGSTOP);
        let (task, request) = open_request(&shell);
        kill(Pid::from_raw(running(&shell, "play-agent")), Signal::SIGKILL).expect("killed");
        let waited = shell.ostler(&["task", "wait", &task, "--json"]);
        assert_eq!(waited.code, 1, "{waited:?}");
        let late = shell.ostler(&["task", "respond", &task, &request, "allow", "--json"]);
        assert_ne!(late.code, 0, "{late:?}");
        signal(&child, Signal::SIGCONT);
        assert_eq!(verdict(&finish(child)), is(1, "failed", "tree_empty"));
        shell.end(daemon);
    }
}
