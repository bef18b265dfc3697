//! Real Codex over the local model server; both are installed or built by `scripts/test`.

mod a_killed_run_is_collected;
mod a_run_dies_at_every_effect;
pub mod support;
mod the_daemon_dies_at_every_effect;
