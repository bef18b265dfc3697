//! The core of Ostler. It knows no HTTP, no SQL and no vendor's protocol.
#![forbid(unsafe_code)]

pub mod adapter;
pub mod contract;
pub mod ledger;
pub mod machines;
pub mod tree;
