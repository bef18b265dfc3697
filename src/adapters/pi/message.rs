//! What is said: fragments, whole messages, and what each of them used.

use ostler_supervisors::adapter::{Answer, Fact};
use ostler_supervisors::contract::{AgentUsage, MessageId, MessageRole};
use serde::Deserialize;

use super::turn::Turn;
use super::wire::{Few, Line, Message, Part, Raw, number, read, text};
use super::{Became, Machine, Storage};

/// Its own count of one message.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Counted {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    total_tokens: u64,
}

impl Turn {
    /// The id of a part of the message that is being said; it has none of its own until it is whole.
    fn part(&self, index: u64) -> Option<MessageId> {
        format!("message-{}.{}.{index}", self.prompt, self.messages).parse().ok()
    }
}

impl Machine {
    pub(super) fn message_started(&mut self, line: &Line<'_>) -> Became {
        match (self.running(), role(line.message)) {
            (Some(turn), Some(Speaker::Model)) => {
                turn.messages += 1;
                Became::Mapped
            }
            // Prompts are known, and a tool's result is told by its end.
            (Some(_), Some(Speaker::Other)) => Became::Redundant,
            _ => Became::Noted,
        }
    }

    pub(super) fn streamed(&mut self, line: &Line<'_>, answer: &mut Answer) -> Became {
        let Some(turn) = self.running() else { return Became::Noted };
        let Some(fragment) = &line.assistant_message_event else { return Became::Noted };
        let role = match text(fragment.kind).as_deref() {
            // Whether it is the answer is known at its end.
            Some("text_delta") => MessageRole::Unknown,
            Some("thinking_delta") => MessageRole::Explanation,
            // Beginnings and ends say nothing new, and a tool's arguments come again, whole.
            _ => return Became::Redundant,
        };
        let message = number(fragment.content_index).and_then(|index| turn.part(index));
        let (Some(message), Some(text)) = (message, text(fragment.delta)) else { return Became::Noted };
        answer.fact(Fact::MessageDelta { message, role, text });
        Became::Mapped
    }

    pub(super) fn message_ended(&mut self, line: &Line<'_>, answer: &mut Answer) -> Became {
        let Some(message) = read::<Message<'_>>(line.message) else { return Became::Noted };
        if speaker(&message) != Some(Speaker::Model) {
            return if self.turn.is_some() { Became::Redundant } else { Became::Noted };
        }
        if self.storage == Storage::Empty {
            self.storage = Storage::Due;
        }
        let Some(turn) = self.running() else { return Became::Noted };
        let parts = read::<Few<Part<'_>>>(message.content).unwrap_or_default();
        for (index, part) in (0..).zip(&parts.0) {
            if let Some(fact) = whole(turn, index, part, answer_role(&message)) {
                answer.fact(fact);
            }
        }
        turn.count(&message, answer);
        Became::Mapped
    }
}

/// Who says a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Speaker {
    Model,
    Other,
}

fn role(message: Raw<'_>) -> Option<Speaker> {
    speaker(&read(message)?)
}

fn speaker(message: &Message<'_>) -> Option<Speaker> {
    Some(if text(message.role)? == "assistant" { Speaker::Model } else { Speaker::Other })
}

/// What is said before a tool is used is said on the way to the answer.
fn answer_role(message: &Message<'_>) -> MessageRole {
    match text(message.stop_reason).as_deref() {
        Some("stop" | "length") => MessageRole::Answer,
        Some("toolUse") => MessageRole::Commentary,
        _ => MessageRole::Unknown,
    }
}

fn whole(turn: &Turn, index: u64, part: &Part<'_>, answer: MessageRole) -> Option<Fact> {
    let (role, said) = match text(part.kind).as_deref() {
        Some("text") => (answer, part.text),
        Some("thinking") => (MessageRole::Explanation, part.thinking),
        _ => return None,
    };
    let text = text(said).filter(|text| !text.is_empty())?;
    Some(Fact::MessageCompleted { message: turn.part(index)?, role, text })
}

impl Turn {
    /// One that failed or was aborted says zeros where nothing was counted; they are no measure.
    fn count(&mut self, message: &Message<'_>, answer: &mut Answer) {
        let counted = read::<Counted>(message.usage).unwrap_or_default();
        if counted.total_tokens == 0 && counted.input == 0 && counted.output == 0 {
            return;
        }
        let now = counted.usage();
        let task = self.usage.map_or(now, |before| before.plus(now));
        self.usage = Some(task);
        answer.fact(Fact::Usage { task, session: None });
    }
}

impl Counted {
    /// Its input are the tokens that no cache had a part in; ours are all that the model read.
    fn usage(&self) -> AgentUsage {
        AgentUsage {
            input_tokens: self.input.checked_add(self.cache_read).and_then(|sum| sum.checked_add(self.cache_write)),
            cached_input_tokens: Some(self.cache_read),
            output_tokens: Some(self.output),
            reasoning_tokens: None,
            total_tokens: Some(self.total_tokens),
            cache_write_input_tokens: Some(self.cache_write),
        }
    }
}
