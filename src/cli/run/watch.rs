//! Following one task: its events, its questions, and the signals meanwhile.

use std::pin::pin;
use std::time::{Duration, Instant};

use ostler_supervisors::contract::{
    ApprovalDecision, ApprovalPolicy, CancelCause, EventKind, InteractionId, InteractionResponse, Position, SessionId,
    TaskId,
};
use ostler_supervisors::ledger::TaskRow;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use super::super::printer::{Printer, Text};
use super::super::progress::Progress;
use super::super::signals::Signal;
use super::super::table::plain;
use super::question::{Typed, closed};
use crate::door::{Door, EventLine, EventView, Events};
use crate::error::{Failure, Kind};

/// How far progress may be behind a verdict that is known.
const LATE: Duration = Duration::from_secs(1);

/// Whether everything up to the verdict was shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    NotYet,
    Whole,
}

pub(super) struct Watch<'a> {
    pub(super) printer: &'a Printer,
    pub(super) door: &'a dyn Door,
    pub(super) session: &'a SessionId,
    pub(super) task: &'a TaskId,
    pub(super) approval: ApprovalPolicy,
    pub(super) progress: Progress,
    pub(super) events: bool,
    /// How often an end was asked for.
    pub(super) asked: u32,
    pub(super) ttft: Option<Duration>,
    pub(super) started: Instant,
    pub(super) typed: Typed,
}

/// What comes while a task is followed.
enum Heard {
    Signal(Option<Signal>),
    Settled(Result<Box<TaskRow>, Failure>),
    Events(Result<Vec<EventLine>, Failure>),
    /// There may be more events by now, or there never will be.
    More(bool),
    /// The verdict is known for long enough.
    Late,
}

/// How far a task was followed.
struct Followed {
    verdict: Option<Box<TaskRow>>,
    shown: Shown,
    events: Waiting,
}

/// Whether there are events to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waiting {
    Perhaps,
    NoneNow,
}

