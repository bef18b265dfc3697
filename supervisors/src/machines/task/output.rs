//! The work product, kept by the machine itself and never put together from what a reader saw (AHP 2.6).

use crate::adapter::Fact;
use crate::contract::{MessageId, MessageRole, TaskOutput};

/// The messages of a task, in order of their first fragment.
#[derive(Debug, Clone, Default)]
pub(super) struct Output {
    messages: Vec<Message>,
    bytes: usize,
    extent: Extent,
}

/// Whether all of it was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Extent {
    #[default]
    Whole,
    Cut,
}

/// How much of a task's output is kept with its outcome. All of it is in the events.
const MOST_BYTES: usize = 64 << 20;

#[derive(Debug, Clone)]
struct Message {
    id: MessageId,
    role: MessageRole,
    text: String,
}

impl Output {
    pub(super) fn take(&mut self, fact: &Fact) {
        let size = match fact {
            Fact::MessageDelta { text, .. } | Fact::MessageCompleted { text, .. } => text.len(),
            _ => return,
        };
        if self.bytes + size > MOST_BYTES {
            self.extent = Extent::Cut;
            return;
        }
        self.bytes += size;
        match fact {
            Fact::MessageDelta { message, role, text } => self.message(message, *role).text.push_str(text),
            Fact::MessageCompleted { message, role, text } => {
                let entry = self.message(message, *role);
                entry.text.clone_from(text);
                entry.role = *role;
            }
            _ => {}
        }
    }

    fn message(&mut self, id: &MessageId, role: MessageRole) -> &mut Message {
        let index = match self.messages.iter().position(|message| message.id == *id) {
            Some(index) => index,
            None => {
                self.messages.push(Message { id: id.clone(), role, text: String::new() });
                self.messages.len() - 1
            }
        };
        &mut self.messages[index]
    }

    /// The answer: the last message marked as one, else the last that is neither commentary nor explanation.
    fn answer(&self) -> Option<&Message> {
        let of = |role| self.messages.iter().rev().find(move |message| message.role == role);
        of(MessageRole::Answer).or_else(|| of(MessageRole::Unknown))
    }

    /// What was obtained; `None` where nothing was, which differs from empty text.
    pub(super) fn product(&self, complete: bool) -> Option<TaskOutput> {
        let complete = complete && self.extent == Extent::Whole;
        self.answer().map(|message| TaskOutput::Text { text: message.text.clone(), complete })
    }
}
