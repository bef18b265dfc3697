//! `ostler demo`: every agent ends as it has to, and nothing is left of any of them.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::support::kernel::wait_until;
use crate::support::shell::{Done, Shell, signal};

/// With its folder where it can be found.
fn demo(shell: &Shell, arguments: &[&str]) -> Command {
    let mut command = shell.command(&[&["demo"], arguments].concat());
    command.env("TMPDIR", shell.work());
    command
}

/// Processes of a demo of this shell, by their environment alone.
fn processes(shell: &Shell) -> Vec<i32> {
    let mark = format!("OSTLER_DEMO={}", shell.work().display());
    let of_demo = |pid: &i32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable.starts_with(mark.as_bytes()))
    };
    let entries = std::fs::read_dir("/proc").expect("readable");
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).filter(of_demo).collect()
}

fn assert_nothing_left(shell: &Shell) {
    assert_eq!(processes(shell), Vec::<i32>::new());
    assert_eq!(std::fs::read_dir(shell.work()).expect("readable").count(), 0, "its folder is gone");
}

#[test]
fn every_verdict_is_as_it_has_to_be_and_nothing_is_left() {
    let shell = Shell::new();
    let done: Done = demo(&shell, &["--json", "--runtimes", "24"]).output().expect("runs").into();
    assert_eq!((done.code, done.stderr.as_str()), (0, ""), "{done:?}");
    let report = done.json();
    assert_eq!((&report["as_expected"], &report["left"]), (&24.into(), &serde_json::json!([])));
    let agents = report["agents"].as_array().expect("a list");
    for verdict in ["completed", "failed", "cancelled", "unresolved"] {
        assert!(agents.iter().any(|agent| agent["verdict"] == verdict), "{verdict}: {report}");
    }
    assert!(agents.iter().all(|agent| agent["evidence"]["proof"].is_string()), "{report}");
    assert_nothing_left(&shell);
    assert!(!shell.state().exists(), "what the user has is left alone");
}

#[test]
fn a_person_gets_a_table() {
    let shell = Shell::new();
    let done: Done = demo(&shell, &["--runtimes", "3"]).output().expect("runs").into();
    assert_eq!(done.code, 0, "{done:?}");
    let heads: Vec<_> = done.stdout.lines().nth(1).unwrap_or_default().split_whitespace().collect();
    assert_eq!(heads, ["AGENT", "VERDICT", "EVIDENCE", "PROCESSES", "TOOK"]);
    assert!(done.stdout.contains("3 of 3 verdicts as they had to be"), "{done:?}");
    assert!(done.stdout.contains("left behind: 0 processes"), "{done:?}");
    assert!(done.stderr.contains("works with a tool: completed"), "{done:?}");
}

#[test]
fn interrupted_in_the_middle_it_leaves_as_little() {
    let shell = Shell::new();
    let child: Child = demo(&shell, &["--json"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("runs");
    wait_until(Duration::from_secs(20), "agents are at work", || match processes(&shell).len() {
        few if few < 4 => Err(few.to_string()),
        _ => Ok(()),
    });
    signal(&child, Signal::SIGINT);
    let done: Done = child.wait_with_output().expect("ends").into();
    assert_eq!(done.code, 130, "{done:?}");
    assert_nothing_left(&shell);
}
