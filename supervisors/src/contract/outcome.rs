//! The one final verdict of a task (AHP 1.8).

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{AgentUsage, Evidence, TaskOutput};

/// Why a completed task stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[non_exhaustive]
pub enum StopReason {
    /// The agent ended on its own.
    Finished,
    /// It reached its limit of rounds.
    IterationLimit,
    /// It was caught in a loop.
    LoopDetected,
    /// The provider stopped it.
    ProviderStopped,
}

/// What kind of failure was confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[non_exhaustive]
pub enum FailureKind {
    /// A retry may work.
    Transient,
    /// Credentials.
    Authentication,
    /// The provider's policy, sandbox or safety filter.
    PolicyBlocked,
    /// The context is full.
    ContextOverflow,
    /// A budget of the provider is spent.
    BudgetExceeded,
    /// Another failure that the provider reported.
    Provider,
    /// A transport failure that is confirmed to have failed the task.
    Transport,
    /// Confirmed, but of no known kind: a crash, for example.
    Unknown,
}

/// Why a task's end cannot be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[non_exhaustive]
pub enum UnresolvedReason {
    /// Only the observation broke.
    ObservationLost,
    /// A published limit ran out.
    CleanupBoundExceeded,
    /// A cancel was accepted and its end was not seen.
    CancellationUnconfirmed,
    /// Some facts of the end, not enough.
    PartialEvidence,
}

impl UnresolvedReason {
    /// The word on the wire.
    pub fn word(self) -> &'static str {
        match self {
            Self::ObservationLost => "OBSERVATION_LOST",
            Self::CleanupBoundExceeded => "CLEANUP_BOUND_EXCEEDED",
            Self::CancellationUnconfirmed => "CANCELLATION_UNCONFIRMED",
            Self::PartialEvidence => "PARTIAL_EVIDENCE",
        }
    }
}

/// Why a task was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CancelCause {
    /// The caller asked.
    Requested,
    /// The owner left (a closed terminal, a closed output, a client gone).
    ConsumerCancelled,
    /// Ostler was told to stop.
    Shutdown,
    /// The task's own time limit passed.
    Timeout,
}

impl CancelCause {
    /// The word on the wire.
    pub fn word(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::ConsumerCancelled => "consumer_cancelled",
            Self::Shutdown => "shutdown",
            Self::Timeout => "timeout",
        }
    }
}

/// One of four verdicts, and what belongs to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub enum Verdict {
    /// The end and its result were confirmed.
    Completed {
        /// Why it stopped.
        stop_reason: StopReason,
    },
    /// The failure was confirmed.
    Failed {
        /// Its kind.
        kind: FailureKind,
        /// What happened, for a person.
        message: String,
    },
    /// The end because of a cancel was confirmed. Nothing is rolled back.
    Cancelled {
        /// Who wanted it.
        cause: CancelCause,
    },
    /// No end was confirmed; work may go on.
    Unresolved {
        /// Why.
        reason: UnresolvedReason,
        /// What is established and what is not.
        known: String,
    },
}

impl Verdict {
    /// The word for it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Completed { .. } => "completed",
            Self::Failed { .. } => "failed",
            Self::Cancelled { .. } => "cancelled",
            Self::Unresolved { .. } => "unresolved",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A verdict with everything that is part of it: what was obtained, what it cost, what it rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The verdict.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// What it rests on.
    pub evidence: Evidence,
    /// What was obtained; kept in all four verdicts.
    pub output: Option<TaskOutput>,
    /// What the task used.
    pub usage: AgentUsage,
    /// What the session used so far, where the provider reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_usage: Option<AgentUsage>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{CancelCause, UnresolvedReason};

    #[test]
    fn words_are_those_of_the_wire() {
        use CancelCause::{ConsumerCancelled, Requested, Shutdown, Timeout};
        use UnresolvedReason::{CancellationUnconfirmed, CleanupBoundExceeded, ObservationLost, PartialEvidence};
        for cause in [Requested, ConsumerCancelled, Shutdown, Timeout] {
            assert_eq!(json!(cause), cause.word());
        }
        for reason in [ObservationLost, CleanupBoundExceeded, CancellationUnconfirmed, PartialEvidence] {
            assert_eq!(json!(reason), reason.word());
        }
    }
}
