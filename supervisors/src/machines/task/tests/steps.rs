//! Single steps, each with everything that follows from it.

use super::*;
use crate::contract::{ApprovalPolicy, Delegation, EffectKind, WorkStatus};
use crate::ledger::TaskRow;

const BY_EXIT: TaskPolicy = POLICIES[2];
const KILLED: ExitFact = ExitFact::Signal { signal: 9, core: false };

pub(super) fn accepted(policy: TaskPolicy) -> Task {
    Task::new("t".parse().expect("id"), policy, Some(Duration::from_secs(5)))
}

pub(super) fn submitted(policy: TaskPolicy) -> Task {
    let mut task = Task::new("t".parse().expect("id"), policy, None);
    told(&mut task, [Input::Admitted, Input::RuntimeReady]);
    task
}

/// What follows from these, one after another, at one instant.
pub(super) fn told(task: &mut Task, inputs: impl IntoIterator<Item = Input>) -> Vec<Effect> {
    inputs.into_iter().flat_map(|input| task.step(input, Millis(1000))).collect()
}

pub(super) fn verdict(effects: &[Effect]) -> Outcome {
    let settled =
        effects.iter().find_map(|effect| if let Effect::Settle(outcome) = effect { Some(outcome) } else { None });
    (**settled.expect("a verdict")).clone()
}

pub(super) fn replies(effects: &[Effect]) -> Vec<Reply> {
    effects
        .iter()
        .filter_map(|effect| if let Effect::Replied(_, reply) = effect { Some(*reply) } else { None })
        .collect()
}

pub(super) fn timers(effects: &[Effect]) -> Vec<(Timer, u64)> {
    let set = |effect: &Effect| if let Effect::SetTimer(timer, at) = effect { Some((*timer, at.0)) } else { None };
    effects.iter().filter_map(set).collect()
}

pub(super) fn completed() -> Input {
    Input::Fact(Fact::End(EndReport::Completed { stop_reason: StopReason::Finished }))
}

pub(super) fn interrupted() -> Input {
    Input::Fact(Fact::End(EndReport::Interrupted))
}

pub(super) fn cancel() -> Input {
    Input::Cancel(CancelCause::Requested)
}

fn usage(tokens: u64) -> AgentUsage {
    AgentUsage { total_tokens: Some(tokens), ..AgentUsage::UNKNOWN }
}

pub(super) fn row() -> TaskRow {
    let delegation = Delegation { prompt: "do it".into(), approval: ApprovalPolicy::Ask, model: None, timeout: None };
    TaskRow::accepted("t".parse().expect("id"), "s".parse().expect("id"), delegation, 0)
}

#[test]
fn a_cancel_before_the_submission_settles_at_once() {
    for inputs in [vec![], vec![Input::Admitted]] {
        let mut task = accepted(POLICIES[0]);
        told(&mut task, inputs);
        assert!(!task.was_submitted());
        let outcome = verdict(&told(&mut task, [cancel()]));
        assert_eq!(outcome.verdict, Verdict::Cancelled { cause: CancelCause::Requested });
        assert_eq!((outcome.evidence.proof, outcome.evidence.cancel_requested), (Proof::NeverSubmitted, true));
    }
}

#[test]
fn a_runtime_that_ends_before_the_submission_proves_that_nothing_was_submitted() {
    let words = |said: &str| Input::ErrorsEnded(said.into());
    for (end, message) in [
        (vec![Input::Exited(KILLED), words("oops")], "the agent ended (SIGKILL) before it was given the task: oops"),
        (vec![words(""), Input::Exited(KILLED)], "the agent ended (SIGKILL) before it was given the task"),
        (vec![Input::Lost(Loss::Swept)], "the agent ended before it was given the task"),
    ] {
        let outcome = verdict(&told(&mut accepted(POLICIES[0]), [vec![Input::Admitted], end].concat()));
        assert_eq!(outcome.evidence.proof, Proof::NeverSubmitted);
        let kind = FailureKind::Transport;
        assert_eq!(outcome.verdict, Verdict::Failed { kind, message: message.to_owned() });
    }
    let quiet = told(&mut accepted(POLICIES[0]), [Input::Admitted, Input::OutputSeen, Input::OutputEnded]);
    assert!(!quiet.iter().any(|effect| matches!(effect, Effect::Settle(_))), "{quiet:?}");
}

