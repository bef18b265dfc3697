//! A question on a terminal: it is answered there, or by somebody else, or not at all; none of it holds anything up.

use std::process::Child;

use super::{configure, open_request, received};
use crate::support::shell::{Containment, Shell};
use crate::support::terminal::{self, Answers, end};

fn shell() -> Shell {
    let shell = Shell::with(Containment::Descent, "");
    configure(&shell, &[]);
    shell
}

fn start(shell: &Shell, answers: Answers<'_>, arguments: &[&str]) -> Child {
    terminal::start(&shell.command(&[&["run", "--harness", "acp"], arguments].concat()), 100, answers, &[])
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
