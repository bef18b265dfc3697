//! Real Pi over the local model server; both are installed or built by `scripts/test`.

mod cancels;
mod kills;
pub(crate) mod support;
mod turns;