#[test]
fn an_agent_that_ended_is_given_nothing_any_more() {
    let ready = told(&mut accepted(POLICIES[0]), [Input::Admitted, Input::Exited(KILLED), Input::RuntimeReady]);
    assert!(!ready.iter().any(|effect| matches!(effect, Effect::Submit | Effect::Settle(_))), "{ready:?}");
}

#[test]
fn the_end_of_a_runtime_that_no_longer_serves_it_is_not_its_own() {
    let mut task = accepted(POLICIES[0]);
    told(&mut task, [Input::Admitted, Input::Exited(KILLED), Input::Emptied, Input::Unserved]);
    let next = told(&mut task, [Input::ErrorsEnded("oops".into()), Input::RuntimeReady]);
    assert!(next.contains(&Effect::Submit), "{next:?}");
    let end = told(&mut task, [Input::Lost(Loss::Swept)]);
    assert!(!verdict(&end).evidence.tree_empty, "{end:?}");
}

#[test]
fn a_start_that_failed_is_the_verdict_before_the_submission_and_an_agent_that_never_ran_after_it() {
    let failed = || Input::NotStarted("no such file".into());
    let never_ran = || Input::NeverRan("no such file".into());
    for before in [failed(), never_ran()] {
        let outcome = verdict(&told(&mut accepted(POLICIES[0]), [before]));
        assert_eq!((outcome.verdict.word(), outcome.evidence.proof), ("failed", Proof::NeverStarted));
    }
    for policy in [POLICIES[0], BY_EXIT] {
        assert_eq!(told(&mut submitted(policy), [failed()]), vec![]);
        let outcome = verdict(&told(&mut submitted(policy), [never_ran()]));
        assert_eq!((outcome.verdict.word(), outcome.evidence.proof), ("failed", Proof::NeverStarted));
        let outcome = verdict(&told(&mut submitted(policy), [cancel(), never_ran()]));
        assert_eq!((outcome.verdict.word(), outcome.evidence.proof), ("cancelled", Proof::NeverStarted));
    }
}

#[test]
fn what_was_not_taken_is_submitted_to_the_next_runtime_unless_it_is_cancelled() {
    let mut task = submitted(POLICIES[0]);
    assert_eq!(told(&mut task, [Input::NotTaken]), vec![]);
    assert_eq!(task.state(), TaskState::Admitted);
    assert!(told(&mut task, [Input::RuntimeReady]).contains(&Effect::Submit));
    let outcome = verdict(&told(&mut submitted(POLICIES[0]), [cancel(), Input::NotTaken]));
    assert_eq!((outcome.verdict.word(), outcome.evidence.proof), ("cancelled", Proof::NeverSubmitted));
    let mut running = submitted(POLICIES[0]);
    told(&mut running, [Input::Fact(Fact::Began)]);
    assert_eq!(told(&mut running, [Input::NotTaken]), vec![]);
    assert_eq!(running.state(), TaskState::Running);
}

#[test]
fn an_agent_that_refuses_a_task_has_not_begun_it() {
    let refused = || Input::Fact(Fact::NotAccepted { message: "busy".into() });
    let outcome = verdict(&told(&mut submitted(POLICIES[0]), [refused()]));
    assert_eq!(outcome.verdict, Verdict::Failed { kind: FailureKind::Transport, message: "busy".into() });
    assert_eq!(told(&mut accepted(POLICIES[0]), [refused()]), vec![]);
    let mut task = submitted(POLICIES[0]);
    assert_eq!(told(&mut task, [Input::Fact(Fact::Accepted)]), vec![Effect::Record(Record::State(TaskState::Running))]);
    assert_eq!(told(&mut task, [refused()]), vec![]);
}

