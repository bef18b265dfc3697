//! What a task knows again after a restart.

use super::steps::{accepted, cancel, replies, row, submitted, timers, told, verdict};
use super::*;

#[test]
fn a_cancel_is_carried_out_again_after_a_restart_and_recorded_once() {
    for policy in POLICIES {
        let mut task = submitted(policy);
        let of_request = |effect: &Effect| matches!(effect, Effect::Record(Record::CancelRequested(_)));
        assert!(told(&mut task, [cancel()]).iter().any(of_request));
        let mut row = row();
        task.describe(&mut row);
        let mut restored = accepted(policy).restored(&row, []);
        let effects = told(&mut restored, [Input::Resumed]);
        let acts = |effect: &&Effect| matches!(effect, Effect::Interrupt | Effect::StopTree(StopMode::Ladder));
        assert_eq!(effects.iter().filter(acts).count(), 1, "{policy:?}: {effects:?}");
        assert!(!effects.iter().any(of_request), "{policy:?}");
        let effects = told(&mut restored, [Input::Resumed]);
        assert_eq!(effects.iter().filter(acts).count(), 0, "{policy:?}: it is on its way");
        let effects = told(&mut restored, [cancel()]);
        assert!(effects.contains(&Effect::StopTree(StopMode::Kill)), "{policy:?}: a second one is by force");
    }
}

#[test]
fn a_cancelled_task_that_never_was_submitted_is_not_submitted_after_a_restart() {
    let row = TaskRow { cancel: Some(CancelCause::Timeout), ..row() };
    for input in [Input::Resumed, cancel()] {
        let mut restored = accepted(POLICIES[0]).restored(&row, []);
        assert_eq!(told(&mut restored, [Input::RuntimeReady]), []);
        let outcome = verdict(&told(&mut restored, [input]));
        assert_eq!(outcome.verdict, Verdict::Cancelled { cause: CancelCause::Timeout });
        assert_eq!(outcome.evidence.proof, Proof::NeverSubmitted);
    }
}

#[test]
fn an_answer_on_its_way_is_so_after_a_restart_too() {
    let id = || "a".parse::<crate::contract::InteractionId>().expect("id");
    let mut task = submitted(POLICIES[0]);
    assert_eq!(told(&mut task, [Input::Fact(ask("a")), Input::Answering(id())]).len(), 2, "nobody has answered");
    told(&mut task, [allow("a")]);
    let effects = told(&mut task, [Input::Answering(id())]);
    let [Effect::Record(Record::Answered(of, response))] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(*of, id());
    let (request, mut row) = (task.request(&id()).expect("known").clone(), row());
    task.describe(&mut row);

    let restored =
        || accepted(POLICIES[0]).restored(&row, []).with_answers([(request.clone(), response.clone())], Millis(1000));
    let mut task = restored();
    assert_eq!(timers(&told(&mut task, [Input::Resumed])), [(Timer::Timeout, 6000), (Timer::Answer, 31_000)]);
    assert_eq!(replies(&told(&mut task, [allow("a")])), [Reply::Refused]);
    let effects = told(&mut task, [Input::Fact(Fact::AnswerConfirmed(id()))]);
    let expected = Record::Resolved(id(), Resolution::Responded(response.clone()));
    assert!(effects.contains(&Effect::Record(expected)), "{effects:?}");
    assert_eq!(task.state(), TaskState::Running);

    let mut task = restored();
    told(&mut task, [Input::Resumed]);
    let lost = Record::Resolved(id(), Resolution::Cleared(ClearReason::ResponseUnconfirmed));
    assert!(task.step(Input::Timer(Timer::Answer), Millis(31_000)).contains(&Effect::Record(lost)));
}
