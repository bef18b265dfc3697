//! Cases from the field, by their numbers in the project's catalogue; each is one of a kind.

mod a_one_owner_per_context;
mod a_orphans;
mod a_owned_by_actors;
mod a_probes;
mod b_cancel;
mod b_codex;
mod b_contradictions;
mod c_crashes;
mod e_framing;
mod g_double_execution;

use std::process::Child;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::support::kernel::wait_until;
use crate::support::shell::{Containment, Done, Shell, signal};

/// With a control group leaf and without one; nothing is left either way.
fn everywhere(case: impl Fn(&Shell)) {
    everywhere_with("", case);
}

/// The same, with more lines of configuration.
fn everywhere_with(more: &str, case: impl Fn(&Shell)) {
    for containment in Containment::all() {
        let shell = Shell::with(containment, more);
        case(&shell);
        shell.assert_nothing_left();
    }
}

/// The same over a daemon, which ends in order.
fn everywhere_over_a_daemon(case: impl Fn(&Shell)) {
    everywhere(|shell| {
        let daemon = shell.serve();
        case(shell);
        end(daemon);
    });
}

/// Waits until so many processes of this user live.
fn population(shell: &Shell, at_least: usize) {
    wait_until(Duration::from_secs(30), "the processes are there", || {
        let alive = shell.marker.alive().len();
        if alive >= at_least { Ok(()) } else { Err(format!("{alive} of {at_least}")) }
    });
}

/// Waits until agents have received so many prompts.
fn received(shell: &Shell, count: usize) {
    wait_until(Duration::from_secs(30), "prompts are received", || {
        let received = shell.received();
        if received >= count { Ok(()) } else { Err(format!("{received} of {count}")) }
    });
}

fn finish(child: Child) -> Done {
    child.wait_with_output().expect("ends").into()
}

/// Ends a daemon as its service manager does.
fn end(mut daemon: Child) {
    signal(&daemon, Signal::SIGTERM);
    assert!(daemon.wait().expect("ends").success());
}

fn kill(mut child: Child) {
    child.kill().expect("killed");
    child.wait().expect("reaped");
}

fn session_of(done: &Done) -> String {
    done.json()["session"].as_str().expect("id").to_owned()
}

/// The task that was accepted last.
fn newest_task(shell: &Shell) -> String {
    shell.tasks()[0]["id"].as_str().expect("id").to_owned()
}

/// Whether a run was told that somebody else works in its session.
fn was_refused(done: &Done) -> bool {
    done.code == 3 && (done.stderr.contains("is busy with") || done.stderr.contains("belongs to another running"))
}
