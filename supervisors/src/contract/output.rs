//! The delivered work product (AHP 1.8).

use serde::{Deserialize, Serialize};

/// What a task delivered. Absent output differs from empty text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
#[non_exhaustive]
pub enum TaskOutput {
    /// Plain text.
    Text {
        /// The text.
        text: String,
        /// `false`: only what was obtained before the end.
        complete: bool,
    },
}

impl TaskOutput {
    /// The text of it.
    pub fn text(&self) -> &str {
        match self {
            Self::Text { text, .. } => text,
        }
    }
}
