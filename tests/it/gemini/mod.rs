//! Real Gemini CLI over the local model server; both are installed or built by `scripts/test`.

mod a_killed_daemon_does_not_disturb_a_turn;
mod cancels;
mod support;
mod turns;