#[test]
fn what_the_agent_shows_is_recorded_as_it_is_and_shows_that_it_began() {
    let mut task = submitted(POLICIES[0]);
    let running = Effect::Record(Record::State(TaskState::Running));
    let shown = |text| Effect::Record(Record::Fact(delta(text)));
    assert_eq!(told(&mut task, [Input::Fact(delta("a"))]), [running, shown("a")]);
    assert_eq!(told(&mut task, [Input::Fact(delta("b"))]), [shown("b")]);
}

#[test]
fn the_time_limit_runs_once_from_the_admission_and_cancels_once() {
    let mut task = accepted(POLICIES[0]);
    assert_eq!(timers(&told(&mut task, [Input::Admitted, Input::Admitted, Input::Resumed])), [(Timer::Timeout, 6000)]);
    let effects = told(&mut task, [Input::RuntimeReady, Input::Timer(Timer::Timeout), Input::Timer(Timer::Timeout)]);
    assert_eq!(effects.iter().filter(|effect| **effect == Effect::Interrupt).count(), 1);
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::StopTree(_))), "{effects:?}");
    assert_eq!(task.cancel_cause(), Some(CancelCause::Timeout));
}

#[test]
fn an_admission_is_recorded_once_and_never_goes_back() {
    let mut task = accepted(POLICIES[0]);
    let admitted = Effect::Record(Record::State(TaskState::Admitted));
    assert_eq!(told(&mut task, [Input::Admitted]).first(), Some(&admitted));
    assert_eq!(told(&mut task, [Input::Admitted]), vec![]);
    told(&mut task, [Input::RuntimeReady]);
    assert_eq!(told(&mut task, [Input::Admitted, Input::RuntimeReady]), vec![]);
    assert_eq!(task.state(), TaskState::Submitted);
}

#[test]
fn a_cancel_interrupts_first_and_each_of_its_steps_has_its_deadline() {
    let mut task = submitted(POLICIES[0]);
    let effects = told(&mut task, [cancel()]);
    assert_eq!(timers(&effects), [(Timer::CancelBudget, 2000), (Timer::InterruptGrace, 1100)]);
    let effects = told(&mut task, [Input::Timer(Timer::InterruptGrace), Input::Timer(Timer::InterruptGrace)]);
    assert_eq!(effects, [Effect::StopTree(StopMode::Ladder), Effect::SetTimer(Timer::CancelBudget, Millis(2000))]);
    let outcome = verdict(&told(&mut task, [Input::Timer(Timer::CancelBudget)]));
    assert_eq!((outcome.verdict.word(), outcome.evidence.proof), ("unresolved", Proof::DeadlinePassed));
}

#[test]
fn a_cancel_clears_what_waits_for_an_answer_before_it_interrupts() {
    let mut task = submitted(POLICIES[0]);
    told(&mut task, [Input::Fact(ask("a")), Input::Fact(ask("b")), allow("b")]);
    let effects = told(&mut task, [cancel()]);
    let cleared = |id: &str| {
        let resolution = Resolution::Cleared(ClearReason::CancellationRequested);
        Effect::Record(Record::Resolved(id.parse().expect("id"), resolution))
    };
    let place = |wanted: &Effect| effects.iter().position(|effect| effect == wanted).expect("it follows");
    assert!(place(&cleared("a")) < place(&Effect::Interrupt) && place(&cleared("b")) < place(&Effect::Interrupt));
    assert_eq!((replies(&effects), task.state()), (vec![Reply::Unconfirmed], TaskState::Running));
    assert!(told(&mut task, [Input::Fact(ask("c"))]).contains(&cleared("c")), "asked too late");
}

#[test]
fn a_verdict_clears_what_is_open_and_forgets_every_timer() {
    let mut task = submitted(POLICIES[0]);
    told(&mut task, [Input::Fact(ask("a")), completed()]);
    let effects = told(&mut task, [Input::Strays(vec![])]);
    let cleared = Record::Resolved("a".parse().expect("id"), Resolution::Cleared(ClearReason::TaskEnded));
    assert_eq!(effects.first(), Some(&Effect::Record(cleared)));
    for timer in [Timer::Timeout, Timer::InterruptGrace, Timer::CancelBudget, Timer::Answer] {
        assert!(effects.contains(&Effect::DropTimer(timer)), "{timer:?}");
    }
}

