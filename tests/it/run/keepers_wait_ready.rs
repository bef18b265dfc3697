//! `serve` has keepers ready: used, replaced, and gone with it; one that was killed while it waited costs nothing.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::kernel::{Marker, wait_until};
use crate::support::shell::{Containment, Shell};

fn keepers(shell: &Shell) -> Vec<i32> {
    let all = Marker::of(shell.path()).alive();
    all.into_iter().filter(|(_, line)| line.contains("ostler-keeper")).map(|(pid, _)| pid).collect()
}

fn waiting(shell: &Shell, count: usize) -> Vec<i32> {
    wait_until(Duration::from_secs(10), "so many keepers wait", || {
        let found = keepers(shell);
        if found.len() == count { Ok(found) } else { Err(format!("{found:?}")) }
    })
}

#[test]
fn the_one_that_waits_is_taken_and_another_takes_its_place() {
    let shell = Shell::with(Containment::Descent, "[limits]\nspare_keepers = 1\n");
    let daemon = shell.serve();
    let spare = waiting(&shell, 1)[0];
    let mut run = shell.spawn(&["run", "--harness", "scripted", "say up ;; hang"]);
    let row = wait_until(Duration::from_secs(10), "it runs", || {
        let rows = shell.ostler(&["ps", "--json"]).json();
        if rows[0]["root_pid"].is_i64() { Ok(rows[0].clone()) } else { Err(rows.to_string()) }
    });
    assert_eq!(row["keeper_pid"], spare, "{row}");
    waiting(&shell, 2);
    shell.end(daemon);
    run.wait().expect("ends");
}

#[test]
fn one_that_was_killed_while_it_waited_is_not_taken() {
    let shell = Shell::with(Containment::Descent, "[limits]\nspare_keepers = 1\n");
    let mut daemon = shell.serve();
    let spare = waiting(&shell, 1)[0];
    kill(Pid::from_raw(spare), Signal::SIGKILL).expect("sent");
    waiting(&shell, 0);
    let done = shell.run("say hi");
    assert_eq!(done.json()["outcome"]["verdict"], "completed", "{done:?}");
    daemon.kill().expect("killed");
    daemon.wait().expect("reaped");
    // A killed owner is no reason for a spare to stay.
    waiting(&shell, 0);
    shell.end(shell.serve());
}
