//! Stores for the ledger's facts. One suite (`tests/it/ledger`) judges them all.

mod memory;
mod sqlite;

pub use memory::MemoryLedger;
pub use sqlite::{SqliteLedger, SqliteOptions};
