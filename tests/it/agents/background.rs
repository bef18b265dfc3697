//! What Claude Code leaves in the background below its ACP adapter, whose protocol says nothing of it.

use nix::sys::signal::Signal;

use crate::support::agents::CLAUDE_AGENT_ACP;
use crate::support::kernel::is_alive;
use crate::support::shell::{Done, signal};
use crate::support::user::{User, verdict, word};

const RULES: &str = r#"
  { "contains": "for ever", "after_tool": false, "call": { "name": "Bash", "input":
    { "command": "python3 -c 'import time; time.sleep(1000)'", "run_in_background": true } } },
  { "contains": "and talk", "text": "one two three four five six seven eight nine ten", "every_ms": 1000 },
"#;

#[test]
fn a_task_that_ends_names_what_it_left_and_a_cancel_leaves_nothing() {
    let user = User::with(CLAUDE_AGENT_ACP, RULES);
    let daemon = user.shell.serve();
    let done: Done = user.start("serve for ever").wait_with_output().expect("ends").into();
    assert_eq!(verdict(&done), (0, "completed".into(), "end_report".into()), "{done:?}");
    let left = done.json()["evidence"]["left_running"].as_array().cloned().unwrap_or_default();
    let tool = user.tools(1)[0];
    assert!(left.contains(&tool.into()), "{tool} is not among {left:?}");
    let session = word(&done.json(), "/session").to_owned();
    assert_eq!(user.shell.ostler(&["session", "close", &session]).code, 0);
    assert!(!is_alive(tool));

    let talk = user.start("serve for ever and talk");
    let tool = user.tools(1)[0];
    user.speaks();
    let warm = user.own();
    signal(&talk, Signal::SIGINT);
    let done: Done = talk.wait_with_output().expect("ends").into();
    assert_eq!(verdict(&done), (130, "cancelled".into(), "end_report".into()), "{done:?}");
    assert!(!is_alive(tool), "the background command lives on");
    assert_eq!(user.own(), warm, "the runtime stayed warm");
    user.shell.end(daemon);
}
