//! Expected errors: one table from what happened to exit code, HTTP status and RPC code (rules 2).

use ostler_supervisors::actors::{Refusal, SessionError, StartError};
use ostler_supervisors::harness::HarnessError;
use ostler_supervisors::ledger::LedgerError;
use ostler_supervisors::machines::context::ContextError;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// What kind of thing went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The caller's words are off.
    InvalidInput,
    /// There is no such thing, or it is not the caller's.
    NotFound,
    /// Another task runs in the session.
    SessionBusy,
    /// The end of the session's last task is not known.
    SessionBlocked,
    /// It is closed, or belongs to another process.
    InvalidState,
    /// The harness cannot do what is wanted of it.
    Unsupported,
    /// Nothing can be started now.
    HarnessUnavailable,
    /// The store cannot be used.
    StoreUnavailable,
    /// The configuration is off.
    Configuration,
    /// Whether it happened is not known.
    Unconfirmed,
    /// Whoever read what is printed has gone.
    OutputClosed,
    /// What is printed cannot be written.
    OutputFailed,
    /// A defect.
    Internal,
}

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Codes {
    /// The exit code of a shell command.
    pub exit: u8,
    /// The HTTP status.
    pub http: u16,
    /// The JSON-RPC code.
    pub rpc: i32,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 13] = [
        Self::InvalidInput,
        Self::NotFound,
        Self::SessionBusy,
        Self::SessionBlocked,
        Self::InvalidState,
        Self::Unsupported,
        Self::HarnessUnavailable,
        Self::StoreUnavailable,
        Self::Configuration,
        Self::Unconfirmed,
        Self::OutputClosed,
        Self::OutputFailed,
        Self::Internal,
    ];

    /// The table.
    pub fn codes(self) -> Codes {
        let (exit, http, rpc) = match self {
            Self::InvalidInput => (2, 400, -32602),
            Self::NotFound => (3, 404, -32004),
            Self::SessionBusy => (3, 409, -32000),
            Self::SessionBlocked => (3, 409, -32002),
            Self::InvalidState => (3, 409, -32000),
            Self::Unsupported => (3, 422, -32020),
            Self::HarnessUnavailable => (3, 503, -32003),
            Self::StoreUnavailable => (3, 503, -32003),
            Self::Configuration => (2, 500, -32603),
            Self::Unconfirmed => (4, 504, -32003),
            Self::OutputClosed | Self::OutputFailed | Self::Internal => (1, 500, -32603),
        };
        Codes { exit, http, rpc }
    }
}

/// What a user is told: what happened, to what, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct Failure {
    /// Its kind.
    pub kind: Kind,
    /// The words.
    pub message: String,
    /// Why nothing was accepted and when to ask again, if that passes by itself.
    #[serde(flatten, default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Refusal>,
}

impl Failure {
    /// A failure of this kind.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), refusal: None }
    }
}

/// An error with its causes, as one sentence.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Self {
        let kind = match &error {
            SessionError::Context(ContextError::Busy { .. }) | SessionError::Ending(_) => Kind::SessionBusy,
            SessionError::Context(ContextError::Blocked { .. }) => Kind::SessionBlocked,
            SessionError::Context(_)
            | SessionError::Foreign { .. }
            | SessionError::Awaited(_)
            | SessionError::ModelFixed(_) => Kind::InvalidState,
            SessionError::Harness(HarnessError::Unknown(_)) => Kind::NotFound,
            SessionError::Harness(HarnessError::Lacks { .. } | HarnessError::NeverAsks(_)) => Kind::Unsupported,
            SessionError::Harness(_) | SessionError::NoRoom(_) | SessionError::Draining => Kind::HarnessUnavailable,
            SessionError::NotClosed(_) => Kind::Unconfirmed,
            SessionError::PromptTooLong { .. } | SessionError::PromptUnfit(_) | SessionError::TaskTaken(_) => {
                Kind::InvalidInput
            }
            SessionError::Stalled(_)
            | SessionError::Refused(_)
            | SessionError::NotTakenOver(_)
            | SessionError::NotStored(_) => Kind::StoreUnavailable,
            SessionError::UnknownSession(_) | SessionError::UnknownTask(_) => Kind::NotFound,
            SessionError::Ledger(_) => Kind::StoreUnavailable,
            _ => Kind::Internal,
        };
        Self { refusal: error.refusal(), ..Self::new(kind, chain(&error)) }
    }
}

impl From<LedgerError> for Failure {
    fn from(error: LedgerError) -> Self {
        Self::new(Kind::StoreUnavailable, chain(&error))
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        Self::new(Kind::Internal, chain(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_by_itself_says_why_and_when_to_ask_again() {
        use ostler_supervisors::actors::{RefusalReason, StartRefused};
        use ostler_supervisors::machines::admission::{Share, Shortage};
        let floor = Shortage::Floor { available: 1, floor: 2 };
        let pressure = Shortage::Pressure { stalled: Share(2), most: Share(1) };
        for (error, kind, reason) in [
            (StartRefused::Full { waiting: 1 }.into(), Kind::HarnessUnavailable, RefusalReason::StartQueueFull),
            (StartRefused::Short(floor).into(), Kind::HarnessUnavailable, RefusalReason::MemoryFloor),
            (StartRefused::Short(pressure).into(), Kind::HarnessUnavailable, RefusalReason::MemoryPressure),
            (SessionError::Draining, Kind::HarnessUnavailable, RefusalReason::Draining),
            (SessionError::Stalled("full".into()), Kind::StoreUnavailable, RefusalReason::LedgerStalled),
        ] {
            let failure = Failure::from(error);
            let refusal = failure.refusal.expect("one that passes");
            assert_eq!((failure.kind, refusal.reason, failure.kind.codes().exit), (kind, reason, 3));
            assert!(refusal.retry_after_ms >= 1000, "{failure}");
            let wire = serde_json::to_string(&failure).expect("JSON");
            assert_eq!(serde_json::from_str::<Failure>(&wire).expect("the same"), failure, "{wire}");
        }
        let lasting = Failure::from(SessionError::UnknownTask("task_1".parse().expect("id")));
        assert_eq!(lasting.refusal, None);
        let wire = serde_json::to_string(&lasting).expect("JSON");
        assert_eq!(serde_json::from_str::<Failure>(&wire).expect("the same"), lasting, "{wire}");
    }

    #[test]
    fn every_kind_has_codes_of_the_published_ranges() {
        for kind in Kind::ALL {
            let Codes { exit, http, rpc } = kind.codes();
            assert!((1..=4).contains(&exit) && (400..600).contains(&http), "{kind:?}");
            assert!((-32700..=-32000).contains(&rpc), "{kind:?}");
        }
    }
}