impl Watch<'_> {
    /// Follows the task until its verdict is known and everything before it was shown. Progress that is too far behind
    /// the verdict is left out; events that were asked for are not.
    pub(super) async fn until_settled(
        &mut self,
        from: Position,
        signals: &mut mpsc::Receiver<Signal>,
    ) -> Result<TaskRow, Failure> {
        let (door, task) = (self.door, self.task);
        let mut events = door.events(self.session, from).await?;
        let (mut settled, late) = (door.wait(task), tokio::time::sleep(Duration::MAX));
        tokio::pin!(late);
        let mut followed = Followed { verdict: None, shown: Shown::NotYet, events: Waiting::Perhaps };
        while followed.verdict.is_none() || followed.shown == Shown::NotYet {
            let known = followed.verdict.is_some();
            let heard = tokio::select! {
                biased;
                signal = signals.recv() => Heard::Signal(signal),
                found = &mut settled, if !known => Heard::Settled(found.map(Box::new)),
                () = &mut late, if known && !self.events => Heard::Late,
                heard = next(events.as_mut(), followed.events), if followed.shown == Shown::NotYet => heard,
            };
            if matches!(heard, Heard::Settled(_)) {
                late.as_mut().reset(tokio::time::Instant::now() + LATE);
            }
            self.hear(heard, &mut followed, signals).await?;
        }
        followed.verdict.map(|row| *row).ok_or_else(ended)
    }

    async fn hear(
        &mut self,
        heard: Heard,
        followed: &mut Followed,
        signals: &mut mpsc::Receiver<Signal>,
    ) -> Result<(), Failure> {
        match heard {
            Heard::Signal(signal) => self.signalled(signal, signals).await?,
            Heard::Settled(found) => followed.verdict = Some(found?),
            Heard::Events(found) => {
                let found = found?;
                followed.events = if found.is_empty() { Waiting::NoneNow } else { Waiting::Perhaps };
                followed.shown = self.show_all(&found, signals).await?;
            }
            Heard::More(true) => followed.events = Waiting::Perhaps,
            Heard::More(false) => return Err(ended()),
            Heard::Late => followed.shown = Shown::Whole,
        }
        Ok(())
    }

    async fn show_all(&mut self, lines: &[EventLine], signals: &mut mpsc::Receiver<Signal>) -> Result<Shown, Failure> {
        let (mut shown, run_id) = (Shown::NotYet, self.task.run_id());
        for line in lines {
            if let Ok(signal) = signals.try_recv() {
                self.signalled(Some(signal), signals).await?;
            }
            let event = line.view().map_err(|error| not_understood(&error))?;
            if event.run_id.as_deref() == Some(&run_id) && is_terminal(&event) {
                shown = Shown::Whole;
            }
            self.show(line, &event, signals).await?;
        }
        Ok(shown)
    }

    async fn signalled(&mut self, signal: Option<Signal>, signals: &mut mpsc::Receiver<Signal>) -> Result<(), Failure> {
        let cause = match signal {
            Some(Signal::Interrupt) => CancelCause::Requested,
            _ => CancelCause::ConsumerCancelled,
        };
        self.cancel(cause, signals).await
    }

    /// The first time asks, the second time forces. Whoever asks a third time before there was an answer has none.
    async fn cancel(&mut self, cause: CancelCause, signals: &mut mpsc::Receiver<Signal>) -> Result<(), Failure> {
        let (door, task) = (self.door, self.task);
        self.count();
        let mut asked = pin!(door.cancel(task, cause));
        tokio::select! {
            answer = &mut asked => return answer,
            _ = signals.recv() => self.count(),
        }
        let forced = async {
            asked.await?;
            door.cancel(task, cause).await
        };
        tokio::select! {
            answer = forced => answer,
            _ = signals.recv() => Err(unanswered(task)),
        }
    }

    fn count(&mut self) {
        if self.asked > 0
            && let Some(line) = self.progress.line("forcing")
        {
            self.printer.try_put(Text::Err(line));
        }
        self.asked += 1;
    }

    async fn show(
        &mut self,
        line: &EventLine,
        event: &EventView<'_>,
        signals: &mut mpsc::Receiver<Signal>,
    ) -> Result<(), Failure> {
        if self.ttft.is_none() && event.kind == "message.delta" {
            self.ttft = Some(self.started.elapsed());
        }
        let text = match self.events {
            true => Some(Text::Out(format!("{}\n", line.text()))),
            false => self.progress.of(event).map(Text::Err),
        };
        if let Some(text) = text {
            self.put(text, signals).await?;
        }
        if event.kind == "approval.requested" {
            self.decide(event, signals).await?;
        }
        Ok(())
    }

    /// Waits for the reader, and hears signals meanwhile. One that is gone cancels.
    pub(super) async fn put(&mut self, text: Text, signals: &mut mpsc::Receiver<Signal>) -> Result<(), Failure> {
        let printer = self.printer;
        // Whoever forces the end does not wait for a reader.
        while self.asked < 2 {
            tokio::select! {
                place = printer.place() => match place {
                    Some(place) => {
                        place.send(text);
                        return Ok(());
                    }
                    None if self.asked > 0 => return Ok(()),
                    None => return self.cancel(CancelCause::ConsumerCancelled, signals).await,
                },
                signal = signals.recv() => self.signalled(signal, signals).await?,
            }
        }
        printer.try_put(text);
        Ok(())
    }

    /// The door answers as the caller, once for each request (rules 7). A signal is heard meanwhile.
    async fn decide(&mut self, event: &EventView<'_>, signals: &mut mpsc::Receiver<Signal>) -> Result<(), Failure> {
        let data: Value = serde_json::from_str(event.data.get()).map_err(|error| not_understood(&error))?;
        let Some(Ok(interaction)) = data["interaction_id"].as_str().map(str::parse::<InteractionId>) else {
            return Ok(());
        };
        let decision = match self.approval {
            ApprovalPolicy::Allow => ApprovalDecision::ApproveOnce,
            ApprovalPolicy::Deny => ApprovalDecision::Decline,
            ApprovalPolicy::Ask => {
                let question = plain(data["prompt"].as_str().unwrap_or_default());
                match self.ask(&question, &interaction, Position(event.position), signals).await? {
                    Some(decision) => decision,
                    None => return Ok(()),
                }
            }
        };
        let response = InteractionResponse::Approval { decision };
        let answered = self.door.respond(self.task, interaction, response);
        tokio::select! {
            // One that closed meanwhile needs no answer; how it closed is an event.
            answered = answered => answered.map(drop),
            signal = signals.recv() => self.signalled(signal, signals).await,
        }
    }

    /// What the person at the terminal decides; `None` if it is no longer his to decide.
    async fn ask(
        &mut self,
        question: &str,
        interaction: &InteractionId,
        asked_at: Position,
        signals: &mut mpsc::Receiver<Signal>,
    ) -> Result<Option<ApprovalDecision>, Failure> {
        let clear = self.progress.clear().unwrap_or_default();
        self.typed.forget();
        self.put(Text::Err(format!("{clear}allow? {question}\n[y]es, [n]o, [s]top the task: ")), signals).await?;
        let (mark, written) = oneshot::channel();
        self.put(Text::Mark(mark), signals).await?;
        let typed = &mut self.typed;
        let answer = async {
            // A question that nobody could see is not asked.
            let _seen = written.await;
            typed.decision().await
        };
        tokio::select! {
            decision = answer => return Ok(Some(decision)),
            closed = closed(self.door, self.session, asked_at, interaction) => closed?,
            signal = signals.recv() => return self.signalled(signal, signals).await.map(|()| None),
        }
        self.put(Text::Err("\n(it is not asked any more)\n".to_owned()), signals).await?;
        Ok(None)
    }
}

async fn next(events: &mut dyn Events, waiting: Waiting) -> Heard {
    match waiting {
        Waiting::Perhaps => Heard::Events(events.next().await),
        Waiting::NoneNow => Heard::More(events.changed().await),
    }
}

fn unanswered(task: &TaskId) -> Failure {
    let text =
        format!("interrupted: whether the cancel of {task} is in force is not known; see `ostler task show {task}`");
    Failure::new(Kind::Unconfirmed, text)
}

fn ended() -> Failure {
    Failure::new(Kind::HarnessUnavailable, "the running Ostler ended")
}

pub(super) fn is_terminal(event: &EventView<'_>) -> bool {
    EventKind::stored(&event.kind).is_terminal()
}

pub(super) fn not_understood(error: &serde_json::Error) -> Failure {
    Failure::new(Kind::Internal, format!("the running Ostler speaks another version: {error}"))
}
