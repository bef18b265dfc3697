//! What is configured of Codex, in its own words.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is configured of Codex.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CodexOptions {
    /// When it asks.
    pub approval_policy: CodexApproval,
    /// What its tools may do.
    pub sandbox: CodexSandbox,
}

/// When Codex asks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CodexApproval {
    /// For everything it does not know to be safe.
    #[default]
    Untrusted,
    /// Where its model wants more than the sandbox lets it do.
    OnRequest,
    /// Never; what the sandbox forbids fails.
    Never,
}

/// What the tools of Codex may do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CodexSandbox {
    /// Read.
    ReadOnly,
    /// Write in its directory.
    #[default]
    WorkspaceWrite,
    /// Everything.
    DangerFullAccess,
}

impl fmt::Display for CodexApproval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Untrusted => "untrusted",
            Self::OnRequest => "on-request",
            Self::Never => "never",
        })
    }
}

impl fmt::Display for CodexSandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ReadOnly => "read-only",
            Self::WorkspaceWrite => "workspace-write",
            Self::DangerFullAccess => "danger-full-access",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_configured_is_what_codex_is_told() {
        for word in ["untrusted", "on-request", "never"] {
            let read: CodexApproval = serde_json::from_value(word.into()).expect("a policy");
            assert_eq!(read.to_string(), word);
        }
        for word in ["read-only", "workspace-write", "danger-full-access"] {
            let read: CodexSandbox = serde_json::from_value(word.into()).expect("a sandbox");
            assert_eq!(read.to_string(), word);
        }
    }
}
