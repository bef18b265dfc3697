//! Any command: the program is the task, its exit status is its report, its output is lines.

use ostler_supervisors::adapter::{
    Adapter, AdapterKind, Answer, Fact, Frame, FrameCounts, Lifetime, Message, OpenContext, SnapshotError, Start, Told,
};
use ostler_supervisors::capability::{Capabilities, Capability};
use ostler_supervisors::contract::{EventKind, MessageId, MessageRole, RateLimit};
use ostler_supervisors::ledger::OutboxThen;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How a command gets its prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PromptBy {
    /// As its last argument; its standard input is at its end.
    Argument,
    /// On its standard input, which then ends.
    Stdin,
}

/// How a command's output is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutputFormat {
    /// Every line is part of the answer.
    Text,
    /// Every line is one JSON object with a `type`; `message.delta` and its older names carry the answer in `text`.
    JsonLines,
}

/// Commands that are one task each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Oneshot {
    /// How the prompt gets in.
    pub prompt: PromptBy,
    /// How the output is read.
    pub output: OutputFormat,
}

/// What the kernel takes as one argument: 32 pages of 4 KiB, one byte of which ends it.
const MOST_ARGUMENT: usize = (32 << 12) - 1;

impl AdapterKind for Oneshot {
    fn lifetime(&self) -> Lifetime {
        Lifetime::Task
    }

    fn capabilities(&self) -> Capabilities {
        match self.output {
            OutputFormat::Text => [Capability::Streaming].into_iter().collect(),
            OutputFormat::JsonLines => [Capability::Streaming, Capability::Tools].into_iter().collect(),
        }
    }

    fn start(&self, context: OpenContext<'_>) -> Start {
        let prompt = context.task.filter(|_| self.prompt == PromptBy::Argument).map(|(_, asked)| asked.prompt.clone());
        Start { arguments: prompt.into_iter().collect() }
    }

    fn refuses(&self, prompt: &str, command: &[String]) -> Option<&'static str> {
        if self.prompt == PromptBy::Argument && prompt.len() > MOST_ARGUMENT {
            return Some(
                "it has more than 131071 bytes, and this harness takes its prompt as an argument, which may have no \
                 more; set prompt = \"stdin\"",
            );
        }
        let is_option = self.prompt == PromptBy::Argument && prompt.starts_with('-');
        let options_ended = command.last().is_some_and(|last| last == "--");
        (is_option && !options_ended).then_some(
            "it begins with '-', and this harness takes its prompt as an argument, so the program would read it as an \
             option; put \"--\" at the end of the harness's command, or set prompt = \"stdin\"",
        )
    }

    fn open(&self, _: OpenContext<'_>) -> Box<dyn Adapter> {
        Box::new(Machine { kind: *self, counts: FrameCounts::default() })
    }

    fn restore(&self, snapshot: &[u8]) -> Result<Box<dyn Adapter>, SnapshotError> {
        let snapshot: Snapshot = serde_json::from_slice(snapshot).map_err(|error| SnapshotError(error.to_string()))?;
        match snapshot.version {
            VERSION => Ok(Box::new(Machine { kind: *self, counts: FrameCounts::default() })),
            other => Err(SnapshotError(format!("version {other}"))),
        }
    }
}

const VERSION: u32 = 1;

/// There is nothing to remember but that it was told to start.
#[derive(Debug, Serialize, Deserialize)]
struct Snapshot {
    version: u32,
}

struct Machine {
    kind: Oneshot,
    counts: FrameCounts,
}

impl Machine {
    fn frame(&mut self, frame: Frame<'_>, answer: &mut Answer) {
        self.counts.mapped += 1;
        match (frame, self.kind.output) {
            (Frame::Line(line), OutputFormat::Text) => said(format!("{line}\n"), MessageRole::Answer, answer),
            (Frame::Incomplete { text }, OutputFormat::Text) => said(text.to_owned(), MessageRole::Answer, answer),
            (Frame::Line(line), OutputFormat::JsonLines) => self.object(line, answer),
            (Frame::Incomplete { text }, OutputFormat::JsonLines) => {
                noise(format!("an incomplete line of {} bytes", text.len()), answer);
            }
            (Frame::InvalidUtf8 { bytes }, _) => noise(format!("a line of {bytes} bytes that is not UTF-8"), answer),
            (Frame::TooLong { bytes }, _) => noise(format!("a line of {bytes} bytes, longer than allowed"), answer),
        }
    }

