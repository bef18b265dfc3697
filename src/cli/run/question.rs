//! A question that a person at the terminal answers, until somebody else does.

use std::io::{BufRead, IsTerminal, stdin};

use nix::sys::termios::{FlushArg, tcflush};
use ostler_supervisors::contract::{ApprovalDecision, InteractionId, Position, SessionId};
use serde::Deserialize;
use tokio::sync::mpsc;

use super::watch::{is_terminal, not_understood};
use crate::door::{Door, EventLine};
use crate::error::Failure;

/// Lines that are kept for a question to come; whoever types more waits.
const TYPED: usize = 8;

/// What a person types. One thread reads it for the whole process and ends with it, since nothing ends a wait for a
/// line.
#[derive(Debug, Default)]
pub(super) struct Typed {
    lines: Option<mpsc::Receiver<String>>,
}

impl Typed {
    /// What was typed before a question is shown is no answer to it.
    pub(super) fn forget(&mut self) {
        let lines = self.lines.get_or_insert_with(read_lines);
        while lines.try_recv().is_ok() {}
    }

    /// What the person decides; the end of input declines.
    pub(super) async fn decision(&mut self) -> ApprovalDecision {
        let lines = self.lines.get_or_insert_with(read_lines);
        match lines.recv().await.map(|line| line.trim().to_lowercase()).as_deref() {
            Some("y" | "yes") => ApprovalDecision::ApproveOnce,
            Some("s" | "stop") => ApprovalDecision::Cancel,
            Some(_) | None => ApprovalDecision::Decline,
        }
    }
}

fn read_lines() -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel(TYPED);
    if stdin().is_terminal() {
        // Of a terminal that is gone there is nothing to forget.
        let _forgotten = tcflush(stdin(), FlushArg::TCIFLUSH);
    }
    std::thread::spawn(move || {
        for line in stdin().lock().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// The part of an event's payload that says which question it is about.
#[derive(Debug, Deserialize)]
struct About {
    interaction_id: InteractionId,
}

/// Waits until the question is closed, by whomever, or its task is over; or until nobody tells any more.
pub(super) async fn closed(
    door: &dyn Door,
    session: &SessionId,
    after: Position,
    interaction: &InteractionId,
) -> Result<(), Failure> {
    let mut events = door.events(session, after).await?;
    loop {
        for line in events.next().await? {
            if closes(&line, interaction)? {
                return Ok(());
            }
        }
        if !events.changed().await {
            return Ok(());
        }
    }
}

fn closes(line: &EventLine, interaction: &InteractionId) -> Result<bool, Failure> {
    let event = line.view().map_err(|error| not_understood(&error))?;
    let is_about =
        || serde_json::from_str(event.data.get()).is_ok_and(|about: About| about.interaction_id == *interaction);
    Ok(is_terminal(&event) || (event.kind == "approval.resolved" && is_about()))
}
