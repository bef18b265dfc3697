//! What becomes of the processes that a task leaves.

use super::steps::{cancel, completed, interrupted, submitted, told, verdict};
use super::*;

const END: TaskPolicy = POLICIES[0];
const KEEP: TaskPolicy = POLICIES[1];

fn found(pids: &[i32]) -> Input {
    Input::Strays(pids.iter().copied().map(stray).collect())
}

fn gone(pid: i32) -> Input {
    Input::StrayEnded(stray(pid), StrayEnd::Gone)
}

#[test]
fn they_are_ended_one_by_one_and_looked_for_again() {
    let mut task = submitted(END);
    assert_eq!(told(&mut task, [completed()]), [Effect::ListStrays]);
    assert_eq!(told(&mut task, [found(&[7, 8])]), [Effect::EndStray(stray(7)), Effect::EndStray(stray(8))]);
    let ended = |pid| Effect::Record(Record::Stray(stray(pid), StrayEnd::Gone));
    assert_eq!(told(&mut task, [gone(7)]), [ended(7)]);
    assert_eq!(told(&mut task, [gone(8)]), [ended(8), Effect::ListStrays]);
    let outcome = verdict(&told(&mut task, [found(&[])]));
    assert_eq!((outcome.verdict.word(), outcome.evidence.left_running), ("completed", vec![]));
}

#[test]
fn a_finished_task_may_leave_them_by_policy_and_names_them() {
    let outcome = verdict(&told(&mut submitted(KEEP), [completed(), found(&[7, 8])]));
    assert_eq!((outcome.verdict.word(), outcome.evidence.left_running), ("completed", vec![7, 8]));
}

#[test]
fn an_interrupted_task_leaves_none_whatever_the_policy() {
    let mut task = submitted(KEEP);
    assert_eq!(told(&mut task, [cancel(), interrupted(), found(&[7])]).last(), Some(&Effect::EndStray(stray(7))));
    assert_eq!(verdict(&told(&mut task, [gone(7), found(&[])])).verdict.word(), "cancelled");
}

#[test]
fn one_that_will_not_end_is_named_by_a_finished_task_and_stops_the_tree_of_an_interrupted_one() {
    let alive = || [found(&[7]), Input::StrayEnded(stray(7), StrayEnd::Alive)];
    let mut task = submitted(END);
    told(&mut task, [completed()]);
    assert_eq!(verdict(&told(&mut task, alive())).evidence.left_running, [7]);
    let mut task = submitted(END);
    told(&mut task, [cancel(), interrupted()]);
    assert!(told(&mut task, alive()).contains(&Effect::StopTree(StopMode::Ladder)));
    let end = [Input::Exited(ExitFact::Signal { signal: 9, core: false }), Input::Emptied, Input::OutputEnded];
    let outcome = verdict(&told(&mut task, end));
    assert_eq!((outcome.verdict.word(), outcome.evidence.left_running), ("cancelled", vec![]), "the tree is empty");
}

#[test]
fn each_that_will_not_end_is_named() {
    let mut task = submitted(END);
    told(&mut task, [completed(), found(&[7, 8, 9])]);
    let alive = |pid| Input::StrayEnded(stray(pid), StrayEnd::Alive);
    let recorded = Effect::Record(Record::Stray(stray(7), StrayEnd::Alive));
    assert_eq!(told(&mut task, [alive(7), alive(7), gone(6)]), [recorded], "8 and 9 are still being ended");
    assert_eq!(verdict(&told(&mut task, [gone(8), alive(9)])).evidence.left_running, [7, 9]);
}

#[test]
fn they_are_hunted_four_times_and_then_stubborn() {
    let mut task = submitted(END);
    told(&mut task, [completed()]);
    for _ in 0..4 {
        assert_eq!(told(&mut task, [found(&[7])]), [Effect::EndStray(stray(7))]);
        assert_eq!(told(&mut task, [gone(7)]).last(), Some(&Effect::ListStrays));
    }
    assert_eq!(verdict(&told(&mut task, [found(&[7])])).evidence.left_running, [7]);
}

#[test]
fn given_up_on_in_an_interrupted_task_they_cost_the_tree_and_no_later_list_saves_it() {
    let mut task = submitted(END);
    told(&mut task, [cancel(), interrupted()]);
    for _ in 0..4 {
        told(&mut task, [found(&[7]), gone(7)]);
    }
    assert!(told(&mut task, [found(&[7])]).contains(&Effect::StopTree(StopMode::Ladder)));
    assert_eq!(told(&mut task, [found(&[])]), vec![]);
}

#[test]
fn an_answer_that_nobody_asked_for_is_ignored() {
    let mut task = submitted(END);
    assert_eq!(told(&mut task, [found(&[7]), gone(7)]), vec![]);
    told(&mut task, [completed(), found(&[7])]);
    assert_eq!(told(&mut task, [found(&[])]), vec![]);
    let mut task = submitted(END);
    told(&mut task, [cancel(), interrupted(), found(&[7]), Input::StrayEnded(stray(7), StrayEnd::Alive)]);
    assert_eq!(told(&mut task, [found(&[]), gone(7)]), vec![], "it was given up");
}

#[test]
fn what_was_asked_before_a_restart_is_asked_again() {
    let mut task = submitted(END);
    told(&mut task, [completed()]);
    assert_eq!(told(&mut task, [Input::OutputSeen]), vec![]);
    assert_eq!(told(&mut task, [Input::Resumed]), [Effect::ListStrays]);
}
