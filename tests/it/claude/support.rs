//! One user with real Claude Code, whose model is on loopback.

use crate::support::agents::CLAUDE;
use crate::support::user::User;

const RULES: &str = r#"
  { "contains": "in the background", "after_tool": false, "call": { "name": "Bash", "input":
    { "command": "python3 -c 'import time; time.sleep(2)'; echo x > done", "run_in_background": true } } },
  { "contains": "serve for ever", "after_tool": false, "call": { "name": "Bash", "input":
    { "command": "python3 -c 'import time; time.sleep(1000)'", "run_in_background": true } } },
  { "contains": "ask a helper", "after_tool": false, "call": { "name": "Task", "input":
    { "description": "help", "prompt": "look into it", "subagent_type": "general-purpose" } } },
  { "contains": "ask a helper", "text": "the helper was asked" },
  { "contains": "look into it", "text": "a helper has looked into it", "every_ms": 200 },
  { "contains": "ask me", "after_tool": false, "call": { "name": "AskUserQuestion", "input": { "questions": [
    { "question": "Which way?", "header": "Way", "multiSelect": false, "options": [
      { "label": "left", "description": "l" }, { "label": "right", "description": "r" } ] } ] } } },
  { "contains": "ask me", "text": "nobody answered" },
  { "contains": "ponder", "thinking": "let me see", "text": "done" },
"#;

/// A user with Claude Code, whose model knows what only Claude Code is asked for.
pub(super) fn user() -> User {
    User::with(CLAUDE, RULES)
}
