//! A session whose last task has no known end takes none, until that end is proven.

use std::time::Duration;

use serde_json::Value;

use super::{app_server, configure, received, settled, text};
use crate::support::kernel::wait_until;
use crate::support::shell::{Shell, assert_whole};

/// An agent that takes longer to die than it is given after SIGKILL: its end is not known when the verdict is due.
fn shell() -> Shell {
    let shell = Shell::new();
    app_server::add(&shell, &[("BALLAST_MIB", "600"), ("DEAF", "1")]);
    configure(&shell, |config| config.replace("terminate = \"200ms\"", "terminate = \"0ms\"\nkill = \"0ms\""));
    shell
}

/// Blocks a session whose harness can go on from its own store. A processor that is busy elsewhere may let the agent die
/// in time after all: then it is another session's turn.
fn blocked(shell: &Shell) -> Value {
    for _ in 0..10 {
        let before = shell.received();
        let first = shell.ostler(&["run", "--harness", "protocol", "--json", "accept ;; say one ;; finish"]);
        assert_eq!(first.code, 0, "{first:?}");
        let session = text(&first.json(), "session").to_owned();
        let run = shell.spawn(&["run", "--session", &session, "--json", "accept ;; say up ;; hang"]);
        received(shell, before + 2);
        let task = shell.tasks()[0].clone();
        assert_eq!(task["session"], session.as_str());
        for _ in 0..2 {
            assert_eq!(shell.ostler(&["task", "cancel", text(&task, "id")]).code, 0);
        }
        run.wait_with_output().expect("ends");
        let row = settled(shell)[0].clone();
        if row["outcome"]["verdict"] == "unresolved" {
            return row;
        }
        assert_eq!(row["outcome"]["verdict"], "cancelled", "{row}");
    }
    panic!("it always died in time");
}

fn kinds(shell: &Shell, session: &str) -> Vec<String> {
    shell.events(session).iter().map(|event| text(event, "type").to_owned()).collect()
}

#[test]
fn a_block_is_lifted_when_the_end_is_proven_after_all() {
    let shell = shell();
    let mut daemon = shell.serve();
    let row = blocked(&shell);
    let session = text(&row, "session");
    assert_eq!(row["outcome"]["reason"], "CANCELLATION_UNCONFIRMED", "{row}");
    wait_until(Duration::from_secs(20), "the block is lifted", || {
        let kinds = kinds(&shell, session);
        if kinds.iter().any(|kind| kind == "ostler.context.unblocked") { Ok(()) } else { Err(format!("{kinds:?}")) }
    });
    let told = kinds(&shell, session);
    let place = |kind: &str| told.iter().rposition(|told| told == kind).unwrap_or_else(|| panic!("{kind}: {told:?}"));
    assert!(place("ostler.context.blocked") < place("ostler.runtime.closed"));
    assert!(place("ostler.runtime.closed") < place("ostler.context.unblocked"));
    // A daemon that reads it from the ledger knows as much.
    shell.end(daemon);
    daemon = shell.serve();
    for _ in 0..2 {
        let next = shell.ostler(&["run", "--session", session, "--json", "accept ;; say again ;; finish"]);
        assert_eq!((next.code, text(&next.json(), "output")), (0, "again"), "{next:?}");
    }
    assert_whole(&shell.events(session));
    shell.end(daemon);
    shell.assert_nothing_left();
}
