//! A question on a terminal: it is answered there, or by somebody else, or not at all; none of it holds anything up.

use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use super::{configure, open_request, received};
use crate::support::shell::{Containment, Shell};

/// Runs a command on a terminal of its own: types each answer once its text is there, and prints what was shown, and
/// the exit code.
const TERMINAL: &str = "
import json, os, pty, sys
answers, command = json.loads(sys.argv[1]), sys.argv[2:]
pid, terminal = pty.fork()
if pid == 0:
    os.execv(command[0], command)
shown = b''
while True:
    try:
        more = os.read(terminal, 65536)
    except OSError:
        break
    if not more:
        break
    shown += more
    if answers and answers[0][0].encode() in shown:
        os.write(terminal, answers.pop(0)[1].encode())
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
print(json.dumps({'shown': shown.decode(errors='replace'), 'code': code}))
";

fn shell() -> Shell {
    let shell = Shell::with(Containment::Descent, "");
    configure(&shell, &[]);
    shell
}

fn start(shell: &Shell, answers: &[(&str, &str)], arguments: &[&str]) -> Child {
    let run = shell.command(&[&["run", "--harness", "acp"], arguments].concat());
    let mut terminal = Command::new("python3");
    terminal.args(["-c", TERMINAL, &json!(answers).to_string()]).arg(run.get_program()).args(run.get_args());
    terminal.current_dir(shell.work()).envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))));
    terminal.env("TERM", "xterm").stdout(Stdio::piped()).spawn().expect("python3")
}

/// The exit code, and what was shown.
fn end(child: Child) -> (i64, String) {
    let output = child.wait_with_output().expect("ends");
    let said: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    (said["code"].as_i64().expect("a code"), said["shown"].as_str().expect("a text").to_owned())
}

#[test]
fn it_is_answered_there_one_after_the_other() {
    let shell = shell();
    let answers = [("allow? tidy up?", "n\n"), ("allow? run it?", "y\n")];
    let (code, shown) = end(start(&shell, &answers, &["ask tidy up? ;; ask run it? ;; say that is all"]));
    assert_eq!((code, shown.contains("that is all")), (0, true), "{shown}");
    let task = &shell.tasks()[0];
    let events = shell.events(task["session"].as_str().expect("an id"));
    let decided = events.iter().filter(|event| event["type"] == "approval.resolved");
    let decided: Vec<_> = decided.map(|event| event["data"]["decision"]["decision"].clone()).collect();
    assert_eq!(decided, ["decline", "approve_once"], "{events:#?}");
    shell.assert_nothing_left();
}

#[test]
fn a_cancel_at_the_question_needs_no_answer_to_it() {
    let shell = shell();
    let (code, shown) = end(start(&shell, &[("[s]top the task: ", "\x03")], &["ask run it? ;; say done"]));
    assert_eq!(code, 130, "{shown}");
    shell.assert_nothing_left();
}

#[test]
fn a_task_whose_time_is_over_does_not_wait_for_a_person() {
    let shell = shell();
    let (code, shown) = end(start(&shell, &[], &["--timeout", "1s", "ask run it? ;; say done"]));
    assert_eq!((code, shown.contains("it is not asked any more")), (5, true), "{shown}");
    shell.assert_nothing_left();
}

#[test]
fn somebody_else_may_answer_and_the_next_question_is_the_persons_again() {
    let shell = shell();
    let script = "ask tidy up? ;; ask run it? ;; say that is all";
    let child = start(&shell, &[("allow? run it?", "y\n")], &[script]);
    received(&shell, 1);
    let (task, request) = open_request(&shell);
    let answered = shell.ostler(&["task", "respond", &task, &request, "allow"]);
    assert_eq!(answered.code, 0, "{answered:?}");
    let (code, shown) = end(child);
    assert_eq!((code, shown.contains("it is not asked any more")), (0, true), "{shown}");
    assert!(shown.contains("that is all"), "{shown}");
    shell.assert_nothing_left();
}
