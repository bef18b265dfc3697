//! What Claude Code says beside its answer.

use super::support::user;
use crate::support::user::{of_type, word};

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
