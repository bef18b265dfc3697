//! SIGKILL: on Pi, on the daemon in mid-turn, and on `run`.

use std::process::Child;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::support::{User, verdict};
use crate::support::kernel::is_alive;
use crate::support::shell::{Done, assert_whole};

fn sigkill(mut child: Child) {
    child.kill().expect("killed");
    child.wait().expect("reaped");
}

/// By itself it would leave its tool.
#[test]
fn one_from_outside_is_a_failure_with_its_signal_and_takes_the_tool_along() {
    let user = User::new();
    let run = user.start("work long");
    let tool = user.tool();
    kill(Pid::from_raw(user.agents()[0]), Signal::SIGKILL).expect("killed");
    let done: Done = run.wait_with_output().expect("ends").into();
    assert_eq!(verdict(&done), (1, "failed".into(), "tree_empty".into()), "{done:?}");
    assert_eq!(done.json()["evidence"]["exit"]["signal"], 9);
    assert!(!is_alive(tool), "its tool outlived it");
    user.shell.assert_nothing_left();
}

#[test]
fn running_turns_finish_after_the_daemons_restart_and_nothing_is_asked_twice() {
    let user = User::new();
    for round in 0..4u64 {
        let daemon = user.shell.serve();
        let before = user.requests().len();
        let mut run = user.start("slow please");
        user.asked(before + 1);
        std::thread::sleep(Duration::from_millis(round * 613 % 2100));
        sigkill(daemon);
        run.wait().expect("ends");
        let daemon = user.shell.serve();
        let task = user.shell.tasks()[0].clone();
        let waited = user.shell.ostler(&["task", "wait", task["id"].as_str().expect("id"), "--json"]);
        assert_eq!(
            (waited.code, waited.json()["outcome"]["evidence"]["proof"].as_str()),
            (0, Some("end_report")),
            "{waited:?}"
        );
        let output = waited.json()["outcome"]["output"]["text"].as_str().unwrap_or_default().to_owned();
        assert_eq!(output, "one two three four five six seven eight nine ten");
        assert_whole(&user.shell.events(task["session"].as_str().expect("id")));
        assert_eq!(user.requests().len(), before + 1, "asked once, and not twice");
        user.shell.end(daemon);
    }
    assert_eq!(user.shell.tasks().len(), 4);
}

/// Its own end at the end of its input would leave the tool.
#[test]
fn a_killed_run_leaves_no_tool_and_is_collected_by_the_next_process() {
    let user = User::new();
    let run = user.start("work long");
    let tool = user.tool();
    sigkill(run);
    let task = user.shell.tasks()[0].clone();
    assert_eq!(
        (&task["outcome"]["verdict"], &task["outcome"]["evidence"]["proof"]),
        (&"failed".into(), &"tree_empty".into())
    );
    assert_eq!(task["outcome"]["evidence"]["note"], "orphaned");
    assert!(!is_alive(tool), "its tool outlived it");
    user.shell.assert_nothing_left();
}
