//! Real Claude Code over the local model server; both are installed or built by `scripts/test`.

mod background;
mod kills;
mod support;
mod turns;
