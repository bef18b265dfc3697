//! What bounds a task from outside: runtimes that end before they are given it, and its provider.

use super::steps::{submitted, told, verdict};
use super::*;
use crate::contract::RateLimit;

#[test]
fn of_agents_that_end_before_they_are_given_a_task_it_has_five() {
    let mut task = submitted(POLICIES[0]);
    for _ in 0..4 {
        assert_eq!(told(&mut task, [Input::NotTaken]), vec![]);
        assert!(told(&mut task, [Input::RuntimeReady]).contains(&Effect::Submit));
    }
    let outcome = verdict(&told(&mut task, [Input::NotTaken]));
    assert_eq!((outcome.verdict.word(), outcome.evidence.proof), ("failed", Proof::NeverSubmitted));
}

#[test]
fn case_j5_a_limit_of_the_provider_is_the_cause_of_a_failure_and_of_nothing_else() {
    let limit = RateLimit { retry_after_ms: Some(1500) };
    let limited = || Input::Fact(Fact::RateLimited(limit));
    for policy in POLICIES {
        let exit = [Input::Exited(ExitFact::Code { code: 1 }), Input::Emptied, Input::OutputEnded];
        let mut task = submitted(policy);
        told(&mut task, [Input::Fact(Fact::Began)]);
        assert_eq!(told(&mut task, [limited()]), [Effect::Record(Record::Fact(Fact::RateLimited(limit)))]);
        let outcome = verdict(&told(&mut task, exit));
        let Verdict::Failed { kind, .. } = outcome.verdict else { panic!("{outcome:?}") };
        let cause = (kind, outcome.evidence.rate_limit, outcome.evidence.note.as_deref());
        assert_eq!(cause, (FailureKind::Transient, Some(limit), Some("rate_limited")), "{policy:?}");
    }
    let mut task = submitted(POLICIES[0]);
    told(&mut task, [limited()]);
    let finished = Fact::End(EndReport::Completed { stop_reason: StopReason::Finished });
    let outcome = verdict(&told(&mut task, [Input::Fact(finished), Input::Strays(Vec::new())]));
    assert_eq!((outcome.evidence.rate_limit, outcome.evidence.note), (None, None), "it was overcome");
}
