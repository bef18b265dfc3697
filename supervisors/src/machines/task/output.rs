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

#[cfg(test)]
mod tests {
    use super::*;

    fn id(id: &str) -> MessageId {
        id.parse().expect("an id")
    }

    fn delta(message: &str, text: &str) -> Fact {
        Fact::MessageDelta { message: id(message), role: MessageRole::Unknown, text: text.into() }
    }

    fn whole(message: &str, role: MessageRole, text: &str) -> Fact {
        Fact::MessageCompleted { message: id(message), role, text: text.into() }
    }

    fn product(facts: &[Fact]) -> Option<TaskOutput> {
        let mut output = Output::default();
        facts.iter().for_each(|fact| output.take(fact));
        output.product(true)
    }

    fn text(text: &str) -> Option<TaskOutput> {
        Some(TaskOutput::Text { text: text.into(), complete: true })
    }

    #[test]
    fn nothing_differs_from_empty_text() {
        assert_eq!(product(&[Fact::Began]), None);
        assert_eq!(product(&[delta("a", "")]), text(""));
    }

    #[test]
    fn fragments_make_a_message_and_its_whole_text_replaces_them() {
        assert_eq!(product(&[delta("a", "so "), delta("b", "other"), delta("a", "far")]), text("other"));
        assert_eq!(product(&[delta("a", "so "), delta("a", "far")]), text("so far"));
        assert_eq!(product(&[delta("a", "so "), whole("a", MessageRole::Unknown, "so good")]), text("so good"));
    }

    #[test]
    fn the_last_message_marked_as_the_answer_is_it() {
        use MessageRole::{Answer, Commentary, Unknown};
        let facts = [whole("a", Answer, "1"), whole("b", Answer, "2"), whole("c", Unknown, "3"), delta("d", "4")];
        assert_eq!(product(&facts), text("2"));
        assert_eq!(product(&[delta("a", "1"), whole("b", Commentary, "2")]), text("1"));
        assert_eq!(product(&[delta("a", "1"), whole("a", Answer, "2"), delta("b", "3")]), text("2"));
        assert_eq!(product(&[whole("a", Commentary, "1")]), None);
    }

    #[test]
    fn what_exceeds_the_bound_is_left_out_and_said() {
        let most = "x".repeat(MOST_BYTES - 1);
        let kept = |facts: &[Fact]| match product(facts) {
            Some(TaskOutput::Text { text, complete }) => (text.len(), complete),
            None => (0, true),
        };
        assert_eq!(kept(&[delta("a", &most), delta("a", "y")]), (MOST_BYTES, true));
        assert_eq!(kept(&[delta("a", &most), delta("a", "yy")]), (MOST_BYTES - 1, false));
        assert_eq!(kept(&[delta("a", "y"), delta("a", &most), delta("a", "y")]), (MOST_BYTES, false));
    }

    #[test]
    fn an_output_is_complete_only_with_its_task() {
        let mut output = Output::default();
        output.take(&delta("a", "half"));
        assert_eq!(output.product(false), Some(TaskOutput::Text { text: "half".into(), complete: false }));
    }
}