    fn object(&mut self, line: &str, answer: &mut Answer) {
        let Ok(Value::Object(mut object)) = serde_json::from_str(line) else {
            return noise(format!("a line of {} bytes that is no JSON object", line.len()), answer);
        };
        let Some(Value::String(name)) = object.remove("type") else {
            return noise("an object without a type".to_owned(), answer);
        };
        let kind = EventKind::from_adapter(&name);
        if name == "rate_limited" {
            let retry_after_ms = object.get("retry_after_ms").and_then(Value::as_u64);
            return answer.fact(Fact::RateLimited(RateLimit { retry_after_ms }));
        }
        let text = object.get("text").and_then(Value::as_str).map(str::to_owned);
        match (kind.as_str(), text) {
            ("message.delta", Some(text)) => said(text, MessageRole::Answer, answer),
            ("model.thinking", Some(text)) => said(text, MessageRole::Explanation, answer),
            // A run has one start and one end, and both are Ostler's to write (HP G-9).
            (name, _) if name.starts_with("run.") => {
                let kind = EventKind::from_adapter(&format!("adapter.{name}"));
                answer.fact(Fact::Event { kind, data: Value::Object(object) });
            }
            _ => answer.fact(Fact::Event { kind, data: Value::Object(object) }),
        }
    }
}

fn said(text: String, role: MessageRole, answer: &mut Answer) {
    let name = if role == MessageRole::Answer { "output" } else { "thought" };
    match name.parse::<MessageId>() {
        Ok(message) => answer.fact(Fact::MessageDelta { message, role, text }),
        Err(error) => noise(error.to_string(), answer),
    }
}

fn noise(what: String, answer: &mut Answer) {
    answer.fact(Fact::Noise { what });
}

impl Adapter for Machine {
    fn tell(&mut self, told: Told<'_>, answer: &mut Answer) {
        match told {
            Told::Frame(frame) => self.frame(frame, answer),
            Told::Submit { delegation, .. } => {
                let bytes = match self.kind.prompt {
                    PromptBy::Stdin => delegation.prompt.clone().into_bytes(),
                    PromptBy::Argument => Vec::new(),
                };
                answer.messages.push(Message { bytes, then: OutboxThen::EndOfInput });
            }
            Told::Started => answer.fact(Fact::Began),
            Told::OutputEnded | Told::Interrupt | Told::Respond { .. } => {}
        }
    }

    fn is_ready(&self) -> bool {
        true
    }

    fn snapshot(&self) -> Vec<u8> {
        serde_json::to_vec(&Snapshot { version: VERSION }).unwrap_or_default()
    }

    fn counts(&self) -> FrameCounts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(output: OutputFormat, frames: &[Frame<'_>]) -> Vec<Fact> {
        let mut machine = Machine { kind: Oneshot { prompt: PromptBy::Stdin, output }, counts: FrameCounts::default() };
        let mut answer = Answer::default();
        frames.iter().for_each(|frame| machine.tell(Told::Frame(*frame), &mut answer));
        assert_eq!(machine.counts().mapped as usize, frames.len());
        answer.facts
    }

    #[test]
    fn a_prompt_that_the_program_would_read_as_an_option_is_refused() {
        let refused = |prompt, text: &str, command: &[&str]| {
            let command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
            Oneshot { prompt, output: OutputFormat::Text }.refuses(text, &command).is_some()
        };
        assert!(refused(PromptBy::Argument, "--force", &["agent"]));
        assert!(!refused(PromptBy::Argument, "--force", &["agent", "--"]));
        assert!(!refused(PromptBy::Argument, "do not --force", &["agent"]));
        assert!(!refused(PromptBy::Stdin, "--force", &["agent"]));
    }

    #[test]
    fn an_agents_own_end_of_run_is_not_ours() {
        let facts = told(OutputFormat::JsonLines, &[Frame::Line(r#"{"type":"run_end","status":"completed"}"#)]);
        assert!(matches!(&facts[..], [Fact::Event { kind, .. }] if kind.as_str() == "adapter.run.end"));
        let facts = told(OutputFormat::JsonLines, &[Frame::Line(r#"{"type":"run.completed"}"#)]);
        assert!(matches!(&facts[..], [Fact::Event { kind, .. }] if kind.as_str() == "adapter.run.completed"));
    }

    #[test]
    fn case_j5_a_limit_of_the_provider_is_a_fact_of_its_own() {
        for (line, retry_after_ms) in [
            (r#"{"type":"rate_limited","retry_after_ms":1500}"#, Some(1500)),
            (r#"{"type":"rate_limited","retry_after_ms":-1}"#, None),
            (r#"{"type":"rate_limited"}"#, None),
        ] {
            let facts = told(OutputFormat::JsonLines, &[Frame::Line(line)]);
            assert_eq!(facts, [Fact::RateLimited(RateLimit { retry_after_ms })], "{line}");
        }
    }

    #[test]
    fn bad_lines_are_reported_and_reading_goes_on() {
        let frames = [
            Frame::Line("npm warn deprecated"),
            Frame::InvalidUtf8 { bytes: 2 },
            Frame::Line("[1]"),
            Frame::Line(r#"{"type":"delta","text":"hi"}"#),
            Frame::Incomplete { text: r#"{"type":"# },
        ];
        let facts = told(OutputFormat::JsonLines, &frames);
        let noise = facts.iter().filter(|fact| matches!(fact, Fact::Noise { .. })).count();
        let said = facts.iter().any(|fact| matches!(fact, Fact::MessageDelta { text, .. } if text == "hi"));
        assert_eq!((noise, said), (4, true));
    }
}
