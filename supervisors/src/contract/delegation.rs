//! What is asked for: a session's configuration and one task in it.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Who decides effects that the provider submits for approval (rules 7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalPolicy {
    /// The caller is asked.
    Ask,
    /// Everything is declined, within a second.
    Deny,
    /// The door answers "once" to each, as the caller.
    Allow,
}

/// The configuration of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSpec {
    /// The directory that tools work in; absolute.
    pub directory: PathBuf,
    /// The model in the provider's words; `None` is the provider's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// One task: a typed superset of AHP's request, without a free-form bag (rules 11).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delegation {
    /// The prompt, byte for byte what the model gets. Never empty.
    pub prompt: String,
    /// Who decides approvals.
    pub approval: ApprovalPolicy,
    /// From this task on its session works with this model, in the provider's words; `None` keeps the one it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// After this the task is cancelled by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
}
