//! Real Codex over the model server.
