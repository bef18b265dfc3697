//! Ostler as a library: the edges around the core.
#![forbid(unsafe_code)]

pub mod adapters;
pub mod ledger;
