//! `ostler demo`: every agent ends as it has to, and nothing is left of any of them.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::support::kernel::wait_until;
use crate::support::programs;
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
    // Whoever ran was at least one process.
    assert!(agents.iter().all(|agent| agent["most_processes"].as_u64() >= Some(1)), "{report}");
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

const INTERRUPTED: &str = "ostler: interrupted; left behind: 0 processes, as the kernel shows them\n";

/// A keeper that has said its last word takes its time to be gone.
const SLOW_KEEPER: &str = "#!/bin/sh\nexec 3<&0 0</dev/null\n@KEEPER@ <&3 3<&- &\nexec 3<&-\nwait\nexec sleep 0.5\n";

#[test]
fn its_own_keepers_are_gone_before_it_counts() {
    let shell = Shell::new();
    let (own, keeper) = (shell.path().join("ostler"), shell.path().join("ostler-keeper"));
    std::fs::copy(programs::ostler(), &own).expect("copied");
    let real = programs::ostler().with_file_name("ostler-keeper");
    std::fs::write(&keeper, SLOW_KEEPER.replace("@KEEPER@", &real.display().to_string())).expect("written");
    std::fs::set_permissions(&keeper, Permissions::from_mode(0o755)).expect("changed");
    let asked = demo(&shell, &["--json", "--runtimes", "3"]);
    let mut command = Command::new(&own);
    command.args(asked.get_args()).current_dir(shell.work());
    for (name, value) in asked.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let done: Done = command.output().expect("runs").into();
    assert_eq!(done.json()["left"], serde_json::json!([]), "{done:?}");
    assert_eq!(done.code, 0, "{done:?}");
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
    assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("", INTERRUPTED), "{done:?}");
    assert_nothing_left(&shell);
}
