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
        self.take_within(MOST_BYTES, fact);
    }

    fn take_within(&mut self, most: usize, fact: &Fact) {
        let (message, role, text, replaced) = match fact {
            Fact::MessageDelta { message, role, text } => (message, *role, text, 0),
            Fact::MessageCompleted { message, role, text } => (message, *role, text, self.kept(message)),
            _ => return,
        };
        let bytes = self.bytes - replaced + text.len();
        if bytes > most {
            self.extent = Extent::Cut;
            return;
        }
        self.bytes = bytes;
        let entry = self.message(message, role);
        if matches!(fact, Fact::MessageCompleted { .. }) {
            entry.text.clear();
            entry.role = role;
        }
        entry.text.push_str(text);
    }

    /// How much of this message is kept by now.
    fn kept(&self, id: &MessageId) -> usize {
        self.messages.iter().find(|message| message.id == *id).map_or(0, |message| message.text.len())
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

    /// What is kept of the answer within eight bytes, and whether that is all.
    fn kept(facts: &[Fact]) -> (String, bool) {
        let mut output = Output::default();
        facts.iter().for_each(|fact| output.take_within(8, fact));
        let TaskOutput::Text { text, complete } = output.product(true).expect("an answer");
        (text, complete)
    }

    #[test]
    fn what_exceeds_the_bound_is_left_out_and_said() {
        assert_eq!(kept(&[delta("a", "1234567"), delta("a", "8")]), ("12345678".into(), true));
        assert_eq!(kept(&[delta("a", "1234567"), delta("a", "89")]), ("1234567".into(), false));
        assert_eq!(kept(&[delta("b", "1"), delta("a", "2345678"), delta("a", "9")]), ("2345678".into(), false));
    }

    #[test]
    fn a_text_that_replaces_its_fragments_counts_once() {
        let facts = [delta("b", "1"), delta("a", "234"), whole("a", MessageRole::Unknown, "23456"), delta("a", "78")];
        assert_eq!(kept(&facts), ("2345678".into(), true));
        assert_eq!(kept(&[&facts[..], &[delta("a", "9")]].concat()), ("2345678".into(), false));
    }

    #[test]
    fn an_output_is_complete_only_with_its_task() {
        let mut output = Output::default();
        output.take(&delta("a", "half"));
        assert_eq!(output.product(false), Some(TaskOutput::Text { text: "half".into(), complete: false }));
    }
}
