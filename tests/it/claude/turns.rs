//! What Claude Code says beside its answer, and asks.

use super::support::user;
use crate::support::user::{of_type, verdict, word};

#[test]
fn what_it_thinks_is_no_part_of_the_answer_and_a_turn_has_its_cost() {
    let user = user();
    let done = user.run(&["ponder this"]);
    assert_eq!(word(&done.json(), "/output"), "done", "{done:?}");
    let events = user.shell.events(word(&done.json(), "/session"));
    let thought = of_type(&events, "model.thinking");
    let thought: String = thought.iter().filter_map(|event| event["data"]["text"].as_str()).collect();
    assert_eq!(thought, "let me see");
    let results = of_type(&events, "adapter.claude.result");
    assert!(results.len() == 1 && results[0]["data"]["total_cost_usd"].as_f64().is_some_and(|cost| cost > 0.0));
}

/// Whoever decides: what it asks has more answers than yes and no, and nobody can give them.
#[test]
fn case_f6_its_question_tool_is_refused_at_once_and_visibly() {
    let user = user();
    for approve in ["allow", "deny"] {
        let done = user.run(&["--approve", approve, "ask me"]);
        assert_eq!(verdict(&done), (0, "completed".into(), "end_report".into()), "{done:?}");
        assert_eq!(word(&done.json(), "/output"), "nobody answered");
        let events = user.shell.events(word(&done.json(), "/session"));
        assert_eq!(of_type(&events, "approval.requested").len(), 0, "{events:#?}");
        let warned = of_type(&events, "ostler.warning");
        let declined = warned.iter().filter(|event| word(event, "/data/message").contains("AskUserQuestion"));
        assert_eq!(declined.count(), 1, "{warned:#?}");
    }
    user.shell.assert_nothing_left();
}
