//! Orders, reports and the records in them.

mod limit;
mod open;
mod order;
mod record;
mod report;
mod state;
mod window;

pub use limit::{Limit, LimitKind, LimitStanding, LimitState};
pub use open::{Open, OrphanPolicy};
pub use order::{Auth, Order};
pub use record::{
    Containment, Emptiness, EndResult, Exit, InputState, Phase, Process, RefusalCode, SetupStep, StopCause, Stream,
    StreamState,
};
pub use report::Report;
pub use state::State;
pub use window::WindowSize;

/// Kinds kept when version 1 was frozen, so that an older keeper refuses what it does not know: 32, 33 and 36 are of
/// terminals by now.
pub const RESERVED_KINDS: std::ops::RangeInclusive<u16> = 32..=47;
