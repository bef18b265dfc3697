//! Real Gemini CLI over the local model server; both are installed or built by `scripts/test`.

mod cancels;
