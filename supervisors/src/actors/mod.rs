//! The actors: thin shells around the machines.
//!
//! ```text
//! Root                 rest_for_one, in this order
//! ├── Journal          the only writer of the ledger; group commit
//! ├── Opens            the gate for starts
//! ├── Harnesses        launch recipes and breakers
//! ├── Sessions         spread over arbiters; a session's subtree never leaves its arbiter
//! │   └── Session      one context
//! │       ├── Task     one delegation
//! │       └── Runtime  one keeper
//! └── Reaper           what earlier owners left behind
//! ```
//!
//! Who tells whom: a door asks the sessions, which ask a session; a session starts its task and its runtime; the
//! runtime tells its facts to the task; the task hands everything that is to be stored to the journal, the runtime's
//! offsets, snapshots and messages with the facts that caused them; the journal tells both when it is durable. Nobody
//! waits for anybody in a handler, and completions are bounded: one for each thing that was asked.

mod claim;
mod guard;
mod harnesses;
mod hub;
mod journal;
mod opens;
mod reaper;
mod render;
mod root;
mod runtime;
mod session;
mod sessions;
mod stall;
mod system;
mod task;

pub use hub::{Hub, Reader};
pub use journal::JournalState;
pub use opens::{OpenLimits, StartRefused, Starts};
pub use reaper::Reaped;
pub use session::{Refusal, RefusalReason, SessionError, TaskAnswer};
pub use sessions::TreeRow;
pub use system::{Config, OwnerKind, StartError, System};
