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
//! without `tool` or `status` answers with `text`, word by word. Messages and Chat Completions alone have a place for
//! `thinking`, which comes before the rest, and for `call`, any tool of the agent (`{ "name": …, "input": … }`).
//!
//! What a provider does under load is a rule before the others:
//!
//! ```json
//! [
//!   { "contains": "limited", "first": 2, "status": 429, "retry_after": 1 },
//!   { "beyond": { "requests": 10, "within_ms": 1000 }, "status": 429 },
//!   { "contains": "fragile", "first": 1, "text": "one two three", "cut_after": 2 }
//! ]
//! ```
//!
//! - `first` applies so many times, and never again.
//! - `beyond` applies once so many requests were let through by it within that time; a request it applies to is not one of
//!   them.
//! - `status` answers with a failure in the form of the request's dialect, `retry_after` (seconds) as the header of that
//!   name, and in the body where the dialect has it there. A rule with `beyond` says by itself when there is room again.
//! - `cut_after` breaks the connection after so many words of the text.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use actix_web::http::StatusCode;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// One rule.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rule {
    contains: Option<String>,
    after_tool: Option<bool>,
    first: Option<NonZeroUsize>,
    beyond: Option<Rate>,
    /// The text of the answer.
    #[serde(default)]
    pub(crate) text: String,
    /// What is thought aloud before it.
    pub(crate) thinking: Option<String>,
    /// The shell command a tool is asked to run.
    pub(crate) tool: Option<String>,
    /// Any other tool that is asked for.
    pub(crate) call: Option<Call>,
    every_ms: Option<u64>,
    cut_after: Option<NonZeroUsize>,
    #[serde(default, deserialize_with = "failing_status")]
    status: Option<StatusCode>,
    retry_after: Option<u64>,
}

/// So many requests in so much time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rate {
    requests: NonZeroUsize,
    within_ms: u64,
}

/// One use of a tool that the agent has.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) input: Value,
}

/// Every rule, in order, with what it has seen.
#[derive(Debug)]
pub(crate) struct Rules(Vec<(Rule, Mutex<Seen>)>);

/// What a rule has seen of the requests it could have answered.
#[derive(Debug, Default)]
struct Seen {
    answered: usize,
    let_through: VecDeque<Instant>,
}

/// What bears on the choice of a rule.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) last_user: String,
    pub(crate) users: usize,
    pub(crate) tool_result: Option<String>,
}

/// How a request is answered.
#[derive(Debug, PartialEq)]
pub(crate) enum Answer {
    /// As this rule says, its text filled in.
    Speak(Box<Rule>),
    Fail(Failure),
}

/// A failure, in no dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) status: StatusCode,
    pub(crate) message: &'static str,
    /// Seconds until it is worth another try.
    pub(crate) retry_after: Option<u64>,
}

impl Failure {
    pub(crate) fn of(status: StatusCode, message: &'static str) -> Self {
        Self { status, message, retry_after: None }
    }
}

impl Rules {
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Self::parse(&text).map_err(|error| format!("{}: {error}", path.display()))
    }

    pub(crate) fn parse(text: &str) -> Result<Self, serde_json::Error> {
        let rules: Vec<Rule> = serde_json::from_str(text)?;
        if let Some(wrong) = rules.iter().find_map(Rule::wrong) {
            return Err(serde::de::Error::custom(wrong));
        }
        Ok(Self(rules.into_iter().map(|rule| (rule, Mutex::default())).collect()))
    }

    /// How this is answered now.
    pub(crate) fn answer(&self, asked: &Asked) -> Answer {
        self.answer_at(asked, Instant::now())
    }

    fn answer_at(&self, asked: &Asked, now: Instant) -> Answer {
        for (rule, seen) in self.0.iter().filter(|(rule, _)| rule.is_about(asked)) {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(room_in) = seen.applies(rule, now) {
                return rule.answer(asked, room_in);
            }
        }
        Answer::Fail(Failure::of(StatusCode::NOT_IMPLEMENTED, "no rule answers this"))
    }
}

