//! Rules: what is answered to what.
//!
//! ```json
//! [
//!   { "contains": "run it", "after_tool": false, "tool": "echo hi > out.txt" },
//!   { "contains": "run it", "after_tool": true, "text": "it said {tool}" },
//!   { "contains": "slow", "text": "one word at a time", "every_ms": 200 },
//!   { "contains": "overload", "status": 500 },
//!   { "text": "reply number {n}" }
//! ]
//! ```
//!
//! The first rule that applies answers. `contains` looks into the last user message, `after_tool` asks whether a tool's
//! result follows it. `{n}` is the number of user messages the model was shown, `{tool}` the last tool's result. A rule
//! without `tool` or `status` answers with `text`, word by word. Only Messages have a place for `thinking`, which comes
//! before the rest, and for `call`, any tool of the agent (`{ "name": …, "input": … }`).

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

/// One rule.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rule {
    contains: Option<String>,
    after_tool: Option<bool>,
    /// The text of the answer.
    #[serde(default)]
    pub(crate) text: String,
    /// What is thought aloud before it.
    pub(crate) thinking: Option<String>,
    /// The shell command a tool is asked to run.
    pub(crate) tool: Option<String>,
    /// Any other tool that is asked for.
    pub(crate) call: Option<Call>,
    /// The pause between words.
    pub(crate) every_ms: Option<u64>,
    /// The HTTP status of a failure.
    pub(crate) status: Option<u16>,
}

/// One use of a tool that the agent has.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) input: Value,
}

/// Every rule, in order.
#[derive(Debug, Clone)]
pub(crate) struct Rules(Vec<Rule>);

/// What bears on the choice of a rule.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) last_user: String,
    pub(crate) users: usize,
    pub(crate) tool_result: Option<String>,
}

impl Rules {
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        serde_json::from_str(&text).map(Self).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// The rule that answers, its text filled in.
    pub(crate) fn answer(&self, asked: &Asked) -> Option<Rule> {
        let rule = self.0.iter().find(|rule| rule.applies(asked))?;
        let tool = asked.tool_result.as_deref().unwrap_or_default();
        let text = rule.text.replace("{n}", &asked.users.to_string()).replace("{tool}", tool);
        Some(Rule { text, ..rule.clone() })
    }
}

impl Rule {
    fn applies(&self, asked: &Asked) -> bool {
        self.contains.as_ref().is_none_or(|part| asked.last_user.contains(part))
            && self.after_tool.is_none_or(|wanted| wanted == asked.tool_result.is_some())
    }
}

impl Asked {
    /// Reads the `input` of a Responses request.
    pub(crate) fn of_responses(request: &Value) -> Self {
        let mut asked = Self::default();
        for item in request["input"].as_array().into_iter().flatten() {
            match (item["type"].as_str(), item["role"].as_str()) {
                (Some("message") | None, Some("user")) => {
                    let text = text_of(&item["content"]);
                    // What an agent says about its surroundings is not a prompt.
                    if !text.trim_start().starts_with('<') {
                        asked = Self { last_user: text, users: asked.users + 1, tool_result: None };
                    }
                }
                (Some("function_call_output" | "custom_tool_call_output" | "local_shell_call_output"), _) => {
                    asked.tool_result = Some(text_of(&item["output"]));
                }
                _ => {}
            }
        }
        asked
    }

    /// Reads the `messages` of a Messages request.
    pub(crate) fn of_messages(request: &Value) -> Self {
        let mut asked = Self::default();
        let messages = request["messages"].as_array().into_iter().flatten();
        for content in messages.filter(|message| message["role"] == "user").map(|message| &message["content"]) {
            let blocks = content.as_array().into_iter().flatten();
            let mut results = blocks.clone().filter(|block| block["type"] == "tool_result");
            if let Some(result) = results.next_back() {
                asked.tool_result = Some(text_of(&result["content"]));
            }
            let texts = blocks.filter_map(|block| block["text"].as_str()).chain(content.as_str());
            for text in texts.filter(|text| is_prompt(text)) {
                asked = Self { last_user: text.to_owned(), users: asked.users + 1, tool_result: None };
            }
        }
        asked
    }
}

/// What an agent says about its surroundings, or about an interrupt, is not a prompt.
fn is_prompt(text: &str) -> bool {
    !text.trim_start().starts_with('<') && !text.starts_with("[Request interrupted")
}

fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n"),
        other => other["content"].as_str().unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_applies_answers() {
        let rules: Vec<Rule> = serde_json::from_str(
            r#"[{"contains":"x","after_tool":false,"tool":"ls"},{"contains":"x","text":"{tool}"},{"text":"{n}"}]"#,
        )
        .expect("rules");
        let rules = Rules(rules);
        let request = serde_json::json!({ "input": [
            { "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "<environment/>" }] },
            { "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "do x" }] },
            { "type": "function_call_output", "output": "done" },
        ]});
        let asked = Asked::of_responses(&request);
        assert_eq!((asked.users, asked.tool_result.as_deref()), (1, Some("done")));
        assert_eq!(rules.answer(&asked).map(|rule| rule.text), Some("done".to_owned()));
        let fresh = Asked { last_user: "do x".into(), users: 1, tool_result: None };
        assert_eq!(rules.answer(&fresh).and_then(|rule| rule.tool), Some("ls".to_owned()));
    }

    #[test]
    fn the_prompts_and_results_of_messages_are_found_among_what_the_agent_adds() {
        let tool = |text: &str| serde_json::json!({ "type": "tool_result", "tool_use_id": "t", "content": text });
        let said = |text: &str| serde_json::json!({ "type": "text", "text": text });
        let user = |content: &[Value]| serde_json::json!({ "role": "user", "content": content });
        let mut request = serde_json::json!({ "messages": [
            { "role": "user", "content": "first" },
            { "role": "assistant", "content": "answer" },
            user(&[said("<system-reminder>x</system-reminder>"), said("second")]),
            user(&[tool("a"), tool("b")]),
        ]});
        let asked = Asked::of_messages(&request);
        let expected = Asked { last_user: "second".into(), users: 2, tool_result: Some("b".into()) };
        assert_eq!(asked, expected);
        request["messages"][3] = user(&[tool("a"), said("[Request interrupted by user]"), said("third")]);
        let expected = Asked { last_user: "third".into(), users: 3, tool_result: None };
        assert_eq!(Asked::of_messages(&request), expected);
    }
}
