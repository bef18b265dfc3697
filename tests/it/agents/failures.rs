//! What becomes of a task whose model fails, and of one whose model wants to be left alone for a while.

use crate::support::agents::{Agent, CLAUDE, CLAUDE_AGENT_ACP, CODEX, GEMINI};
use crate::support::user::{User, of_type, verdict, word};

/// Runs it, and sees it fail as the provider's failure of this kind.
fn fails(user: &User, prompt: &str, kind: &str) -> String {
    let done = user.run(&[prompt]);
    assert_eq!(verdict(&done), (1, "failed".into(), "end_report".into()), "{done:?}");
    assert_eq!(word(&done.json(), "/outcome/kind"), kind, "{done:?}");
    user.shell.assert_nothing_left();
    word(&done.json(), "/session").to_owned()
}

#[test]
fn of_codex() {
    let user = User::of(CODEX);
    fails(&user, "overload", "TRANSIENT");
    fails(&user, "malformed", "PROVIDER");
    // It is configured to try nothing again.
    fails(&user, "limited", "TRANSIENT");
}

#[test]
fn of_claude() {
    let user = User::of(CLAUDE);
    for (prompt, kind) in [("overload", "TRANSIENT"), ("malformed", "PROVIDER")] {
        let events = user.shell.events(&fails(&user, prompt, kind));
        let retried = of_type(&events, "ostler.warning").iter().any(|event| event["data"]["kind"] == "recoverable");
        assert_eq!(retried, kind == "TRANSIENT", "{events:#?}");
    }
}

/// It tries an overloaded model again for more than a minute.
#[test]
fn of_gemini() {
    fails(&User::of(GEMINI), "malformed", "PROVIDER");
}

#[test]
fn of_claude_agent_acp() {
    let user = User::of(CLAUDE_AGENT_ACP);
    fails(&user, "overload", "TRANSIENT");
    fails(&user, "malformed", "PROVIDER");
}

#[test]
fn a_rate_limit_is_waited_for_by_claude() {
    is_waited_for(CLAUDE);
}

#[test]
fn a_rate_limit_is_waited_for_by_gemini() {
    is_waited_for(GEMINI);
}

#[test]
fn a_rate_limit_is_waited_for_by_claude_agent_acp() {
    is_waited_for(CLAUDE_AGENT_ACP);
}

fn is_waited_for(agent: Agent) {
    let user = User::of(agent);
    let done = user.run(&["limited"]);
    assert_eq!(verdict(&done), (0, "completed".into(), "end_report".into()), "{done:?}");
    assert_eq!(word(&done.json(), "/output"), "reply number 1");
    assert_eq!(user.requests().len(), 2, "it was refused once, and asked again");
    user.shell.assert_nothing_left();
}
