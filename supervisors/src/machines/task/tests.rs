//! Every interleaving of small cases, seeded schedules of large ones, and the invariants after each step.

use super::*;
use crate::adapter::EndReport;
use crate::contract::{ApprovalDecision, InteractionKind, MessageRole, StopReason};
use crate::machines::settlement::EmptyOutput;

mod bounds;
mod restarts;
mod steps;
mod strays;

const POLICIES: [TaskPolicy; 4] = [
    policy(ReportMode::Protocol, InterruptMode::Native, StrayPolicy::End),
    policy(ReportMode::Protocol, InterruptMode::Native, StrayPolicy::Keep),
    policy(ReportMode::ExitStatus(EmptyOutput::Suspicious), InterruptMode::None, StrayPolicy::End),
    policy(ReportMode::Protocol, InterruptMode::None, StrayPolicy::End),
];

const fn policy(mode: ReportMode, interrupt: InterruptMode, strays: StrayPolicy) -> TaskPolicy {
    TaskPolicy {
        mode,
        interrupt,
        interrupt_grace: Duration::from_millis(100),
        cancel_budget: Duration::from_millis(1000),
        strays,
        stray_grace: Duration::from_millis(50),
    }
}

fn ask(id: &str) -> Fact {
    Fact::Asked(InteractionRequest {
        id: id.parse().expect("id"),
        work: None,
        prompt: "may I?".into(),
        kind: InteractionKind::Approval { effect: None, available: vec![ApprovalDecision::ApproveOnce] },
    })
}

fn delta(text: &str) -> Fact {
    Fact::MessageDelta { message: "m".parse().expect("id"), role: MessageRole::Unknown, text: text.into() }
}

fn allow(id: &str) -> Input {
    Input::Respond(id.parse().expect("id"), InteractionResponse::Approval { decision: ApprovalDecision::ApproveOnce })
}

fn stray(pid: i32) -> Stray {
    Stray { pid, start: 1, command: "sleep".into() }
}

fn alphabet() -> Vec<Input> {
    vec![
        Input::Fact(Fact::Began),
        Input::Fact(delta("x")),
        Input::Fact(ask("a")),
        Input::Fact(Fact::AnswerConfirmed("a".parse().expect("id"))),
        Input::Fact(Fact::End(EndReport::Completed { stop_reason: StopReason::Finished })),
        Input::Fact(Fact::End(EndReport::Interrupted)),
        Input::Cancel(CancelCause::Requested),
        allow("a"),
        Input::Exited(ExitFact::Signal { signal: 9, core: false }),
        Input::Emptied,
        Input::OutputEnded,
        Input::Strays(vec![]),
        Input::Strays(vec![stray(7)]),
        Input::StrayEnded(stray(7), StrayEnd::Gone),
        Input::StrayEnded(stray(7), StrayEnd::Alive),
        Input::Timer(Timer::InterruptGrace),
        Input::Timer(Timer::CancelBudget),
        Input::Lost(Loss::Leaked),
    ]
}

/// What a machine did so far, against what it may never do.
#[derive(Debug, Clone, Default)]
struct Watch {
    submitted: usize,
    settled: Option<Outcome>,
    opened: Vec<InteractionId>,
    resolved: Vec<InteractionId>,
    delivered: usize,
    replied: usize,
    stops: Vec<StopMode>,
    cancel_requested: bool,
    responded: usize,
}

impl Watch {
    fn note(&mut self, input: &Input, effects: &[Effect]) {
        self.responded += usize::from(matches!(input, Input::Respond(..)));
        for effect in effects {
            let late = self.settled.is_some();
            match effect {
                Effect::Submit => {
                    self.submitted += 1;
                    assert!(!self.cancel_requested, "submitted what somebody cancelled");
                }
                Effect::Settle(outcome) => {
                    assert!(!late, "settled twice");
                    assert_eq!(self.opened, self.resolved_in_order(), "a request is open at the verdict");
                    self.settled = Some((**outcome).clone());
                }
                Effect::Record(Record::Opened(request)) => self.opened.push(request.id.clone()),
                Effect::Record(Record::Resolved(id, _)) => self.resolved.push(id.clone()),
                Effect::Record(Record::CancelRequested(_)) => self.cancel_requested = true,
                Effect::StopTree(mode) => self.stops.push(*mode),
                Effect::Answer(..) => self.delivered += 1,
                Effect::Replied(..) => self.replied += 1,
                _ => {}
            }
            let harmless = matches!(effect, Effect::Record(Record::Late(_)) | Effect::Replied(..));
            assert!(!late || harmless, "{effect:?} after the verdict");
        }
        assert!(self.submitted <= 1, "submitted twice");
        assert!(self.stops.len() <= 2 && self.stops != [StopMode::Kill, StopMode::Ladder], "got softer");
        assert!(self.replied <= self.responded, "an answer nobody gave");
        let mut unique = self.resolved.clone();
        unique.dedup();
        assert_eq!(unique.len(), self.resolved.len(), "resolved twice");
    }

