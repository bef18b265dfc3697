//! Requests of a task for an external response (AHP 1.10).

use serde::{Deserialize, Serialize};

use super::{EffectKind, InteractionId, WorkId};

/// What a caller may decide about an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ApprovalDecision {
    /// This once.
    ApproveOnce,
    /// Refuse this action; the task goes on and may choose something else.
    Decline,
    /// Refuse, and ask the provider to stop the task.
    Cancel,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
#[non_exhaustive]
pub enum InteractionKind {
    /// May this effect happen?
    Approval {
        /// What kind of effect, where the provider says so.
        effect: Option<EffectKind>,
        /// The answers offered; never empty.
        available: Vec<ApprovalDecision>,
    },
    /// A typed question.
    Question {
        /// The answers offered; empty for free text only.
        choices: Vec<String>,
    },
}

/// One open request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InteractionRequest {
    /// Its id, unique within the task.
    pub id: InteractionId,
    /// The work it is about, where the provider says so.
    pub work: Option<WorkId>,
    /// What a person is asked.
    pub prompt: String,
    /// What is asked.
    #[serde(flatten)]
    pub kind: InteractionKind,
}

/// One answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
#[non_exhaustive]
pub enum InteractionResponse {
    /// To an approval.
    Approval {
        /// The decision.
        decision: ApprovalDecision,
    },
    /// To a question.
    Answer {
        /// The text.
        text: String,
    },
}

/// Why a request closed without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[non_exhaustive]
pub enum ClearReason {
    /// The task is to be cancelled.
    CancellationRequested,
    /// The handle ended.
    TaskEnded,
    /// Another request took its place.
    Superseded,
    /// The provider took it back.
    ProviderWithdrawn,
    /// An answer was sent and its acceptance is unknown.
    ResponseUnconfirmed,
}

/// How a request closed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "resolution")]
#[non_exhaustive]
pub enum InteractionResolution {
    /// By an answer whose acceptance is confirmed.
    Responded {
        /// The answer.
        response: InteractionResponse,
    },
    /// Without one.
    Cleared {
        /// Why.
        reason: ClearReason,
    },
}

impl InteractionRequest {
    /// Whether this answer fits this request.
    pub fn accepts(&self, response: &InteractionResponse) -> bool {
        match (&self.kind, response) {
            (InteractionKind::Approval { available, .. }, InteractionResponse::Approval { decision }) => {
                available.contains(decision)
            }
            (InteractionKind::Question { choices }, InteractionResponse::Answer { text }) => {
                choices.is_empty() || choices.contains(text)
            }
            _ => false,
        }
    }
}
