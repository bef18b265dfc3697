//! What an adapter makes of what it was told.

use serde::Serialize;

use super::{Fact, Message};
use crate::ledger::OutboxThen;

/// This many facts of one piece of output are kept apart; of what comes after them, fragments are joined.
const APART: usize = 64;
/// The longest fragment that comes of joining, in bytes.
const JOINED: usize = 4096;

/// What came of telling an adapter something.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answer {
    /// Facts, in order.
    pub facts: Vec<Fact>,
    /// Messages to the agent, in order.
    pub messages: Vec<Message>,
}

impl Answer {
    /// Adds a fact. Where there are many of them at once, a fragment is joined to the one before it: what an agent says
    /// faster than anybody reads costs what its bytes cost, not what its lines would.
    pub fn fact(&mut self, fact: Fact) {
        let many = self.facts.len() >= APART;
        let last = self.facts.last_mut().filter(|_| many);
        let apart = match last {
            Some(last) => joined(last, fact),
            None => Some(fact),
        };
        self.facts.extend(apart);
    }

    /// Adds one JSON object as a line.
    pub fn json(&mut self, value: &impl Serialize) {
        // A value made of strings and numbers always has a JSON form.
        let mut bytes = serde_json::to_vec(value).unwrap_or_default();
        bytes.push(b'\n');
        self.messages.push(Message { bytes, then: OutboxThen::Continue });
    }
}

/// Appends a fragment to the one before it, if it is of the same message; else gives it back.
fn joined(last: &mut Fact, fact: Fact) -> Option<Fact> {
    match (last, fact) {
        (
            Fact::MessageDelta { message, role, text },
            Fact::MessageDelta { message: same_message, role: same_role, text: more },
        ) if *message == same_message && *role == same_role && text.len() + more.len() <= JOINED => {
            text.push_str(&more);
            None
        }
        (_, fact) => Some(fact),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::MessageRole;

    fn fragment(message: &str, text: &str) -> Fact {
        Fact::MessageDelta {
            message: message.parse().expect("an id"),
            role: MessageRole::Answer,
            text: text.to_owned(),
        }
    }

    fn texts(answer: &Answer) -> Vec<&str> {
        fn text(fact: &Fact) -> &str {
            if let Fact::MessageDelta { text, .. } = fact { text } else { "-" }
        }
        answer.facts.iter().map(text).collect()
    }

    fn flood(fragments: usize) -> Answer {
        let mut answer = Answer::default();
        (0..fragments).for_each(|_| answer.fact(fragment("m", "ab")));
        answer
    }

    #[test]
    fn a_few_fragments_stay_apart_and_a_flood_is_joined_without_a_byte_lost() {
        assert_eq!(texts(&flood(APART)), ["ab"; APART]);
        let joined = flood(APART + 1000);
        assert_eq!(joined.facts.len(), APART);
        assert_eq!(texts(&joined).concat(), "ab".repeat(APART + 1000));
        let much = flood(10_000);
        assert!(texts(&much).iter().all(|text| text.len() <= JOINED));
        assert_eq!(texts(&much).concat(), "ab".repeat(10_000));
    }

    #[test]
    fn only_fragments_of_one_message_that_follow_each_other_are_joined() {
        let mut answer = flood(APART);
        answer.fact(fragment("other", "c"));
        answer.fact(Fact::Began);
        answer.fact(fragment("other", "d"));
        answer.fact(fragment("other", "e"));
        assert_eq!(texts(&answer)[APART..], ["c", "-", "de"]);
    }
}
