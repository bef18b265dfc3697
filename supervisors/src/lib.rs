//! The core of Ostler. It knows no HTTP, no SQL and no vendor's protocol.
#![forbid(unsafe_code)]

pub mod actors;
pub mod adapter;
pub mod capability;
pub mod clock;
pub mod contract;
pub mod faults;
pub mod file_lock;
pub mod framer;
pub mod harness;
pub mod keeper;
pub mod ledger;
pub mod machines;
pub mod memory;
pub mod owners;
pub mod tree;
mod unconfigured;
