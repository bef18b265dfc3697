//! The rows beside the streams.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::adapter::EndReport;
use crate::clock::Moment;
use crate::contract::{
    AgentUsage, CancelCause, Delegation, HarnessId, InteractionRequest, InteractionResolution, InteractionResponse,
    NativeId, Outcome, OwnerId, RuntimeId, SessionId, SessionSpec, TaskId,
};
use crate::machines::Millis;

/// Whether a session takes tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionState {
    /// It does.
    Open,
    /// It takes none any more; what runs of it is being ended.
    Closing,
    /// It was closed, and nothing of it runs; final.
    Closed,
}

/// What the harness itself stored of a session, and whether that was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NativeSession {
    /// The harness's own id.
    pub id: NativeId,
    /// Whether the harness has shown that it stored the session, so that a new process can resume it.
    pub resumable: bool,
}

/// One session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRow {
    /// Its id.
    pub id: SessionId,
    /// Its harness.
    pub harness: HarnessId,
    /// Its configuration.
    pub spec: SessionSpec,
    /// Whose it is.
    pub owner: OwnerId,
    /// Whether it takes tasks.
    pub state: SessionState,
    /// What the harness stored; written by [`super::Change::Native`] alone.
    #[serde(skip)]
    pub native: Option<NativeSession>,
    /// When it was made, in milliseconds since the Unix epoch.
    pub created_ms: u64,
}

/// Where a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// Its row is committed; nothing was started for it.
    Accepted,
    /// A runtime is being made ready for it.
    Admitted,
    /// The prompt is in the outbox, or in the order that starts its runtime: it may reach the agent at any time.
    Submitted,
    /// The agent works on it.
    Running,
    /// It waits for at least one answer.
    AwaitingResponse,
    /// It has its verdict.
    Settled,
}

impl TaskState {
    /// Every state but the last.
    pub const UNSETTLED: [Self; 5] =
        [Self::Accepted, Self::Admitted, Self::Submitted, Self::Running, Self::AwaitingResponse];

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Admitted => "admitted",
            Self::Submitted => "submitted",
            Self::Running => "running",
            Self::AwaitingResponse => "awaiting_response",
            Self::Settled => "settled",
        }
    }
}

impl TaskRow {
    /// A task that is just being accepted.
    pub fn accepted(id: TaskId, session: SessionId, delegation: Delegation, now_ms: u64) -> Self {
        Self {
            id,
            session,
            delegation,
            state: TaskState::Accepted,
            cancel: None,
            report: None,
            submitted: None,
            deadline: None,
            usage: AgentUsage::UNKNOWN,
            session_usage: None,
            outcome: None,
            created_ms: now_ms,
            updated_ms: now_ms,
        }
    }

    /// What of its time limit is left; all of it where its time has not begun, or began in another boot.
    pub fn time_left(&self, now: Millis) -> Option<Duration> {
        let whole = self.delegation.timeout?;
        let until = self.deadline.as_ref().and_then(Moment::in_this_boot);
        Some(until.map_or(whole, |until| Duration::from_millis(until.0.saturating_sub(now.0)).min(whole)))
    }

    /// Processes that started before this are not its own. Where that is not known, those that are there already are not.
    pub fn since(&self, now: Millis) -> Millis {
        self.submitted.as_ref().and_then(Moment::in_this_boot).unwrap_or(now)
    }
}

/// One task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRow {
    /// Its id.
    pub id: TaskId,
    /// Its session.
    pub session: SessionId,
    /// What was asked.
    pub delegation: Delegation,
    /// Where it stands.
    pub state: TaskState,
    /// Why it is to be cancelled, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<CancelCause>,
    /// How the agent reported its end, if it did and the verdict still waits for processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<EndReport>,
    /// When it was given to its runtime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submitted: Option<Moment>,
    /// When its time is over, once that has begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Moment>,
    /// What it used so far.
    #[serde(default)]
    pub usage: AgentUsage,
    /// What its session used so far, where the provider reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_usage: Option<AgentUsage>,
    /// Its verdict, once settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// When it was accepted, in milliseconds since the Unix epoch.
    pub created_ms: u64,
    /// When its state last changed.
    pub updated_ms: u64,
}

/// Whether an interaction is open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum InteractionState {
    /// It waits for an answer.
    Open,
    /// An answer is on its way to the agent, and is never given again.
    Answered {
        /// Which.
        response: InteractionResponse,
    },
    /// It is closed; final.
    Closed {
        /// How.
        resolution: InteractionResolution,
    },
}

/// One interaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InteractionRow {
    /// Its task.
    pub task: TaskId,
    /// What was asked.
    pub request: InteractionRequest,
    /// Whether it is open.
    pub state: InteractionState,
}

/// One runtime, as it was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimeRow {
    /// Its id.
    pub id: RuntimeId,
    /// The session it serves.
    pub session: SessionId,
    /// Its harness.
    pub harness: HarnessId,
    /// Whose it is.
    pub owner: OwnerId,
    /// The boot it was started in.
    pub boot: String,
    /// Its keeper's folder.
    pub folder: PathBuf,
    /// The task it was started with, where the start is the submission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submits: Option<TaskId>,
    /// When it was asked for, in milliseconds since the Unix epoch.
    pub created_ms: u64,
}

/// One runtime with what changes often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeState {
    /// How it was started.
    pub row: RuntimeRow,
    /// Output before this was turned into facts.
    pub offset: u64,
    /// Whether the rest of an over-long frame is being discarded.
    pub discarding: bool,
    /// The adapter's last snapshot.
    pub snapshot: Option<Vec<u8>>,
}

/// What follows a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OutboxThen {
    /// Possibly more messages.
    Continue,
    /// The end of input.
    EndOfInput,
}

/// One message to an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxItem {
    /// Its number, from 1 without gaps.
    pub number: u64,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// What follows it.
    pub then: OutboxThen,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::ApprovalPolicy;

    fn row(timeout: Option<Duration>) -> TaskRow {
        let delegation = Delegation { prompt: "x".into(), approval: ApprovalPolicy::Deny, model: None, timeout };
        TaskRow::accepted("t".parse().expect("id"), "s".parse().expect("id"), delegation, 0)
    }

    #[test]
    fn what_is_left_of_a_time_limit_is_told_by_the_clock_of_the_boot_alone() {
        let limited = || row(Some(Duration::from_secs(1)));
        let begun = |deadline| TaskRow { deadline: Some(deadline), ..limited() };
        let left = |row: TaskRow, now| row.time_left(Millis(now)).expect("limited").as_millis();
        assert_eq!(left(limited(), 5000), 1000, "it has not begun");
        assert_eq!(left(begun(Moment::at(Millis(5400))), 5000), 400);
        assert_eq!(left(begun(Moment::at(Millis(5400))), 9000), 0);
        assert_eq!(left(begun(Moment::of_another_boot(1)), 5000), 1000);
        assert_eq!(row(None).time_left(Millis(0)), None);
    }

    #[test]
    fn processes_are_a_tasks_own_from_its_submission_on() {
        let given = |submitted| TaskRow { submitted, ..row(None) }.since(Millis(5000)).0;
        assert_eq!(given(Some(Moment::at(Millis(4000)))), 4000);
        assert_eq!([given(None), given(Some(Moment::of_another_boot(4000)))], [5000, 5000]);
    }
}
