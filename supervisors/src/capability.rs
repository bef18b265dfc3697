//! What a harness can do. It is declared, so that what it cannot do is refused before work, and never dropped in silence.

use std::collections::BTreeSet;

use serde::Serialize;

/// One ability. The first six are named as in Harness Protocol 2.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Capability {
    /// Its answer arrives in fragments while it works.
    Streaming,
    /// It goes on with a session in a new process, from its own store.
    Resume,
    /// It ends a task without ending itself.
    Cancel,
    /// It asks before it does what it does not know to be harmless.
    Approvals,
    /// It says which tools it runs.
    Tools,
    /// It says what a task used.
    Usage,
    /// Its caller chooses the model.
    Model,
}

impl Capability {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 7] =
        [Self::Streaming, Self::Resume, Self::Cancel, Self::Approvals, Self::Tools, Self::Usage, Self::Model];

    /// What is said of a harness that lacks it.
    pub fn lacking(self) -> &'static str {
        match self {
            Self::Streaming => "says its answer in one piece",
            Self::Resume => "does not go on with a session in a new process",
            Self::Cancel => "cannot end a task without ending itself",
            Self::Approvals => "asks for nothing before it does it",
            Self::Tools => "does not say which tools it runs",
            Self::Usage => "does not say what a task used",
            Self::Model => "lets nobody choose its model",
        }
    }
}

/// A set of abilities.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(transparent)]
pub struct Capabilities(BTreeSet<Capability>);

impl Capabilities {
    /// All there are.
    pub fn all() -> Self {
        Capability::ALL.into_iter().collect()
    }

    /// Whether it is one of them.
    pub fn has(&self, capability: Capability) -> bool {
        self.0.contains(&capability)
    }
}

impl FromIterator<Capability> for Capabilities {
    fn from_iter<I: IntoIterator<Item = Capability>>(capabilities: I) -> Self {
        Self(capabilities.into_iter().collect())
    }
}
