//! Ostler as a library.
#![forbid(unsafe_code)]

pub mod ledger;
