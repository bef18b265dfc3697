//! Following one task: its events, its questions, and the signals meanwhile.

use std::time::{Duration, Instant};

use ostler_supervisors::contract::{
    ApprovalDecision, ApprovalPolicy, CancelCause, InteractionId, InteractionResponse, Position, SessionId, TaskId,
};
use ostler_supervisors::ledger::TaskRow;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::super::printer::{Printer, Text};
use super::super::progress::Progress;
use super::super::signals::Signal;
use super::super::table::plain;
use crate::door::{Door, Events};
use crate::error::{Failure, Kind};

pub(super) struct Watch<'a> {
    pub(super) printer: &'a Printer,
    pub(super) door: &'a dyn Door,
    pub(super) task: &'a TaskId,
    pub(super) approval: ApprovalPolicy,
    pub(super) progress: Progress,
    pub(super) events: bool,
    /// How often an end was asked for.
    pub(super) asked: u32,
    pub(super) ttft: Option<Duration>,
    pub(super) started: Instant,
}

impl Watch<'_> {
    pub(super) async fn until_settled(
        &mut self,
        session: &SessionId,
        from: Position,
        signals: &mut mpsc::Receiver<Signal>,
    ) -> Result<TaskRow, Failure> {
        let mut events = self.door.events(session, from).await?;
        let run_id = self.task.run_id();
        loop {
            let found = tokio::select! {
                biased;
                signal = signals.recv() => {
                    self.signalled(signal).await?;
                    continue;
                }
                found = events.next() => found?,
            };
            let mut over = false;
            for event in &found {
                if let Ok(signal) = signals.try_recv() {
                    self.signalled(Some(signal)).await?;
                }
                over |= event["run_id"] == json!(run_id) && is_terminal(event);
                self.show(event, signals).await?;
            }
            if over {
                return self.door.wait(self.task).await;
            }
            if found.is_empty() {
                self.rest(events.as_mut(), signals).await?;
            }
        }
    }

    /// Waits for events or a signal.
    async fn rest(&mut self, events: &mut dyn Events, signals: &mut mpsc::Receiver<Signal>) -> Result<(), Failure> {
        tokio::select! {
            more = events.changed() => match more {
                true => Ok(()),
                false => Err(Failure::new(Kind::HarnessUnavailable, "the running Ostler ended")),
            },
            signal = signals.recv() => self.signalled(signal).await,
        }
    }

    async fn signalled(&mut self, signal: Option<Signal>) -> Result<(), Failure> {
        let cause = match signal {
            Some(Signal::Interrupt) => CancelCause::Requested,
            _ => CancelCause::ConsumerCancelled,
        };
        self.cancel(cause).await
    }

    /// The first time asks, the second time forces.
    async fn cancel(&mut self, cause: CancelCause) -> Result<(), Failure> {
        if self.asked > 0
            && let Some(line) = self.progress.line("forcing")
        {
            self.printer.try_put(Text::Err(line));
        }
        self.asked += 1;
        self.door.cancel(self.task, cause).await
    }

    async fn show(&mut self, event: &Value, signals: &mut mpsc::Receiver<Signal>) -> Result<(), Failure> {
        if self.ttft.is_none() && event["type"] == "message.delta" {
            self.ttft = Some(self.started.elapsed());
        }
        let text = match self.events {
            true => Some(Text::Out(format!("{event}\n"))),
            false => self.progress.of(event).map(Text::Err),
        };
        if let Some(text) = text {
            self.put(text, signals).await?;
        }
        if event["type"] == "approval.requested" {
            self.decide(&event["data"], signals).await?;
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
                    None => return self.cancel(CancelCause::ConsumerCancelled).await,
                },
                signal = signals.recv() => self.signalled(signal).await?,
            }
        }
        printer.try_put(text);
        Ok(())
    }

    /// The door answers as the caller, once for each request (rules 7). A signal is heard meanwhile.
    async fn decide(&mut self, data: &Value, signals: &mut mpsc::Receiver<Signal>) -> Result<(), Failure> {
        let Some(Ok(interaction)) = data["interaction_id"].as_str().map(str::parse::<InteractionId>) else {
            return Ok(());
        };
        let decision = match self.approval {
            ApprovalPolicy::Allow => ApprovalDecision::ApproveOnce,
            ApprovalPolicy::Deny => ApprovalDecision::Decline,
            ApprovalPolicy::Ask => {
                let clear = self.progress.clear().unwrap_or_default();
                let question = plain(data["prompt"].as_str().unwrap_or_default());
                let question = format!("{clear}allow? {question}\n[y]es, [n]o, [s]top the task: ");
                self.put(Text::Err(question), signals).await?;
                let (mark, written) = oneshot::channel();
                self.put(Text::Mark(mark), signals).await?;
                let answer = async {
                    // A question that nobody could see is not asked.
                    let _seen = written.await;
                    tokio::task::spawn_blocking(ask).await
                };
                tokio::select! {
                    decision = answer => decision.unwrap_or(ApprovalDecision::Decline),
                    signal = signals.recv() => return self.signalled(signal).await,
                }
            }
        };
        let response = InteractionResponse::Approval { decision };
        let answered = self.door.respond(self.task, interaction, response);
        tokio::select! {
            // One that closed meanwhile needs no answer; how it closed is an event.
            answered = answered => answered.map(drop),
            signal = signals.recv() => self.signalled(signal).await,
        }
    }
}

fn is_terminal(event: &Value) -> bool {
    matches!(event["type"].as_str(), Some("run.completed" | "run.failed" | "run.cancelled"))
}

fn ask() -> ApprovalDecision {
    let mut line = String::new();
    match std::io::stdin().read_line(&mut line) {
        Ok(count) if count > 0 => match line.trim().to_lowercase().as_str() {
            "y" | "yes" => ApprovalDecision::ApproveOnce,
            "s" | "stop" => ApprovalDecision::Cancel,
            _ => ApprovalDecision::Decline,
        },
        _ => ApprovalDecision::Decline,
    }
}
