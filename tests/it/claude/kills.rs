//! SIGKILL on the owner in mid-turn: on the daemon while something is asked, and on `run`.

use std::process::Child;
use std::time::Duration;

use ostler::door::Door;
use ostler_supervisors::contract::{ApprovalPolicy, Delegation, TaskId};

use super::support::user;
use crate::cases::socket::{block_on, delegation, door, open_session};
use crate::support::kernel::{is_alive, wait_until};
use crate::support::shell::assert_whole;

fn kill(mut child: Child) {
    child.kill().expect("killed");
    child.wait().expect("reaped");
}

/// What is asked while nobody is there is still asked afterwards, and can be answered.
#[test]
fn case_f8_an_open_question_survives_the_daemon() {
    let user = user();
    let daemon = user.shell.serve();
    let task = block_on(async {
        let session = open_session(&user.shell, "claude").await;
        let delegation = Delegation { approval: ApprovalPolicy::Ask, ..delegation("please run it") };
        let task = TaskId::generate(0);
        door(&user.shell).await.start_task(&session, &task, delegation).await.expect("accepted");
        task
    });
    let asked = || {
        let shown = user.shell.ostler(&["task", "show", task.as_str(), "--json"]);
        let open = shown.json()["open_interactions"][0]["id"].as_str().map(str::to_owned);
        open.ok_or(shown.stdout)
    };
    let question = wait_until(Duration::from_secs(60), "it asks", asked);
    kill(daemon);
    let daemon = user.shell.serve();
    assert_eq!(wait_until(Duration::from_secs(60), "it still asks", asked), question);
    let answered = user.shell.ostler(&["task", "respond", task.as_str(), &question, "allow"]);
    assert_eq!(answered.code, 0, "{answered:?}");
    let waited = user.shell.ostler(&["task", "wait", task.as_str(), "--json"]);
    assert_eq!(waited.json()["outcome"]["output"]["text"], "the tool said hi", "{waited:?}");
    let listed = &user.shell.tasks()[0];
    assert_whole(&user.shell.events(listed["session"].as_str().expect("id")));
    user.shell.end(daemon);
}

/// It would go on with its turn and its tool: a closed input does not stop it.
#[test]
fn a_killed_run_leaves_no_tool_and_is_collected_by_the_next_process() {
    let user = user();
    let run = user.shell.spawn(&["run", "--harness", "claude", "--json", "--approve", "allow", "work long"]);
    let tool = user.tools(1)[0];
    kill(run);
    let task = user.shell.tasks()[0].clone();
    assert_eq!(
        (&task["outcome"]["verdict"], &task["outcome"]["evidence"]["proof"]),
        (&"failed".into(), &"tree_empty".into())
    );
    assert_eq!(task["outcome"]["evidence"]["note"], "orphaned");
    assert!(!is_alive(tool), "its tool outlived it");
    user.shell.assert_nothing_left();
}