    fn resolved_in_order(&self) -> Vec<InteractionId> {
        self.opened.iter().filter(|id| self.resolved.contains(id)).cloned().collect()
    }
}

fn feed(task: &mut Task, watch: &mut Watch, input: Input, now: Millis) -> Vec<Effect> {
    let before = task.state();
    let effects = task.step(input.clone(), now);
    if (before, task.state()) == (TaskState::Submitted, TaskState::Admitted) {
        assert_eq!(input, Input::NotTaken, "only what was not taken is submitted again");
        watch.submitted -= 1;
    }
    watch.note(&input, &effects);
    assert!(before != TaskState::Settled || task.state() == TaskState::Settled, "a verdict was taken back");
    assert_eq!(task.state() == TaskState::Settled, watch.settled.is_some());
    assert_eq!(
        task.state() == TaskState::AwaitingResponse,
        task.state() != TaskState::Settled && task.was_submitted() && task.pending().next().is_some(),
        "waiting is a state of its own: {task:?}"
    );
    effects
}

fn explore(task: &Task, watch: &Watch, alphabet: &[Input], depth: usize, seen: &mut usize) {
    *seen += 1;
    if depth == 0 || (watch.settled.is_some() && depth < 3) {
        return;
    }
    for input in alphabet {
        let (mut task, mut watch) = (task.clone(), watch.clone());
        feed(&mut task, &mut watch, input.clone(), Millis(1));
        explore(&task, &watch, alphabet, depth - 1, seen);
    }
}

#[test]
fn every_interleaving_of_a_submitted_task() {
    let mut seen = 0;
    for policy in POLICIES {
        let (mut task, mut watch) = (Task::new("t".parse().expect("id"), policy, None), Watch::default());
        for input in [Input::Admitted, Input::RuntimeReady] {
            feed(&mut task, &mut watch, input, Millis(0));
        }
        explore(&task, &watch, &alphabet(), 4, &mut seen);
    }
    assert!(seen > 100_000, "{seen}");
}

#[test]
fn every_interleaving_around_the_submission() {
    let early = [
        Input::Admitted,
        Input::RuntimeReady,
        Input::NotStarted("no".into()),
        Input::NeverRan("no".into()),
        Input::NotTaken,
        Input::Cancel(CancelCause::Requested),
        Input::Fact(Fact::Began),
        Input::Timer(Timer::Timeout),
    ];
    let mut seen = 0;
    for policy in POLICIES {
        let task = Task::new("t".parse().expect("id"), policy, Some(Duration::from_secs(1)));
        explore(&task, &Watch::default(), &early, 6, &mut seen);
    }
    assert!(seen > 10_000, "{seen}");
}

/// A small generator, so that a seed names a schedule for ever.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % sides
    }
}

/// The world around one machine: it answers what it is asked, in any order, and sometimes not at all.
struct World {
    dice: Dice,
    pending: Vec<Input>,
    timers: Vec<(Timer, Millis)>,
    strays: Vec<Stray>,
    alive: bool,
    now: Millis,
}

impl World {
    fn react(&mut self, effects: &[Effect]) {
        for effect in effects {
            match effect {
                Effect::Submit => self.work(),
                Effect::Interrupt if self.dice.roll(3) > 0 => {
                    self.pending.push(Input::Fact(Fact::End(EndReport::Interrupted)));
                }
                Effect::Answer(id, _) => self.pending.push(Input::Fact(Fact::AnswerConfirmed(id.clone()))),
                Effect::ListStrays => self.pending.push(Input::Strays(self.strays.clone())),
                Effect::EndStray(stray) => {
                    let stubborn = self.dice.roll(6) == 0;
                    if !stubborn {
                        self.strays.retain(|other| other != stray);
                    }
                    let end = if stubborn { StrayEnd::Alive } else { StrayEnd::Gone };
                    self.pending.push(Input::StrayEnded(stray.clone(), end));
                }
                Effect::StopTree(_) => self.die(ExitFact::Signal { signal: 15, core: false }),
                Effect::SetTimer(timer, at) => {
                    self.timers.retain(|(other, _)| other != timer);
                    self.timers.push((*timer, *at));
                }
                Effect::DropTimer(timer) => self.timers.retain(|(other, _)| other != timer),
                _ => {}
            }
        }
    }

    fn work(&mut self) {
        for number in 0..self.dice.roll(6) {
            let fact = match self.dice.roll(4) {
                0 => ask(&format!("a{number}")),
                1 => Fact::OpenWork(self.dice.roll(2)),
                _ => delta("word "),
            };
            self.pending.push(Input::Fact(fact));
        }
        if self.dice.roll(2) == 0 {
            self.strays = vec![stray(7), stray(8)];
        }
        match self.dice.roll(4) {
            0 => {
                let code = self.dice.roll(2) as i32;
                self.die(ExitFact::Code { code });
            }
            1 => {}
            _ => {
                self.pending.push(Input::Fact(Fact::OpenWork(0)));
                let report = EndReport::Completed { stop_reason: StopReason::Finished };
                self.pending.push(Input::Fact(Fact::End(report)));
            }
        }
    }

