//! What is wrong with a configuration, and where.

use std::fmt;
use std::path::PathBuf;

use serde_json::{Value, json};
use thiserror::Error;

use super::{AdapterName, Key, Origin};
use crate::error::{Failure, Kind};

/// Problems that are told; a file can have any number.
const TOLD: usize = 50;
/// How much of what a parser says is told: it may repeat what it read.
const SAID: usize = 300;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{origin}: {wrong}")]
pub struct Problem {
    /// Where.
    pub origin: Origin,
    /// What.
    pub wrong: Wrong,
}

/// What can be wrong.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Wrong {
    /// The file cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    /// It is no TOML.
    #[error("{0}")]
    Syntax(String),
    /// There is no such key, and one much like it.
    #[error("there is no key {key}; the nearest is {nearest}")]
    NoKeyBut {
        /// What was written.
        key: Key,
        /// What may have been meant.
        nearest: Key,
    },
    /// There is no such key, and none like it.
    #[error("there is no key {key}; there are {}", .there.join(", "))]
    NoKey {
        /// What was written.
        key: Key,
        /// What could be written there.
        there: Vec<String>,
    },
    /// The value cannot be that of this key.
    #[error("{key}: {said}")]
    Value {
        /// The key.
        key: Key,
        /// What is wrong with it.
        said: String,
    },
    /// The key of another adapter.
    #[error("{key} is one of the adapter {}, and this harness has {}", .owner.word(), .adapter.word())]
    OfAnotherAdapter {
        /// The key.
        key: Key,
        /// Whose it is.
        owner: AdapterName,
        /// Which the harness has.
        adapter: AdapterName,
    },
    /// There is no such variable, and one much like it.
    #[error("no such variable is read; the nearest is {nearest}")]
    NoVariable {
        /// What may have been meant.
        nearest: String,
    },
    /// There is no place for the state.
    #[error("neither $XDG_STATE_HOME nor $HOME is an absolute path; set `state`")]
    NoHome,
    /// A harness cannot be made of what is set.
    #[error("{0}")]
    Harness(String),
    /// A project's file is not trusted with this.
    #[error("{key} may not be set by a project's file, unless {} is among trusted_projects in your own", .folder.display())]
    NotTrusted {
        /// The key.
        key: Key,
        /// The folder of the project's file.
        folder: PathBuf,
    },
    /// No project's file is trusted with this.
    #[error("{key} may not be set by a project's file")]
    NeverOfProject {
        /// The key.
        key: Key,
    },
    /// A secret would be on a command line, or in the environment of everything.
    #[error("{key} may hold a secret and can be set in a file only")]
    FileOnly {
        /// The key.
        key: Key,
    },
    /// A project has two files.
    #[error("{} is there as well; keep one of them", .0.display())]
    Twice(PathBuf),
}

impl Wrong {
    fn key(&self) -> Option<&Key> {
        match self {
            Self::NoKeyBut { key, .. }
            | Self::NoKey { key, .. }
            | Self::Value { key, .. }
            | Self::NotTrusted { key, .. }
            | Self::NeverOfProject { key }
            | Self::OfAnotherAdapter { key, .. }
            | Self::FileOnly { key } => Some(key),
            Self::NoVariable { .. }
            | Self::NoHome
            | Self::Unreadable(_)
            | Self::Syntax(_)
            | Self::Harness(_)
            | Self::Twice(_) => None,
        }
    }
}

/// A text of somebody else's, bounded, and without what would move a cursor.
pub(super) fn said(text: &str) -> String {
    let mark = if text.chars().nth(SAID).is_some() { "…" } else { "" };
    escaped(text.chars().take(SAID)) + mark
}

fn escaped(text: impl Iterator<Item = char>) -> String {
    let mut shown = String::new();
    for character in text {
        match character.is_control() {
            true => shown.extend(character.escape_default()),
            false => shown.push(character),
        }
    }
    shown
}

/// Everything that is wrong, at least one thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// The same for a program.
    pub fn to_json(&self) -> Value {
        let one = |problem: &Problem| {
            json!({
                "layer": problem.origin.layer(),
                "name": problem.origin.source.name(),
                "line": problem.origin.line,
                "key": problem.wrong.key(),
                "nearest": if let Wrong::NoKeyBut { nearest, .. } = &problem.wrong { Some(nearest) } else { None },
                "message": problem.wrong.to_string(),
            })
        };
        self.0.iter().map(one).collect()
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [one] = self.0.as_slice() {
            return f.write_str(&told(one));
        }
        write!(f, "the configuration is wrong in {} places", self.0.len())?;
        for problem in self.0.iter().take(TOLD) {
            write!(f, "\n  {}", told(problem))?;
        }
        match self.0.len().saturating_sub(TOLD) {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}

/// The names of files are somebody else's texts as well.
fn told(problem: &Problem) -> String {
    escaped(problem.to_string().chars())
}

impl std::error::Error for Problems {}

impl From<Problems> for Failure {
    fn from(problems: Problems) -> Self {
        Self::new(Kind::Configuration, problems.to_string())
    }
}