impl Seen {
    /// Whether the rule answers this one; then how long it will be before it lets one through.
    fn applies(&mut self, rule: &Rule, now: Instant) -> Option<Option<Duration>> {
        if rule.first.is_some_and(|first| self.answered >= first.get()) {
            return None;
        }
        let room_in = match rule.beyond {
            Some(rate) => Some(self.room_in(rate, now)?),
            None => None,
        };
        self.answered += 1;
        Some(room_in)
    }

    /// How long it will be before there is room; `None` where there was, and it is taken.
    fn room_in(&mut self, rate: Rate, now: Instant) -> Option<Duration> {
        let window = Duration::from_millis(rate.within_ms);
        self.let_through.retain(|at| now.duration_since(*at) < window);
        if self.let_through.len() >= rate.requests.get() {
            return self.let_through.front().map(|oldest| window - now.duration_since(*oldest));
        }
        self.let_through.push_back(now);
        None
    }
}

impl Rule {
    /// What a rule has that means nothing in it.
    fn wrong(&self) -> Option<&'static str> {
        let speaks = self.status.is_none() && self.tool.is_none() && self.call.is_none();
        match (self.cut_after, self.retry_after) {
            (Some(_), _) if !speaks => Some("`cut_after` without a text"),
            (_, Some(_)) if self.status.is_none() => Some("`retry_after` without `status`"),
            _ => None,
        }
    }

    fn is_about(&self, asked: &Asked) -> bool {
        self.contains.as_ref().is_none_or(|part| asked.last_user.contains(part))
            && self.after_tool.is_none_or(|wanted| wanted == asked.tool_result.is_some())
    }

    fn answer(&self, asked: &Asked, room_in: Option<Duration>) -> Answer {
        if let Some(status) = self.status {
            let retry_after = self.retry_after.or(room_in.map(|time| time.as_millis().div_ceil(1000) as u64));
            return Answer::Fail(Failure { retry_after, ..Failure::of(status, "as the rule says") });
        }
        let tool = asked.tool_result.as_deref().unwrap_or_default();
        let text = self.text.replace("{n}", &asked.users.to_string()).replace("{tool}", tool);
        Answer::Speak(Box::new(Self { text, ..self.clone() }))
    }

    /// The words of the text, each with how many are said with it.
    pub(crate) fn words(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.split_inclusive(' '))
    }

    /// The pause between words.
    pub(crate) fn pause(&self) -> Option<Duration> {
        self.every_ms.map(Duration::from_millis)
    }

    pub(crate) fn cuts_after(&self, said: usize) -> bool {
        self.cut_after.is_some_and(|words| words.get() == said)
    }
}