    fn die(&mut self, exit: ExitFact) {
        if std::mem::take(&mut self.alive) {
            self.strays.clear();
            let last = if self.dice.roll(20) == 0 { Input::Lost(Loss::Leaked) } else { Input::Emptied };
            self.pending.extend([Input::Exited(exit), last, Input::OutputEnded, Input::ErrorsEnded("oops".into())]);
        }
    }

    /// The next thing that happens: mostly in order, sometimes not; the clock moves when nothing else does.
    fn next(&mut self) -> Option<Input> {
        if !self.pending.is_empty() {
            let index = if self.dice.roll(4) == 0 { self.dice.roll(self.pending.len()) } else { 0 };
            return Some(self.pending.remove(index));
        }
        let due = self.timers.iter().enumerate().min_by_key(|(_, (_, at))| *at).map(|(index, _)| index)?;
        let (timer, at) = self.timers.remove(due);
        self.now = self.now.max(at);
        Some(Input::Timer(timer))
    }
}

/// Runs one schedule to its verdict.
fn schedule(seed: u64) -> (Outcome, Watch) {
    let mut dice = Dice(seed);
    let policy = POLICIES[dice.roll(POLICIES.len())];
    let timeout = (dice.roll(3) == 0).then(|| Duration::from_millis(500));
    let cancel_at = dice.roll(12);
    let mut world =
        World { dice, pending: Vec::new(), timers: Vec::new(), strays: Vec::new(), alive: true, now: Millis(0) };
    let (mut task, mut watch) = (Task::new("t".parse().expect("id"), policy, timeout), Watch::default());
    world.pending.extend([Input::Admitted, Input::RuntimeReady]);
    for step in 0..400 {
        let mut input = world.next();
        if step == cancel_at || input.is_none() {
            // Whoever waits for ever asks for an end at last; so every schedule has one.
            input.iter().cloned().for_each(|input| world.pending.insert(0, input));
            input = Some(Input::Cancel(CancelCause::Requested));
        }
        let pending: Vec<InteractionId> = task.pending().map(|request| request.id.clone()).collect();
        let effects = feed(&mut task, &mut watch, input.expect("set above"), world.now);
        world.react(&effects);
        if let Some(id) = pending.first().filter(|_| world.dice.roll(3) == 0) {
            let effects = feed(&mut task, &mut watch, allow(id.as_str()), world.now);
            world.react(&effects);
        }
        if let Some(outcome) = &watch.settled {
            return (outcome.clone(), watch);
        }
    }
    panic!("seed {seed} has no verdict: {task:?}");
}

#[test]
fn ten_thousand_schedules_each_reach_one_verdict() {
    let mut verdicts = std::collections::BTreeMap::new();
    for seed in 0..10_000 {
        let (outcome, watch) = schedule(seed);
        if let Verdict::Cancelled { .. } = outcome.verdict {
            assert!(watch.cancel_requested, "seed {seed}: cancelled by nobody");
        }
        assert_eq!(outcome.evidence.cancel_requested, watch.cancel_requested, "seed {seed}");
        *verdicts.entry(outcome.verdict.word()).or_insert(0) += 1;
    }
    let words: Vec<_> = verdicts.keys().copied().collect();
    assert_eq!(words, ["cancelled", "completed", "failed", "unresolved"], "{verdicts:?}");
}

#[test]
fn output_obtained_so_far_is_part_of_every_verdict() {
    let (mut task, mut watch) = (Task::new("t".parse().expect("id"), POLICIES[0], None), Watch::default());
    let inputs = [
        Input::Admitted,
        Input::RuntimeReady,
        Input::Fact(delta("half an ")),
        Input::Fact(delta("answer")),
        Input::Exited(ExitFact::Signal { signal: 11, core: true }),
        Input::Emptied,
        Input::OutputEnded,
    ];
    for input in inputs {
        feed(&mut task, &mut watch, input, Millis(0));
    }
    let outcome = watch.settled.expect("settled");
    assert_eq!((outcome.verdict.word(), outcome.evidence.proof), ("failed", Proof::TreeEmpty));
    let expected = crate::contract::TaskOutput::Text { text: "half an answer".into(), complete: false };
    assert_eq!(outcome.output, Some(expected));
}

#[test]
fn a_second_cancel_is_by_force_and_a_third_adds_nothing() {
    let (mut task, mut watch) = (Task::new("t".parse().expect("id"), POLICIES[0], None), Watch::default());
    for input in [Input::Admitted, Input::RuntimeReady] {
        feed(&mut task, &mut watch, input, Millis(0));
    }
    let mut effects = Vec::new();
    for _ in 0..3 {
        effects.extend(feed(&mut task, &mut watch, Input::Cancel(CancelCause::Requested), Millis(0)));
    }
    let interrupts = effects.iter().filter(|effect| **effect == Effect::Interrupt).count();
    assert_eq!((interrupts, watch.stops), (1, vec![StopMode::Kill]));
}
