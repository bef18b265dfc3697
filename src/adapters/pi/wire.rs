//! Its lines, read without building what is not wanted of them, and ours.

use std::fmt;
use std::marker::PhantomData;

use ostler_supervisors::adapter::Answer;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::Machine;

/// What is kept of a text that it says about itself, in bytes: a report may have to wait in a snapshot.
const LONGEST_TEXT: usize = 400;
/// This many commands of ours may be without an answer; what an older one was is forgotten.
const MOST_ASKED: usize = 8;
/// This many parts of one message are read.
const MOST_PARTS: usize = 1024;

/// A value that was seen and not read.
pub(super) type Raw<'a> = Option<&'a RawValue>;

/// The members that matter of whatever it says; the others are skipped where they stand.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Line<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Raw<'a>,
    #[serde(borrow)]
    pub(super) id: Raw<'a>,
    #[serde(borrow)]
    pub(super) success: Raw<'a>,
    #[serde(borrow)]
    pub(super) data: Raw<'a>,
    #[serde(borrow)]
    pub(super) error: Raw<'a>,
    #[serde(borrow)]
    pub(super) assistant_message_event: Option<Fragment<'a>>,
    #[serde(borrow)]
    pub(super) message: Raw<'a>,
    #[serde(borrow)]
    pub(super) messages: Raw<'a>,
    #[serde(borrow)]
    pub(super) tool_call_id: Raw<'a>,
    #[serde(borrow)]
    pub(super) tool_name: Raw<'a>,
    #[serde(borrow)]
    pub(super) args: Raw<'a>,
    #[serde(borrow)]
    pub(super) result: Raw<'a>,
    #[serde(borrow)]
    pub(super) is_error: Raw<'a>,
    #[serde(borrow)]
    pub(super) attempt: Raw<'a>,
    #[serde(borrow)]
    pub(super) max_attempts: Raw<'a>,
    #[serde(borrow)]
    pub(super) delay_ms: Raw<'a>,
    #[serde(borrow)]
    pub(super) error_message: Raw<'a>,
    #[serde(borrow)]
    pub(super) reason: Raw<'a>,
    #[serde(borrow)]
    pub(super) will_retry: Raw<'a>,
    #[serde(borrow)]
    pub(super) method: Raw<'a>,
    #[serde(borrow)]
    pub(super) title: Raw<'a>,
    #[serde(borrow)]
    pub(super) notify_type: Raw<'a>,
}

/// A fragment of a message; beside these it has the whole message as it stands, which is skipped.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Fragment<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Raw<'a>,
    #[serde(borrow)]
    pub(super) content_index: Raw<'a>,
    #[serde(borrow)]
    pub(super) delta: Raw<'a>,
}

/// A message of the conversation.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Message<'a> {
    #[serde(borrow)]
    pub(super) role: Raw<'a>,
    #[serde(borrow)]
    pub(super) content: Raw<'a>,
    #[serde(borrow)]
    pub(super) usage: Raw<'a>,
    #[serde(borrow)]
    pub(super) stop_reason: Raw<'a>,
    #[serde(borrow)]
    pub(super) error_message: Raw<'a>,
}

/// One part of a message.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Part<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Raw<'a>,
    #[serde(borrow)]
    pub(super) text: Raw<'a>,
    #[serde(borrow)]
    pub(super) thinking: Raw<'a>,
}

/// What it says of itself.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct State<'a> {
    #[serde(borrow)]
    pub(super) session_file: Raw<'a>,
    #[serde(borrow)]
    pub(super) session_id: Raw<'a>,
    #[serde(borrow)]
    pub(super) is_streaming: Raw<'a>,
    #[serde(borrow)]
    pub(super) is_compacting: Raw<'a>,
    #[serde(borrow)]
    pub(super) cancelled: Raw<'a>,
}

