//! Real Codex over the local model server; both are installed or built by `scripts/test`.

mod a_killed_daemon_does_not_disturb_a_turn;
mod a_run_dies_at_every_effect;
pub mod support;
mod the_daemon_dies_at_every_effect;
mod turns;
