//! Nothing runs twice.

use std::time::Duration;

use nix::sys::signal::Signal;

use crate::support::kernel::wait_until;
use crate::support::shell::{Done, Shell, signal};

#[test]
fn case_g5_of_many_at_once_in_one_context_one_runs_and_the_others_are_told() {
    let shell = Shell::new();
    let mut daemon = shell.serve();
    let session = shell.run("say first").json()["session"].as_str().expect("id").to_owned();
    let runs: Vec<_> =
        (0..20).map(|_| shell.spawn(&["run", "--session", &session, "--json", "say up ;; sleep 3000"])).collect();
    let done: Vec<Done> = runs.into_iter().map(|run| run.wait_with_output().expect("ends").into()).collect();
    let completed = done.iter().filter(|done| done.code == 0).count();
    let busy = done.iter().filter(|done| done.code == 3 && done.stderr.contains("is busy with")).count();
    assert_eq!((completed, busy), (1, 19), "{done:?}");
    assert_eq!(shell.received(), 2);
    signal(&daemon, Signal::SIGTERM);
    daemon.wait().expect("ends");
    shell.assert_nothing_left();
}

#[test]
fn case_g6_no_new_tree_in_a_context_before_the_old_one_is_proven_empty() {
    let shell = Shell::new();
    let mut daemon = shell.serve();
    let child = shell.spawn(&["run", "--harness", "scripted", "--json", "spawn ignore-term ;; say up ;; hang"]);
    wait_until(Duration::from_secs(20), "it runs", || if shell.received() == 1 { Ok(()) } else { Err(String::new()) });
    signal(&child, Signal::SIGINT);
    let first: Done = child.wait_with_output().expect("ends").into();
    let session = first.json()["session"].as_str().expect("id").to_owned();
    assert_eq!(shell.marker.alive(), vec![], "the verdict came before the proof");
    let next = shell.ostler(&["run", "--session", &session, "--json", "say end"]);
    assert_eq!(next.json()["output"], "end\n", "{next:?}");
    signal(&daemon, Signal::SIGTERM);
    daemon.wait().expect("ends");
    shell.assert_nothing_left();
}

#[test]
fn two_daemons_on_one_store_are_refused_clearly() {
    let shell = Shell::new();
    let mut daemon = shell.serve();
    let second = shell.ostler(&["serve"]);
    assert_eq!(second.code, 3, "{second:?}");
    assert!(second.stderr.contains("another `ostler serve` has this store"), "{second:?}");
    signal(&daemon, Signal::SIGTERM);
    daemon.wait().expect("ends");
}
