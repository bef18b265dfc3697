//! One agent's part, from its session to its verdict.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use ostler_supervisors::clock;
use ostler_supervisors::contract::{
    ApprovalDecision, ApprovalPolicy, CancelCause, Delegation, InteractionId, InteractionResponse, Position, SessionId,
    SessionSpec, TaskId,
};
use ostler_supervisors::ledger::TaskRow;
use serde_json::Value;

use super::super::table::brief;
use super::parts::{Part, Person};
use super::stage;
use crate::door::{Door, Embedded, EventView};
use crate::error::Failure;

/// How much of what an agent says is shown.
const SAID: usize = 40;

/// What is seen of an agent from outside.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) part: Part,
    pub(super) session: Option<SessionId>,
    pub(super) state: State,
    /// What it said or did last.
    pub(super) said: String,
    /// Processes it left that were ended.
    pub(super) strays: usize,
}

impl Seen {
    pub(super) fn waiting(part: Part) -> Self {
        Self { part, session: None, state: State::Waiting, said: String::new(), strays: 0 }
    }
}

/// Where an agent is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Waiting,
    Starting,
    Working,
    Asking,
    Cancelling,
    /// With this verdict.
    Settled(&'static str),
}

impl State {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Starting => "starting",
            Self::Working => "working",
            Self::Asking => "asking",
            Self::Cancelling => "cancelling",
            Self::Settled(verdict) => verdict,
        }
    }
}

/// How a part ended.
pub(super) struct Ended {
    pub(super) row: TaskRow,
    pub(super) took: Duration,
}

pub(super) async fn play(door: &Embedded, place: &std::path::Path, seen: &RefCell<Seen>) -> Result<Ended, Failure> {
    let (part, started) = (seen.borrow().part, Instant::now());
    let spec = SessionSpec { directory: place.to_owned(), model: None };
    let session = door.open_session(stage::harness(part.speaks)?, spec).await?;
    seen.borrow_mut().session = Some(session.clone());
    let task = TaskId::generate(clock::wall_ms());
    let delegation = Delegation { prompt: part.script.to_owned(), approval: part.approval, model: None, timeout: None };
    door.start_task(&session, &task, delegation).await?;
    seen.borrow_mut().state = State::Starting;
    let row = tokio::select! {
        row = door.wait(&task) => row?,
        followed = follow(door, &session, &task, seen) => return Err(followed.err().unwrap_or_else(never)),
    };
    let verdict = row.outcome.as_ref().map_or("unsettled", |outcome| outcome.verdict.word());
    seen.borrow_mut().state = State::Settled(verdict);
    Ok(Ended { row, took: started.elapsed() })
}

fn never() -> Failure {
    Failure::new(crate::error::Kind::Internal, "a session's events ended before its task")
}

/// Goes on until it is dropped.
async fn follow(door: &Embedded, session: &SessionId, task: &TaskId, seen: &RefCell<Seen>) -> Result<(), Failure> {
    let mut events = door.events(session, Position(1)).await?;
    loop {
        let found = events.next().await?;
        for line in &found {
            if let Ok(event) = line.view() {
                heard(door, task, seen, &event).await?;
            }
        }
        if found.is_empty() && !events.changed().await {
            return Ok(());
        }
    }
}

async fn heard(door: &Embedded, task: &TaskId, seen: &RefCell<Seen>, event: &EventView<'_>) -> Result<(), Failure> {
    let data: Value = serde_json::from_str(event.data.get()).unwrap_or_default();
    let part = seen.borrow().part;
    let shows = match &*event.kind {
        "message.delta" | "model.thinking" => Some((State::Working, &data["text"])),
        "tool.requested" => Some((State::Working, &data["arguments"])),
        "approval.requested" => Some((State::Asking, &data["prompt"])),
        "ostler.stray.ended" => {
            seen.borrow_mut().strays += 1;
            None
        }
        _ => None,
    };
    let Some((state, text)) = shows else { return Ok(()) };
    {
        let mut seen = seen.borrow_mut();
        seen.said = brief(text.as_str().unwrap_or_default(), SAID);
        if seen.state != State::Cancelling {
            seen.state = state;
        }
    }
    if state == State::Asking && part.approval == ApprovalPolicy::Allow {
        allow(door, task, &data).await?;
    }
    let cancels = part.person == Person::Cancels && seen.borrow().state != State::Cancelling;
    if cancels && &*event.kind == "message.delta" {
        seen.borrow_mut().state = State::Cancelling;
        door.cancel(task, CancelCause::Requested).await?;
    }
    Ok(())
}

/// The person allows it, once.
async fn allow(door: &Embedded, task: &TaskId, data: &Value) -> Result<(), Failure> {
    let Some(Ok(interaction)) = data["interaction_id"].as_str().map(str::parse::<InteractionId>) else {
        return Ok(());
    };
    let response = InteractionResponse::Approval { decision: ApprovalDecision::ApproveOnce };
    // One that closed meanwhile needs no answer.
    door.respond(task, interaction, response).await.map(drop)
}
