//! Ostler as a library: the edges around the core.
#![forbid(unsafe_code)]

pub mod adapters;
pub mod cli;
pub mod config;
pub mod door;
pub mod error;
pub mod ledger;
pub mod operations;
mod orphans;
