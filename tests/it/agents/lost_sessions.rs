//! A session of which the agent has lost what was said is not replaced in silence.

use crate::support::agents::{Agent, CLAUDE, CLAUDE_AGENT_ACP};
use crate::support::user::{User, word};

#[test]
fn of_claude() {
    is_said_to_be_lost(CLAUDE, "claude-home/projects", "No conversation found");
}

#[test]
fn of_claude_agent_acp() {
    is_said_to_be_lost(CLAUDE_AGENT_ACP, "claude-agent-acp-home/projects", "Resource not found");
}

fn is_said_to_be_lost(agent: Agent, store: &str, words: &str) {
    let user = User::of(agent);
    let first = user.run(&["remember the word walnut"]);
    let session = word(&first.json(), "/session").to_owned();
    std::fs::remove_dir_all(user.shell.path().join(store)).expect("removed");
    let second = user.shell.ostler(&["run", "--session", &session, "--json", "what was it"]);
    let said = second.stdout.clone() + &second.stderr;
    assert!(second.code == 3 && said.contains("has lost its session"), "{second:?}");
    assert!(said.contains(words), "{second:?}");
    assert_eq!(user.requests().len(), 1, "nothing was asked of the model");
    user.shell.assert_nothing_left();
}