/// A status of a failure, or a rule that cannot be read.
fn failing_status<'de, D: Deserializer<'de>>(from: D) -> Result<Option<StatusCode>, D::Error> {
    let number = u16::deserialize(from)?;
    let status = StatusCode::from_u16(number).ok().filter(|status| status.as_u16() >= 400);
    status.map(Some).ok_or_else(|| serde::de::Error::custom(format!("{number} is no status of a failure")))
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

    /// Reads the `messages` of a Chat Completions request.
    pub(crate) fn of_chat(request: &Value) -> Self {
        let mut asked = Self::default();
        for message in request["messages"].as_array().into_iter().flatten() {
            let text = text_of(&message["content"]);
            match message["role"].as_str() {
                Some("user") if is_prompt(&text) => {
                    asked = Self { last_user: text, users: asked.users + 1, tool_result: None };
                }
                Some("tool") => asked.tool_result = Some(text),
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

    fn rules(text: &str) -> Rules {
        Rules::parse(text).expect("rules")
    }

    fn said(answer: Answer) -> Result<String, Failure> {
        match answer {
            Answer::Speak(rule) => Ok(rule.tool.unwrap_or(rule.text)),
            Answer::Fail(failure) => Err(failure),
        }
    }

    fn asking(text: &str) -> Asked {
        Asked { last_user: text.to_owned(), users: 1, tool_result: None }
    }

    #[test]
    fn the_first_rule_that_applies_answers() {
        let rules = rules(
            r#"[{"contains":"x","after_tool":false,"tool":"ls"},{"contains":"x","text":"{tool}"},{"text":"{n}"}]"#,
        );
        let request = serde_json::json!({ "input": [
            { "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "<environment/>" }] },
            { "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "do x" }] },
            { "type": "function_call_output", "output": "done" },
        ]});
        let asked = Asked::of_responses(&request);
        assert_eq!((asked.users, asked.tool_result.as_deref()), (1, Some("done")));
        assert_eq!(said(rules.answer(&asked)), Ok("done".to_owned()));
        assert_eq!(said(rules.answer(&asking("do x"))), Ok("ls".to_owned()));
        assert_eq!(said(rules.answer(&asking("y"))), Ok("1".to_owned()));
    }

    #[test]
    fn a_rule_for_the_first_ones_steps_aside_and_counts_only_those_it_is_about() {
        let rules = rules(r#"[{"contains":"x","first":2,"status":429,"retry_after":7},{"text":"on"}]"#);
        let refused =
            Failure { retry_after: Some(7), ..Failure::of(StatusCode::TOO_MANY_REQUESTS, "as the rule says") };
        let answers = ["x", "y", "x", "x", "x"].map(|prompt| said(rules.answer(&asking(prompt))));
        let on = || Ok("on".to_owned());
        assert_eq!(answers, [Err(refused), on(), Err(refused), on(), on()]);
    }

    #[test]
    fn a_rate_lets_so_many_through_and_says_when_there_is_room_again() {
        let rules = rules(r#"[{"beyond":{"requests":2,"within_ms":4000},"status":429},{"text":"on"}]"#);
        let begin = Instant::now();
        let at = |ms| said(rules.answer_at(&asking("x"), begin + Duration::from_millis(ms)));
        let refused = |retry_after| {
            Err(Failure { retry_after, ..Failure::of(StatusCode::TOO_MANY_REQUESTS, "as the rule says") })
        };
        let on = || Ok("on".to_owned());
        assert_eq!([at(0), at(1000)], [on(), on()]);
        assert_eq!([at(1500), at(3999)], [refused(Some(3)), refused(Some(1))], "and no refusal takes room");
        assert_eq!([at(4000), at(4500), at(5000)], [on(), refused(Some(1)), on()]);
    }

    #[test]
    fn what_means_nothing_is_refused_with_the_file() {
        for (rule, fine) in [
            (r#"{"status":200}"#, false),
            (r#"{"status":4}"#, false),
            (r#"{"status":529}"#, true),
            (r#"{"status":429,"retry_after":1}"#, true),
            (r#"{"text":"x","retry_after":1}"#, false),
            (r#"{"text":"x","cut_after":1}"#, true),
            (r#"{"tool":"x","cut_after":1}"#, false),
            (r#"{"first":0}"#, false),
        ] {
            assert_eq!(Rules::parse(&format!("[{rule}]")).is_ok(), fine, "{rule}");
        }
    }

    #[test]
    fn the_prompts_and_results_of_a_chat_are_found_among_what_the_agent_adds() {
        let request = serde_json::json!({ "messages": [
            { "role": "system", "content": "be kind" },
            { "role": "user", "content": "one" },
            { "role": "assistant", "content": "reply" },
            { "role": "user", "content": [{ "type": "text", "text": "two" }] },
            { "role": "user", "content": "<system-reminder>x" },
            { "role": "assistant", "content": null, "tool_calls": [] },
            { "role": "tool", "tool_call_id": "a", "content": [{ "type": "text", "text": "hi" }] },
        ]});
        let expected = Asked { last_user: "two".into(), users: 2, tool_result: Some("hi".into()) };
        assert_eq!(Asked::of_chat(&request), expected);
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
