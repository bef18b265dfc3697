//! The pure state machines: everything that can be got wrong by timing.
//!
//! Each is `(state, message, now) → (state, effects)`: no I/O, no clock, no channel. An actor owns one, feeds it, and
//! runs its effects. The tables of their transitions are in `docs/machines.md`; small cases are tested exhaustively,
//! large ones by seeded schedules, with the invariants checked after each step.
//!
//! Time is [`Millis`]: milliseconds since boot, suspend included, so that a deadline survives a restart.

pub mod admission;
pub mod close;
pub mod context;
pub mod health;
pub mod interaction;
pub mod open;
pub mod settlement;
pub mod task;

use serde::{Deserialize, Serialize};

/// Milliseconds since the machine booted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millis(pub u64);

impl std::ops::Add<std::time::Duration> for Millis {
    type Output = Self;

    fn add(self, span: std::time::Duration) -> Self {
        Self(self.0.saturating_add(span.as_millis() as u64))
    }
}
