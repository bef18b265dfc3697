//! Every child is reaped, also one that was given up as lost.

use std::collections::HashSet;
use std::process::Child;
use std::time::Duration;

use ostler::door::{Door, Remote};
use ostler_supervisors::contract::{CancelCause, SessionId, TaskId};

use super::socket::{block_on, delegate, door, open_session};
use super::{configure, kill_keepers, received, settled};
use crate::support::kernel::{is_zombie, pids, wait_until};
use crate::support::shell::{Containment, Shell};

const HARNESSES: &str = "[harness.quick]\nadapter = \"oneshot\"\ncommand = [\"true\"]\nempty_ok = true\n\
     environment = { MARK = \"@MARK@\" }\n\
     [harness.silent]\nadapter = \"codex\"\ncommand = [\"sleep\", \"1000\"]\nenvironment = { MARK = \"@MARK@\" }\n\
     [harness.silent.deadlines]\nend_of_input = \"0ms\"\nterminate = \"500ms\"\n";

fn parent(pid: i32) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:\t"))?.parse().ok()
}

/// The zombies below a process, by the kernel's table alone.
fn zombies_below(root: &Child) -> Vec<i32> {
    let all = pids();
    let mut below = HashSet::from([root.id() as i32]);
    loop {
        let more: Vec<i32> = all
            .iter()
            .copied()
            .filter(|pid| !below.contains(pid) && parent(*pid).is_some_and(|parent| below.contains(&parent)))
            .collect();
        if more.is_empty() {
            return below.into_iter().filter(|pid| is_zombie(*pid)).collect();
        }
        below.extend(more);
    }
}

fn assert_none(daemon: &Child) {
    wait_until(Duration::from_secs(10), "no zombie is left", || {
        let found = zombies_below(daemon);
        if found.is_empty() { Ok(()) } else { Err(format!("{found:?}")) }
    });
}

async fn sessions(shell: &Shell, harness: &str, count: usize) -> Vec<SessionId> {
    let mut sessions = Vec::new();
    for _ in 0..count {
        sessions.push(open_session(shell, harness).await);
    }
    sessions
}

async fn one_each(door: &Remote, sessions: &[SessionId]) -> Vec<TaskId> {
    let mut tasks = Vec::new();
    for session in sessions {
        tasks.push(delegate(door, session, "x").await);
    }
    tasks
}

#[test]
fn case_j7_four_hundred_quick_exits_and_fifty_abandoned_opens_leave_no_zombie() {
    let shell = Shell::with(Containment::Descent, HARNESSES);
    let daemon = shell.serve();
    block_on(async {
        let door = door(&shell).await;
        let quick = sessions(&shell, "quick", 50).await;
        for _ in 0..8 {
            for task in one_each(&door, &quick).await {
                door.wait(&task).await.expect("a verdict");
            }
        }
        let silent = sessions(&shell, "silent", 50).await;
        let opens = one_each(&door, &silent).await;
        for task in &opens {
            door.cancel(task, CancelCause::Requested).await.expect("in force");
        }
        for task in &opens {
            door.wait(task).await.expect("a verdict");
        }
    });
    assert_none(&daemon);
    shell.end(daemon);
}

/// What a killed keeper owned becomes the daemon's child, and nobody asked for it.
#[test]
fn case_j7_what_killed_keepers_leave_is_waited_for() {
    let shell = Shell::new();
    configure(&shell, |config| format!("{config}[harness.scripted.restarts]\nfailures = 1000\n"));
    let daemon = shell.serve();
    for round in 1..=3 {
        let clients: Vec<_> = (0..5)
            .map(|_| shell.spawn(&["run", "--harness", "scripted", "spawn setsid ;; spawn sleep ;; say up ;; hang"]))
            .collect();
        received(&shell, round * 5);
        kill_keepers(&shell);
        clients.into_iter().for_each(|client| drop(super::finish(client)));
    }
    settled(&shell);
    assert_none(&daemon);
    shell.end(daemon);
}
