//! Refusals for a program: why nothing is started just now, and when it is worth asking again.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::SessionError;
use crate::actors::opens::StartRefused;
use crate::machines::admission::Shortage;

/// Why nothing is started just now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RefusalReason {
    /// As many starts wait as may.
    StartQueueFull,
    /// Too little memory is left.
    MemoryFloor,
    /// Everything waits for memory.
    MemoryPressure,
    /// Ostler is shutting down.
    Draining,
    /// The ledger takes nothing new.
    LedgerStalled,
}

/// A refusal that passes by itself. Nothing was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Refusal {
    /// Why.
    pub reason: RefusalReason,
    /// After so many milliseconds it is worth asking again.
    pub retry_after_ms: u64,
}

/// Until the next owner is there.
const RESTART: Duration = Duration::from_secs(10);
/// Until a disk may have room again.
const DISK: Duration = Duration::from_secs(10);

impl SessionError {
    /// What a program is told of it, if it passes by itself.
    pub fn refusal(&self) -> Option<Refusal> {
        let (reason, retry) = match self {
            Self::NoRoom(refused) => (
                match refused {
                    StartRefused::Full { .. } => RefusalReason::StartQueueFull,
                    StartRefused::Short(Shortage::Floor { .. }) => RefusalReason::MemoryFloor,
                    StartRefused::Short(Shortage::Pressure { .. }) => RefusalReason::MemoryPressure,
                },
                refused.retry(),
            ),
            Self::Draining => (RefusalReason::Draining, RESTART),
            Self::Stalled(_) => (RefusalReason::LedgerStalled, DISK),
            _ => return None,
        };
        Some(Refusal { reason, retry_after_ms: retry.as_millis() as u64 })
    }
}
