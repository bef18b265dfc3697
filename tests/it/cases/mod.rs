//! Cases from the field, by their numbers in the project's catalogue; each is one of a kind.

mod a_hang_ups;
mod a_hibernation;
mod a_model_switches;
mod a_nested;
mod a_one_owner_per_context;
mod a_orphans;
mod a_owned_by_actors;
mod a_probes;
mod a_shims;
mod a_unseen;
mod app_server;
mod b_blocks;
mod b_cancel;
mod b_codex;
mod b_contradictions;
mod b_pi;
mod c_answers;
mod c_crashes;
mod c_pi;
mod c_stalled_readers;
mod c_verdicts;
mod e_colours;
mod e_encodings;
mod e_framing;
mod e_pipes;
mod f_questions;
mod f_refusals;
mod f_restarts;
mod g_attempts;
mod g_closes;
mod g_double_execution;
mod g_exits;
mod g_opens;
mod h_admission;
mod h_defaults;
mod h_ended_sessions;
mod h_limits;
mod h_spawns;
mod j_identity;
mod j_limits;
mod j_many_at_once;
mod j_ports;
mod j_reaping;
mod j_storms;
mod j_terminals;
pub(crate) mod socket;

use std::process::Child;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::kernel::{Marker, wait_until};
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

/// Waits until every task has its verdict, and gives them.
fn settled(shell: &Shell) -> Vec<Value> {
    wait_until(Duration::from_secs(30), "every task is settled", || {
        let tasks = shell.tasks();
        if tasks.iter().all(|task| task["outcome"].is_object()) { Ok(tasks) } else { Err(format!("{tasks:?}")) }
    })
}

/// The text of a member that is one.
fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value[member].as_str().expect("a text")
}

fn is_terminal(event: &Value) -> bool {
    matches!(event["type"].as_str(), Some("run.completed" | "run.failed" | "run.cancelled"))
}

/// SIGKILL on every keeper of this user.
fn kill_keepers(shell: &Shell) {
    let keepers = Marker::of(&shell.state()).alive().into_iter().filter(|(_, line)| line.contains("ostler-keeper"));
    let killed = keepers.map(|(pid, _)| sigkill(pid)).count();
    assert!(killed > 0, "no keeper was found");
}

/// SIGKILL by id.
fn sigkill(pid: i32) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), Signal::SIGKILL).expect("killed");
}

/// Changes what is configured.
fn configure(shell: &Shell, change: impl FnOnce(String) -> String) {
    let path = shell.path().join("ostler.toml");
    let config = std::fs::read_to_string(&path).expect("readable");
    std::fs::write(path, change(config)).expect("written");
}
