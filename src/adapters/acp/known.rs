//! What single agents do in their own way, by the name they give themselves. Everything else is as the protocol has it.

use agent_client_protocol_schema::v1::{Error, ErrorCode};
use ostler_supervisors::contract::{FailureKind, NativeId};
use serde::{Deserialize, Serialize};

/// The HTTP status by which a provider says that it takes no more for now, as some agents pass it on.
const LIMITED: i32 = 429;

/// Agents whose ways were measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Known {
    /// Gemini CLI 0.61.0.
    Gemini,
    /// The Claude Code adapter 0.101.0.
    ClaudeAgentAcp,
    /// The Codex adapter 2.6.0.
    CodexAcp,
    /// Hermes 0.19.0.
    Hermes,
    /// Copilot CLI 1.0.102 and Mistral Vibe 3.0.2.
    CountsSessions,
    /// Any other.
    Other,
}

/// What the usage in a turn's answer counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counting {
    Turn,
    Session,
}

impl Known {
    pub(super) fn of(name: &str) -> Self {
        match name {
            "gemini-cli" => Self::Gemini,
            "@agentclientprotocol/claude-agent-acp" => Self::ClaudeAgentAcp,
            "@agentclientprotocol/codex-acp" => Self::CodexAcp,
            "hermes-agent" => Self::Hermes,
            "Copilot" | "@mistralai/mistral-vibe" => Self::CountsSessions,
            _ => Self::Other,
        }
    }

    pub(super) fn counting(self) -> Counting {
        if self == Self::CountsSessions { Counting::Session } else { Counting::Turn }
    }

    /// The name under which a stored session is loaded. Gemini begins a file of its own before it looks for the one to
    /// load, and names it by the minute and the first letters of the id: within the minute in which a session began, it
    /// would write over it. It trims an id before it looks for it, so a blank makes the two files differ.
    pub(super) fn loaded_as(self, session: &NativeId) -> String {
        if self == Self::Gemini { format!(" {session}") } else { session.to_string() }
    }

    /// Whether a session could not be loaded since the agent has none of this name. Gemini says so in words alone.
    pub(super) fn has_lost(self, error: &Error) -> bool {
        let said = error.data.as_ref().and_then(|data| data["details"].as_str()).unwrap_or_default();
        let words = ["No previous sessions found", "Invalid session identifier"];
        error.code == ErrorCode::ResourceNotFound
            || self == Self::Gemini && words.into_iter().any(|words| said.starts_with(words))
    }

    /// Whether an error that follows our cancel is that cancel: Hermes has no other answer for a cancelled tool.
    pub(super) fn is_interrupt(self, error: &Error) -> bool {
        match error.code {
            ErrorCode::RequestCancelled => true,
            ErrorCode::InternalError => self == Self::Hermes,
            _ => false,
        }
    }

    /// What kind of failure an error is, where the agent has a word of its own for it: Claude Code's adapter calls all of
    /// its errors internal, and names the kind beside.
    pub(super) fn failure_kind(self, error: &Error) -> Option<FailureKind> {
        match self.named_kind(error)? {
            "rate_limit" | "overloaded" | "server_error" => Some(FailureKind::Transient),
            "authentication_failed" | "oauth_org_not_allowed" | "verification_required" | "cloud_credential_error" => {
                Some(FailureKind::Authentication)
            }
            "billing_error" | "account_on_hold" => Some(FailureKind::BudgetExceeded),
            _ => None,
        }
    }

    /// Whether an error is that a provider takes no more for now.
    pub(super) fn is_limit(self, error: &Error) -> bool {
        i32::from(error.code) == LIMITED || self.named_kind(error) == Some("rate_limit")
    }

    fn named_kind(self, error: &Error) -> Option<&str> {
        error.data.as_ref().filter(|_| self == Self::ClaudeAgentAcp)?["errorKind"].as_str()
    }

    /// Whether the agent itself obeys this prompt, without its model.
    pub(super) fn is_command(self, prompt: &str) -> bool {
        self == Self::Gemini && prompt.trim_start().starts_with(['/', '$'])
    }
}
