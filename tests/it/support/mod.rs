//! What all scenarios share.

pub mod agents;
pub mod census;
pub mod holder;
pub mod keeper_client;
pub mod kernel;
pub mod model;
pub mod namespace;
pub mod programs;
pub mod shell;
pub mod terminal;
pub mod user;
