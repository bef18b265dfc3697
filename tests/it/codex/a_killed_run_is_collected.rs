//! SIGKILL on `ostler run` in mid-turn of Codex.

use crate::support::agents::CODEX;
use crate::support::user::User;

#[test]
fn a_killed_run_is_collected_by_the_next_process() {
    let user = User::of(CODEX);
    let mut child = user.start("slow please");
    user.speaks();
    child.kill().expect("killed");
    child.wait().expect("reaped");
    let task = user.shell.tasks()[0].clone();
    assert_eq!(
        (&task["outcome"]["verdict"], &task["outcome"]["evidence"]["proof"]),
        (&"failed".into(), &"tree_empty".into())
    );
    assert_eq!(task["outcome"]["evidence"]["note"], "orphaned");
    assert!(task["outcome"]["output"]["text"].as_str().is_some_and(|text| text.starts_with("one ")), "{task}");
    user.shell.assert_nothing_left();
}
