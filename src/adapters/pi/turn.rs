//! One prompt, from its command to the rest that follows it.

use ostler_supervisors::adapter::{Answer, EndReport, Fact};
use ostler_supervisors::contract::{AgentUsage, Delegation, FailureKind, StopReason, WarningKind};
use serde::{Deserialize, Serialize};

use super::wire::{Asked, Command, LastAnswer, Line, Message, State, is_true, number, read, short, text};
use super::{Became, Machine, warn};

/// The task under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Turn {
    /// The number of its command.
    pub(super) prompt: u64,
    stage: Stage,
    stop: Stop,
    end: End,
    follows: Follows,
    hurdle: Hurdle,
    /// How many messages of the model have begun.
    pub(super) messages: u64,
    /// What they have counted so far.
    pub(super) usage: Option<AgentUsage>,
}

/// How far a prompt has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Stage {
    Sent,
    Taken,
    /// A run of it has begun.
    Running,
}

/// Whether we asked for its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Stop {
    Unasked,
    Asked,
    /// The same, while it waited to try again: the failure before that is not its end.
    CutShort,
}

/// How its last run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum End {
    /// It has not.
    Open,
    Held(EndReport),
    /// It was told, and work of it goes on.
    Told,
}

/// What is announced to follow a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Follows {
    Nothing,
    Run,
    Compaction,
}

/// What it met on its way, by which its failure is classified: an error of a model is only a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Hurdle {
    None,
    /// Pi holds its failure for one that may pass.
    Passing,
    /// The context was full.
    Overflow,
}

impl Turn {
    fn new(prompt: u64) -> Self {
        Self {
            prompt,
            stage: Stage::Sent,
            stop: Stop::Unasked,
            end: End::Open,
            follows: Follows::Nothing,
            hurdle: Hurdle::None,
            messages: 0,
            usage: None,
        }
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop >= Stop::Asked
    }

    fn failure(&self) -> FailureKind {
        match self.hurdle {
            Hurdle::None => FailureKind::Provider,
            Hurdle::Passing => FailureKind::Transient,
            Hurdle::Overflow => FailureKind::ContextOverflow,
        }
    }

    /// The report as it stands when nothing follows any more.
    fn judged(&self, report: EndReport) -> EndReport {
        match report {
            EndReport::Failed { .. } if self.stop == Stop::CutShort => EndReport::Interrupted,
            EndReport::Failed { kind: FailureKind::Provider, message } => {
                EndReport::Failed { kind: self.failure(), message }
            }
            other => other,
        }
    }
}

impl Machine {
    /// What is said outside of a run of the task is nobody's.
    pub(super) fn running(&mut self) -> Option<&mut Turn> {
        self.turn.as_mut().filter(|turn| turn.stage == Stage::Running)
    }

    pub(super) fn submit(&mut self, delegation: &Delegation, answer: &mut Answer) {
        self.turn = Some(Turn::new(self.next_id));
        self.request(Asked::Prompt, Command::Prompt { message: &delegation.prompt }, answer);
    }

    pub(super) fn prompt_answered(&mut self, line: &Line<'_>, answer: &mut Answer) {
        let Some(turn) = &mut self.turn else { return };
        if is_true(line.success) {
            turn.stage = turn.stage.max(Stage::Taken);
            answer.fact(Fact::Accepted);
            // One that an extension's command has obeyed has no run.
            return self.probe(answer);
        }
        self.turn = None;
        let said = short(&text(line.error).unwrap_or_default());
        answer.fact(Fact::NotAccepted { message: format!("pi did not take the prompt: {said}") });
    }

    pub(super) fn interrupt(&mut self, answer: &mut Answer) {
        let Some(turn) = &mut self.turn else { return };
        let stop = if turn.follows == Follows::Run { Stop::CutShort } else { Stop::Asked };
        turn.stop = turn.stop.max(stop);
        self.request(Asked::Abort, Command::Abort, answer);
    }

    /// Whether there is more to come of a run is known once Pi has said whether it is at rest.
    pub(super) fn probe(&mut self, answer: &mut Answer) {
        if self.turn.is_some() {
            self.request(Asked::Rest, Command::GetState, answer);
        }
    }

    pub(super) fn began(&mut self, answer: &mut Answer) -> Became {
        let Some(turn) = &mut self.turn else { return Became::Noted };
        if turn.stage < Stage::Running {
            answer.fact(Fact::Began);
        }
        turn.stage = Stage::Running;
        (turn.end, turn.follows) = (End::Open, Follows::Nothing);
        // An abort that came before it had no effect.
        if turn.is_stopped() {
            self.request(Asked::Abort, Command::Abort, answer);
        }
        Became::Mapped
    }

    pub(super) fn run_ended(&mut self, line: &Line<'_>, answer: &mut Answer) -> Became {
        let Some(turn) = self.turn.as_mut().filter(|turn| turn.stage == Stage::Running) else { return Became::Noted };
        let last = read::<LastAnswer<'_>>(line.messages).and_then(|last| last.0);
        turn.end = End::Held(report(last.as_ref(), turn.stop));
        self.tools.clear();
        self.probe(answer);
        Became::Mapped
    }

