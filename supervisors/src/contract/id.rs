//! Identifiers: opaque, non-blank, each of its own type (AHP 1.3).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A text that cannot be an identifier.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{text:?} is not a valid {kind} id: it must be 1 to 128 printable characters without spaces or slashes")]
pub struct InvalidId {
    kind: &'static str,
    text: String,
}

const LONGEST: usize = 128;

fn is_valid(text: &str) -> bool {
    let ok = |c: char| !c.is_whitespace() && !c.is_control() && c != '/';
    (1..=LONGEST).contains(&text.len()) && text.chars().all(ok) && text != "." && text != ".."
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident, $word:literal, $prefix:literal;)+) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// An id nobody else has; ids made later sort later.
            pub fn generate(now_ms: u64) -> Self {
                Self(format!("{}{}", $prefix, sortable(now_ms)))
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;

            fn try_from(text: String) -> Result<Self, InvalidId> {
                if is_valid(&text) { Ok(Self(text)) } else { Err(InvalidId { kind: $word, text }) }
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                text.to_owned().try_into()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )+ };
}

ids! {
    /// A configured harness: `codex`, `scripted`. The provider of AHP.
    HarnessId, "harness", "";
    /// One logical context; its tasks run strictly one after another.
    SessionId, "session", "sess_";
    /// One delegation.
    TaskId, "task", "task_";
    /// One keeper with one agent's process tree.
    RuntimeId, "runtime", "rt_";
    /// One Ostler process, as owner of sessions and runtimes.
    OwnerId, "owner", "own_";
    /// One tool run or external effect of a task.
    WorkId, "work", "work_";
    /// One request of a task for an external response.
    InteractionId, "interaction", "ask_";
    /// A harness's own id of a session; opaque to Ostler.
    NativeId, "native session", "";
    /// Ties fragments of a message to its completed snapshot.
    MessageId, "message", "msg_";
}

impl TaskId {
    /// The id of the task's run in the Harness Protocol: one task is one run.
    pub fn run_id(&self) -> String {
        match self.0.strip_prefix("task_") {
            Some(rest) => format!("run_{rest}"),
            None => format!("run_{}", self.0),
        }
    }
}

const CROCKFORD: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// 10 characters of milliseconds and 16 random ones: sorts by time, collides with nobody (HP 1.1).
fn sortable(now_ms: u64) -> String {
    let time = (0..10).rev().map(|index| (now_ms >> (5 * index)) & 31);
    let random = rand::random::<u128>();
    let noise = (0..16).map(|index| ((random >> (5 * index)) & 31) as u64);
    time.chain(noise).map(|value| CROCKFORD[value as usize] as char).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_and_path_like_texts_are_no_ids() {
        for text in ["", " ", "a b", "a/b", "..", "a\n", &"x".repeat(129)] {
            assert!(SessionId::from_str(text).is_err(), "{text:?}");
        }
        assert!(SessionId::from_str("sess_1").is_ok());
    }

    #[test]
    fn later_ids_sort_later_and_never_collide() {
        let ids: Vec<_> = (0..1000).map(|ms| TaskId::generate(1_700_000_000_000 + ms)).collect();
        assert!(ids.is_sorted());
        assert_ne!(TaskId::generate(5), TaskId::generate(5));
        assert_eq!(ids[0].run_id().len(), "run_".len() + 26);
    }
}
