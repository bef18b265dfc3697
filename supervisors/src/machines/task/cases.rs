//! Cases from the field that are decided by the machine alone.

use super::*;
use crate::adapter::EndReport;
use crate::contract::StopReason;
use crate::machines::settlement::EmptyOutput;

const COMPLETED: EndReport = EndReport::Completed { stop_reason: StopReason::Finished };

fn running() -> Task {
    let policy = TaskPolicy {
        mode: ReportMode::Protocol,
        interrupt: InterruptMode::Native,
        interrupt_grace: Duration::from_millis(100),
        cancel_budget: Duration::from_millis(1000),
        strays: StrayPolicy::End,
        stray_grace: Duration::from_millis(50),
    };
    let mut task = Task::new("t".parse().expect("id"), policy, None);
    for input in [Input::Admitted, Input::RuntimeReady, Input::Fact(Fact::Began)] {
        task.step(input, Millis(0));
    }
    task
}

fn failed() -> EndReport {
    EndReport::Failed { kind: FailureKind::Provider, message: "overheated".into() }
}

fn feed(task: &mut Task, inputs: impl IntoIterator<Item = Input>) -> Vec<Effect> {
    inputs.into_iter().flat_map(|input| task.step(input, Millis(1))).collect()
}

fn end(report: EndReport) -> Input {
    Input::Fact(Fact::End(report))
}

/// The words of the verdicts among the effects.
fn verdicts(effects: &[Effect]) -> Vec<&'static str> {
    effects
        .iter()
        .filter_map(|effect| if let Effect::Settle(o) = effect { Some(o.verdict.word()) } else { None })
        .collect()
}

fn diagnostics(effects: &[Effect]) -> usize {
    effects.iter().filter(|effect| matches!(effect, Effect::Record(Record::Late(_)))).count()
}

fn stops(effects: &[Effect]) -> usize {
    effects.iter().filter(|effect| matches!(effect, Effect::StopTree(_))).count()
}

#[test]
fn case_b7_the_native_interrupt_comes_before_any_signal() {
    let mut task = running();
    let asked = feed(&mut task, [Input::Cancel(CancelCause::Requested)]);
    assert!(asked.contains(&Effect::Interrupt) && stops(&asked) == 0, "{asked:?}");
    let answered = feed(&mut task, [end(EndReport::Interrupted), Input::Strays(Vec::new())]);
    assert_eq!((verdicts(&answered), stops(&answered)), (vec!["cancelled"], 0));
}

#[test]
fn case_b7_the_exit_of_an_interrupted_agent_is_an_event_and_the_empty_tree_its_proof() {
    let mut task = running();
    feed(&mut task, [Input::Cancel(CancelCause::Requested)]);
    let exited = feed(&mut task, [Input::Exited(ExitFact::Code { code: 130 }), Input::OutputEnded]);
    assert_eq!(verdicts(&exited), Vec::<&str>::new());
    assert_eq!(verdicts(&feed(&mut task, [Input::Emptied])), ["cancelled"]);
}

#[test]
fn case_b8_completed_after_a_cancel_is_completed_and_the_contradiction_a_diagnostic() {
    let mut task = running();
    feed(&mut task, [Input::Cancel(CancelCause::Requested)]);
    assert_eq!(verdicts(&feed(&mut task, [end(COMPLETED), Input::Strays(Vec::new())])), ["completed"]);
    let late = feed(&mut task, [end(EndReport::Interrupted)]);
    assert_eq!((verdicts(&late).len(), diagnostics(&late)), (0, 1));
}

#[test]
fn case_b8_an_error_just_before_cancelled_is_the_verdict() {
    let mut task = running();
    feed(&mut task, [Input::Cancel(CancelCause::Requested)]);
    let ended = feed(&mut task, [end(failed()), end(EndReport::Interrupted), Input::Strays(Vec::new())]);
    assert_eq!(verdicts(&ended), ["failed"]);
}

#[test]
fn case_b9_of_two_stop_reasons_the_first_is_the_verdict_once() {
    let all = [(COMPLETED, "completed"), (failed(), "failed"), (EndReport::Interrupted, "cancelled")];
    for (first, word) in &all {
        for (second, _) in &all {
            let mut task = running();
            let inputs = [end(first.clone()), end(second.clone()), Input::Strays(Vec::new()), end(second.clone())];
            assert_eq!(verdicts(&feed(&mut task, inputs)), [*word], "{first:?}, then {second:?}");
        }
    }
}

#[test]
fn case_b10_an_interrupt_without_an_answer_is_followed_by_the_ladder_and_the_budget() {
    let mut task = running();
    feed(&mut task, [Input::Cancel(CancelCause::Requested)]);
    let due = feed(&mut task, [Input::Timer(Timer::InterruptGrace)]);
    assert!(due.contains(&Effect::StopTree(StopMode::Ladder)), "{due:?}");
    assert_eq!(verdicts(&feed(&mut task, [Input::Timer(Timer::CancelBudget)])), ["unresolved"]);
}

/// A program that is the task has no interrupt: its tree is stopped at once.
#[test]
fn case_b7_without_a_native_interrupt_the_ladder_comes_first() {
    let mut task = running();
    task.policy.interrupt = InterruptMode::None;
    task.policy.mode = ReportMode::ExitStatus(EmptyOutput::Suspicious);
    let asked = feed(&mut task, [Input::Cancel(CancelCause::Requested)]);
    assert!(!asked.contains(&Effect::Interrupt) && stops(&asked) == 1, "{asked:?}");
}

#[test]
fn case_b9_a_second_stop_reason_before_the_verdict_is_a_diagnostic_too() {
    let mut task = running();
    feed(&mut task, [end(COMPLETED)]);
    let contradiction = feed(&mut task, [end(failed())]);
    assert_eq!((verdicts(&contradiction).len(), diagnostics(&contradiction)), (0, 1), "{contradiction:?}");
}