#[test]
fn a_report_within_the_grace_spares_the_tree() {
    let mut task = submitted(POLICIES[0]);
    let effects = told(&mut task, [cancel(), interrupted(), Input::Timer(Timer::InterruptGrace)]);
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::StopTree(_))), "{effects:?}");
}

#[test]
fn an_exit_is_the_doing_of_the_cancel_before_it_and_of_no_later_one() {
    for policy in POLICIES {
        let course = [cancel(), Input::Exited(KILLED), Input::Emptied, Input::OutputEnded];
        let outcome = verdict(&told(&mut submitted(policy), course));
        assert_eq!((outcome.verdict.word(), outcome.evidence.proof), ("cancelled", Proof::TreeEmpty), "{policy:?}");
        let course = [Input::Exited(KILLED), cancel(), Input::Emptied, Input::OutputEnded];
        let outcome = verdict(&told(&mut submitted(policy), course));
        assert_eq!((outcome.verdict.word(), outcome.evidence.proof), ("failed", Proof::TreeEmpty), "{policy:?}");
    }
}

#[test]
fn the_evidence_names_everything_that_was_observed() {
    let mut task = submitted(POLICIES[0]);
    let end = [Input::Orphaned, Input::Exited(KILLED), Input::Emptied, Input::OutputEnded];
    let evidence = verdict(&told(&mut task, end)).evidence;
    let expected = Evidence {
        exit: Some(KILLED),
        tree_empty: true,
        note: Some("orphaned".into()),
        ..Evidence::of(Proof::TreeEmpty)
    };
    assert_eq!(evidence, expected);
}

#[test]
fn the_evidence_of_a_kill_for_lack_of_memory_says_so() {
    for policy in POLICIES {
        let end = [Input::Exited(KILLED), Input::OutOfMemory, Input::Emptied, Input::OutputEnded];
        let evidence = verdict(&told(&mut submitted(policy), end)).evidence;
        assert_eq!((evidence.proof, evidence.note.as_deref()), (Proof::TreeEmpty, Some("oom")), "{policy:?}");
    }
}

#[test]
fn one_byte_of_output_tells_a_success_from_a_silent_exit_also_after_a_restart() {
    let end = || [Input::Exited(ExitFact::Code { code: 0 }), Input::Emptied, Input::OutputEnded];
    let silent = verdict(&told(&mut submitted(BY_EXIT), end()));
    assert_eq!((silent.verdict.word(), silent.evidence.proof), ("unresolved", Proof::Partial));
    let mut task = submitted(BY_EXIT);
    told(&mut task, [Input::OutputSeen]);
    assert_eq!(verdict(&told(&mut task, end())).evidence.proof, Proof::ExitReport);
    let row = TaskRow { state: TaskState::Running, ..row() };
    let mut restored = accepted(BY_EXIT).restored(&row, [delta("x")]);
    assert_eq!(verdict(&told(&mut restored, end())).evidence.proof, Proof::ExitReport);
}

#[test]
fn a_row_says_what_is_known_and_a_restored_task_goes_on_from_it() {
    let mut task = submitted(POLICIES[0]);
    let used = Fact::Usage { task: usage(5), session: Some(usage(9)) };
    told(
        &mut task,
        [cancel(), Input::Fact(used), Input::Fact(Fact::OpenWork(1)), interrupted(), Input::Fact(delta("x"))],
    );
    let mut row = row();
    task.describe(&mut row);
    assert_eq!((row.state, row.cancel), (TaskState::Running, Some(CancelCause::Requested)));
    assert_eq!(
        (row.report.clone(), row.usage, row.session_usage),
        (Some(EndReport::Interrupted), usage(5), Some(usage(9)))
    );

    let mut restored = accepted(POLICIES[0]).restored(&row, [delta("half")]);
    let (expected, mut described) = (row.clone(), row);
    restored.describe(&mut described);
    assert_eq!(described, expected);
    assert!(timers(&told(&mut restored, [Input::Resumed])).contains(&(Timer::Timeout, 6000)));
    let outcome = verdict(&told(&mut restored, [Input::Strays(vec![])]));
    assert_eq!(
        (outcome.verdict.word(), outcome.output.map(|output| output.text().to_owned())),
        ("cancelled", Some("half".into()))
    );
}

