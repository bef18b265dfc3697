//! SIGKILL on the daemon in mid-turn of Gemini CLI, at several instants.

use std::process::Child;
use std::time::Duration;

use super::support::User;
use crate::support::shell::assert_whole;

fn kill(mut child: Child) {
    child.kill().expect("killed");
    child.wait().expect("reaped");
}

#[test]
fn running_turns_finish_after_the_restart_and_nothing_is_asked_twice() {
    let user = User::new();
    for round in 0..4u64 {
        let daemon = user.shell.serve();
        let before = user.requests().len();
        let mut run = user.start("slow please");
        user.asked(before + 1);
        std::thread::sleep(Duration::from_millis(round * 529));
        kill(daemon);
        run.wait().expect("ends");
        let daemon = user.shell.serve();
        let task = user.shell.tasks()[0].clone();
        let waited = user.shell.ostler(&["task", "wait", task["id"].as_str().expect("id"), "--json"]);
        let outcome = &waited.json()["outcome"];
        assert_eq!((waited.code, outcome["evidence"]["proof"].as_str()), (0, Some("end_report")), "{waited:?}");
        assert_eq!(outcome["output"]["text"], "one two three four five six seven eight nine ten");
        assert_whole(&user.shell.events(task["session"].as_str().expect("id")));
        assert_eq!(user.requests().len(), before + 1, "asked once, and not twice");
        user.shell.end(daemon);
    }
}
