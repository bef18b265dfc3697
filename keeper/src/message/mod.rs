//! Orders, reports and the records in them.

mod open;
mod order;
mod record;
mod report;

pub use open::{Open, OrphanPolicy};
pub use order::{Auth, Order};
pub use record::{
    Containment, Emptiness, EndResult, Exit, InputState, Phase, Process, RefusalCode, SetupStep, State, StopCause,
    Stream, StreamState,
};
pub use report::Report;

/// Kinds kept for later versions: pseudo-terminals, their window size, resource limits, restrictions.
pub const RESERVED_KINDS: std::ops::RangeInclusive<u16> = 32..=47;