    pub(super) fn retries(&mut self, line: &Line<'_>, answer: &mut Answer) -> Became {
        let Some(turn) = &mut self.turn else { return Became::Noted };
        (turn.follows, turn.hurdle) = (Follows::Run, turn.hurdle.max(Hurdle::Passing));
        let count = |raw| number(raw).unwrap_or_default();
        let message = format!(
            "the model's server: {}; attempt {} of {} in {} ms",
            short(&text(line.error_message).unwrap_or_default()),
            count(line.attempt),
            count(line.max_attempts),
            count(line.delay_ms)
        );
        warn(WarningKind::Recoverable, message, answer);
        Became::Mapped
    }

    pub(super) fn retried(&mut self, line: &Line<'_>, answer: &mut Answer) -> Became {
        let Some(turn) = &mut self.turn else { return Became::Noted };
        if is_true(line.success) {
            turn.hurdle = Hurdle::None;
            return Became::Mapped;
        }
        // What it gave up may have been a pause that no run's end came before.
        turn.follows = Follows::Nothing;
        self.probe(answer);
        Became::Mapped
    }

    /// One that makes room for a prompt that failed is followed by another run; any other is work that the task leaves. An
    /// answer that came all the same is not asked for again, whatever is announced.
    pub(super) fn compacts(&mut self, line: &Line<'_>, answer: &mut Answer) -> Became {
        let Some(turn) = &mut self.turn else { return Became::Noted };
        let reason = text(line.reason).unwrap_or_default();
        warn(WarningKind::ContextPressure, format!("pi compacts its context ({})", short(&reason)), answer);
        turn.follows = Follows::Compaction;
        match &turn.end {
            End::Held(EndReport::Failed { .. }) if reason == "overflow" => turn.hurdle = Hurdle::Overflow,
            End::Held(report) => {
                let report = turn.judged(report.clone());
                turn.end = End::Told;
                answer.fact(Fact::OpenWork(1));
                answer.fact(Fact::End(report));
            }
            End::Open | End::Told => {}
        }
        Became::Mapped
    }

    pub(super) fn compacted(&mut self, line: &Line<'_>, answer: &mut Answer) -> Became {
        let Some(turn) = &mut self.turn else { return Became::Noted };
        let is_made_room = is_true(line.will_retry) && turn.hurdle == Hurdle::Overflow;
        turn.follows = if is_made_room { Follows::Run } else { Follows::Nothing };
        if is_made_room {
            turn.hurdle = Hurdle::None;
        }
        if let Some(said) = text(line.error_message) {
            warn(WarningKind::ContextPressure, short(&said), answer);
        }
        self.probe(answer);
        Became::Mapped
    }

    pub(super) fn settle_if_over(&mut self, line: &Line<'_>, answer: &mut Answer) {
        let Some(state) = read::<State<'_>>(line.data) else { return };
        self.follow_session(&state, answer);
        let is_at_work = is_true(state.is_streaming) || is_true(state.is_compacting);
        let Some(turn) = self.turn.take_if(|turn| !is_at_work && turn.is_over()) else { return };
        match turn.end.clone() {
            End::Held(report) => answer.fact(Fact::End(turn.judged(report))),
            End::Told => answer.fact(Fact::OpenWork(0)),
            End::Open => {
                let message = "pi took the prompt for a command of its own, and asked no model".to_owned();
                warn(WarningKind::Other, message, answer);
                answer.fact(Fact::End(EndReport::Completed { stop_reason: StopReason::Finished }));
            }
        }
    }
}

impl Turn {
    /// Whether nothing of it is to come, as far as it was said.
    fn is_over(&self) -> bool {
        let ended = self.stage == Stage::Taken || self.end != End::Open;
        ended && self.stage >= Stage::Taken && self.follows == Follows::Nothing
    }
}

/// How a run ended, by the last answer of its model.
fn report(last: Option<&Message<'_>>, stop: Stop) -> EndReport {
    let word = last.and_then(|last| text(last.stop_reason)).unwrap_or_default();
    let said = last.and_then(|last| text(last.error_message)).map(|said| short(&said));
    match (word.as_str(), stop) {
        ("stop" | "toolUse", _) => EndReport::Completed { stop_reason: StopReason::Finished },
        ("length", _) => EndReport::Completed { stop_reason: StopReason::ProviderStopped },
        ("aborted", Stop::Asked | Stop::CutShort) => EndReport::Interrupted,
        ("aborted", Stop::Unasked) => EndReport::Failed {
            kind: FailureKind::Unknown,
            message: "the run was aborted, and not by Ostler".to_owned(),
        },
        ("error", _) => {
            EndReport::Failed { kind: FailureKind::Provider, message: said.unwrap_or_else(|| "no reason given".into()) }
        }
        (other, _) => EndReport::Unknown { status: other.chars().take(100).collect() },
    }
}
