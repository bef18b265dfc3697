//! SIGKILL on the owner in mid-turn of Codex, at ten random instants for the daemon, and for `run`.

use std::process::Child;
use std::time::Duration;

use super::support::User;
use crate::support::kernel::wait_until;
use crate::support::shell::assert_whole;

fn kill(mut child: Child) {
    child.kill().expect("killed");
    child.wait().expect("reaped");
}

#[test]
fn running_turns_finish_after_the_restart_and_nothing_is_asked_twice() {
    let user = User::new();
    for round in 0..10u64 {
        let daemon = user.shell.serve();
        let before = user.requests().len();
        let mut run = user.shell.spawn(&["run", "--harness", "codex", "--json", "slow please"]);
        wait_until(Duration::from_secs(30), "it is asked", || {
            if user.requests().len() > before { Ok(()) } else { Err("no request yet".into()) }
        });
        std::thread::sleep(Duration::from_millis(round * 229 % 2100));
        kill(daemon);
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
    assert_eq!(user.shell.tasks().len(), 10);
}

#[test]
fn a_killed_run_is_collected_by_the_next_process() {
    let user = User::new();
    let child = user.shell.spawn(&["run", "--harness", "codex", "--json", "slow please"]);
    wait_until(Duration::from_secs(30), "it is asked", || {
        if user.requests().is_empty() { Err("no request yet".into()) } else { Ok(()) }
    });
    std::thread::sleep(Duration::from_millis(600));
    kill(child);
    let task = user.shell.tasks()[0].clone();
    assert_eq!(
        (&task["outcome"]["verdict"], &task["outcome"]["evidence"]["proof"]),
        (&"failed".into(), &"tree_empty".into())
    );
    assert_eq!(task["outcome"]["evidence"]["note"], "orphaned");
    assert!(task["outcome"]["output"]["text"].as_str().is_some_and(|text| text.starts_with("one ")), "{task}");
    user.shell.assert_nothing_left();
}
