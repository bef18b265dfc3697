//! What a child is, and what its end means.

use std::time::Duration;

/// Why a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExitReason {
    /// Its work was done.
    Normal,
    /// Its supervisor told it to.
    Shutdown,
    /// It gave up.
    Error,
    /// It panicked.
    Panic,
}

impl ExitReason {
    /// Every reason.
    pub const ALL: [Self; 4] = [Self::Normal, Self::Shutdown, Self::Error, Self::Panic];

    /// Whether it is one a transient child is not restarted after.
    pub fn is_orderly(self) -> bool {
        matches!(self, Self::Normal | Self::Shutdown)
    }
}

/// When a child is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RestartType {
    /// Always.
    Permanent,
    /// After an end that was not orderly.
    Transient,
    /// Never.
    Temporary,
}

impl RestartType {
    /// Every type.
    pub const ALL: [Self; 3] = [Self::Permanent, Self::Transient, Self::Temporary];

    /// Whether a child of this type is started again after this end.
    pub fn restarts(self, reason: ExitReason) -> bool {
        match self {
            Self::Permanent => reason != ExitReason::Shutdown,
            Self::Transient => !reason.is_orderly(),
            Self::Temporary => false,
        }
    }
}

/// Which siblings go down and up with a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// None.
    OneForOne,
    /// All.
    OneForAll,
    /// Those started after it.
    RestForOne,
}

impl Strategy {
    /// Every strategy.
    pub const ALL: [Self; 3] = [Self::OneForOne, Self::OneForAll, Self::RestForOne];
}

/// One child of a supervisor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildSpec<K> {
    /// Its name among its siblings.
    pub key: K,
    /// When it is started again.
    pub restart: RestartType,
    /// How long its orderly end may take.
    pub shutdown: Duration,
}