#[test]
fn usage_replaces_what_was_said_before_and_silence_about_the_session_replaces_nothing() {
    let mut task = submitted(POLICIES[0]);
    let used = |task, session| Input::Fact(Fact::Usage { task: usage(task), session });
    told(&mut task, [used(1, Some(usage(7))), used(2, None)]);
    let outcome = verdict(&told(&mut task, [completed(), Input::Strays(vec![])]));
    assert_eq!((outcome.usage, outcome.session_usage), (usage(2), Some(usage(7))));
}

#[test]
fn an_answer_that_is_not_taken_in_time_is_lost_and_never_given_again() {
    let mut task = submitted(POLICIES[0]);
    assert_eq!(told(&mut task, [allow("a")]), [Effect::Replied("a".parse().expect("id"), Reply::Refused)]);
    told(&mut task, [Input::Fact(ask("a")), Input::Fact(ask("b"))]);
    assert_eq!(timers(&told(&mut task, [allow("a")])), [(Timer::Answer, 31_000)]);
    assert_eq!(replies(&task.step(Input::Timer(Timer::Answer), Millis(30_999))), []);
    let effects = task.step(Input::Timer(Timer::Answer), Millis(31_000));
    assert_eq!(replies(&effects), [Reply::Unconfirmed]);
    let lost = Resolution::Cleared(ClearReason::ResponseUnconfirmed);
    assert!(effects.contains(&Effect::Record(Record::Resolved("a".parse().expect("id"), lost))), "{effects:?}");
    assert_eq!(task.state(), TaskState::AwaitingResponse, "b is still open");
    assert_eq!(replies(&told(&mut task, [allow("a")])), [Reply::Refused]);
}

#[test]
fn nothing_postpones_the_deadline_of_an_answer() {
    let mut task = submitted(POLICIES[0]);
    told(&mut task, [Input::Fact(ask("a")), Input::Fact(ask("b")), allow("a")]);
    assert_eq!(timers(&task.step(allow("a"), Millis(20_000))), [], "refused");
    assert_eq!(timers(&task.step(allow("b"), Millis(20_000))), [(Timer::Answer, 31_000)]);
    let effects = task.step(Input::Timer(Timer::Answer), Millis(31_000));
    assert_eq!((replies(&effects), timers(&effects)), (vec![Reply::Unconfirmed], vec![(Timer::Answer, 50_000)]));
    let effects = task.step(Input::Timer(Timer::Answer), Millis(50_000));
    assert_eq!((replies(&effects), timers(&effects)), (vec![Reply::Unconfirmed], vec![]));
}

#[test]
fn an_answer_that_is_proven_undelivered_may_be_given_again() {
    let id = || "a".parse::<InteractionId>().expect("id");
    let mut task = submitted(POLICIES[0]);
    assert_eq!(told(&mut task, [Input::Undelivered(id())]), []);
    told(&mut task, [Input::Fact(ask("a")), allow("a")]);
    let effects = told(&mut task, [Input::Undelivered(id())]);
    assert_eq!(effects, [Effect::Record(Record::Reopened(id())), Effect::Replied(id(), Reply::NotDelivered)]);
    assert_eq!(task.step(Input::Timer(Timer::Answer), Millis(31_000)), [], "nothing of it is lost");
    assert_eq!((task.state(), task.pending().count()), (TaskState::AwaitingResponse, 1));
    assert!(told(&mut task, [allow("a")]).iter().any(|effect| matches!(effect, Effect::Answer(..))));
}

#[test]
fn an_answer_that_was_taken_is_not_lost_later() {
    let mut task = submitted(POLICIES[0]);
    let taken = Input::Fact(Fact::AnswerConfirmed("a".parse().expect("id")));
    assert_eq!(replies(&told(&mut task, [Input::Fact(ask("a")), allow("a"), taken])), [Reply::Accepted]);
    assert_eq!(task.step(Input::Timer(Timer::Answer), Millis(31_000)), []);
}