/// The first elements of a list, however long it is.
#[derive(Debug)]
pub(super) struct Few<T>(pub(super) Vec<T>);

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Few<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let keep = |kept: &mut Vec<T>, element| {
            if kept.len() < MOST_PARTS {
                kept.push(element);
            }
        };
        Ok(Self(deserializer.deserialize_seq(Elements { keep, of: PhantomData })?))
    }
}

/// The last answer of a model in a list of messages.
#[derive(Debug, Default)]
pub(super) struct LastAnswer<'a>(pub(super) Option<Message<'a>>);

impl<'de: 'a, 'a> Deserialize<'de> for LastAnswer<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let keep = |kept: &mut Option<Message<'a>>, message: Message<'a>| {
            if text(message.role).as_deref() == Some("assistant") {
                *kept = Some(message);
            }
        };
        Ok(Self(deserializer.deserialize_seq(Elements { keep, of: PhantomData })?))
    }
}

/// Goes through a list, and never holds more of it than it is told to keep.
struct Elements<F, T> {
    keep: F,
    of: PhantomData<T>,
}

impl<'de, K: Default, T: Deserialize<'de>, F: Fn(&mut K, T)> Visitor<'de> for Elements<F, (K, T)> {
    type Value = K;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<K, A::Error> {
        let mut kept = K::default();
        while let Some(element) = list.next_element()? {
            (self.keep)(&mut kept, element);
        }
        Ok(kept)
    }
}

/// What a command of ours was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Asked {
    /// Which session it began with.
    Session,
    /// To go on with the one that is resumed.
    Switch,
    /// Which session it has after that.
    Switched,
    Prompt,
    Abort,
    /// Whether it is at rest.
    Rest,
}

/// A command.
#[derive(Serialize)]
#[serde(rename_all = "snake_case", rename_all_fields = "camelCase", tag = "type")]
pub(super) enum Command<'a> {
    GetState,
    SwitchSession { session_path: &'a str },
    Prompt { message: &'a str },
    Abort,
}

#[derive(Serialize)]
struct Outgoing<'a> {
    id: String,
    #[serde(flatten)]
    command: Command<'a>,
}

/// The answer to an extension's dialog.
#[derive(Serialize)]
pub(super) struct Dismissal<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    id: &'a RawValue,
    /// A constant of the protocol.
    cancelled: bool,
}

impl<'a> Dismissal<'a> {
    pub(super) fn of(id: &'a RawValue) -> Self {
        Self { kind: "extension_ui_response", id, cancelled: true }
    }
}

const PREFIX: &str = "ostler-";

impl Machine {
    pub(super) fn request(&mut self, what: Asked, command: Command<'_>, answer: &mut Answer) {
        let id = self.next_id;
        self.next_id += 1;
        if self.asked.len() == MOST_ASKED {
            self.asked.remove(0);
        }
        self.asked.push((id, what));
        answer.json(&Outgoing { id: format!("{PREFIX}{id}"), command });
    }

    /// What a command was that is answered now.
    pub(super) fn taken(&mut self, id: u64) -> Option<Asked> {
        let place = self.asked.iter().position(|(asked, _)| *asked == id)?;
        Some(self.asked.remove(place).1)
    }
}

/// The number in an id of ours.
pub(super) fn number_of(id: Raw<'_>) -> Option<u64> {
    text(id)?.strip_prefix(PREFIX)?.parse().ok()
}

/// A value of this type, if it is one.
pub(super) fn read<'a, T: Deserialize<'a>>(raw: Raw<'a>) -> Option<T> {
    serde_json::from_str(raw?.get()).ok()
}

pub(super) fn text(raw: Raw<'_>) -> Option<String> {
    read(raw)
}

pub(super) fn number(raw: Raw<'_>) -> Option<u64> {
    read(raw)
}

pub(super) fn is_true(raw: Raw<'_>) -> bool {
    raw.is_some_and(|raw| raw.get() == "true")
}

pub(super) fn short(text: &str) -> String {
    text[..text.floor_char_boundary(LONGEST_TEXT)].to_owned()
}
