//! Words for what a task does (AHP 1.11).

use serde::{Deserialize, Serialize};

/// The life of one piece of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WorkStatus {
    /// The attempt began; nothing need have changed yet.
    Started,
    /// It goes on.
    Updated,
    /// It ended well.
    Completed,
    /// It ended badly.
    Failed,
    /// It was not performed, because of an approval or a policy.
    Declined,
    /// Its own cancelled end was confirmed.
    Cancelled,
}

/// What kind of external effect was observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EffectKind {
    /// A command was run.
    Command,
    /// Files were changed.
    FileChange,
    /// The web was searched.
    WebSearch,
    /// An effect is evidenced but unclassified.
    Other,
}

/// Who a message is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MessageRole {
    /// The answer.
    Answer,
    /// Remarks on the way.
    Commentary,
    /// Explanations the provider itself exposes.
    Explanation,
    /// Not known; never dressed up as an answer.
    Unknown,
}

/// What a warning is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WarningKind {
    /// The context is nearly full.
    ContextPressure,
    /// Something in the configuration.
    Configuration,
    /// The provider retries by itself.
    Recoverable,
    /// Anything else.
    Other,
}