#[test]
fn an_answer_that_does_not_fit_is_refused_and_changes_nothing() {
    let mut task = submitted(POLICIES[0]);
    told(&mut task, [Input::Fact(ask("a"))]);
    let text = Input::Respond("a".parse().expect("id"), InteractionResponse::Answer { text: "yes".into() });
    assert_eq!(told(&mut task, [text]), [Effect::Replied("a".parse().expect("id"), Reply::Refused)]);
    assert_eq!(task.pending().count(), 1);
}

#[test]
fn a_request_is_told_and_waited_for_until_it_is_answered() {
    let mut task = submitted(POLICIES[0]);
    let opened = told(&mut task, [Input::Fact(ask("a"))]);
    let state = |state| Effect::Record(Record::State(state));
    assert!(matches!(&opened[0], Effect::Record(Record::Opened(request)) if request.id.as_str() == "a"), "{opened:?}");
    assert_eq!(opened[1..], [state(TaskState::AwaitingResponse)]);
    let answered = told(&mut task, [allow("a"), Input::Fact(Fact::AnswerConfirmed("a".parse().expect("id")))]);
    assert!(matches!(answered[1], Effect::Answer(..)), "{answered:?}");
    assert!(answered.contains(&state(TaskState::Running)), "{answered:?}");
}

#[test]
fn a_request_is_known_by_its_id_after_it_closed_and_opens_once() {
    let (a, b): (InteractionId, InteractionId) = ("a".parse().expect("id"), "b".parse().expect("id"));
    let mut task = submitted(POLICIES[0]);
    told(&mut task, [Input::Fact(ask("a")), Input::Fact(ask("b")), Input::Fact(ask("a"))]);
    assert_eq!(task.pending().map(|request| request.id.clone()).collect::<Vec<_>>(), [a.clone(), b.clone()]);
    let withdrawn = Fact::Withdrawn(b.clone(), ClearReason::ProviderWithdrawn);
    told(&mut task, [Input::Fact(withdrawn), Input::Fact(ask("b"))]);
    assert_eq!(task.pending().map(|request| request.id.clone()).collect::<Vec<_>>(), [a]);
    assert_eq!(task.request(&b).map(|request| &request.id), Some(&b));
    assert_eq!(task.request(&"c".parse().expect("id")), None);
}

#[test]
fn the_first_report_wins() {
    let mut task = submitted(POLICIES[0]);
    told(&mut task, [cancel(), interrupted(), completed()]);
    assert_eq!(verdict(&told(&mut task, [Input::Strays(vec![])])).verdict.word(), "cancelled");
}

#[test]
fn open_work_keeps_a_reported_task_running() {
    let mut task = submitted(POLICIES[0]);
    assert_eq!(told(&mut task, [Input::Fact(Fact::OpenWork(1)), completed()]), vec![]);
    assert_eq!(told(&mut task, [Input::Fact(Fact::OpenWork(0))]), [Effect::ListStrays]);
}

#[test]
fn late_facts_are_named_and_late_answers_refused() {
    let mut task = submitted(POLICIES[0]);
    told(&mut task, [completed(), Input::Strays(vec![])]);
    let work = || "w".parse().expect("id");
    let tool =
        Fact::Tool { work: work(), name: "ls".into(), status: WorkStatus::Started, arguments: None, result: None };
    let effect = Fact::Effect {
        work: work(),
        kind: EffectKind::Command,
        status: WorkStatus::Started,
        description: None,
        output: None,
        exit_code: None,
        paths: Vec::new(),
    };
    let words = [
        (delta("x"), "message"),
        (tool, "tool"),
        (effect, "effect"),
        (Fact::Usage { task: usage(1), session: None }, "usage"),
        (ask("a"), "request"),
        (Fact::Began, "notice"),
        (Fact::End(EndReport::Interrupted), "end report: Interrupted"),
    ];
    for (fact, word) in words {
        assert_eq!(told(&mut task, [Input::Fact(fact)]), [Effect::Record(Record::Late(word.into()))]);
    }
    assert_eq!(replies(&told(&mut task, [allow("a")])), [Reply::Refused]);
    assert_eq!(told(&mut task, [cancel(), Input::Emptied]), vec![]);
}
