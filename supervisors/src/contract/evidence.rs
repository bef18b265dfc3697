//! What a verdict rests on. Stored with it, and never guessed.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The fact that decided a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Proof {
    /// The harness's own end report for this task, of documented meaning.
    EndReport,
    /// Exit code and output read to its end, of a harness whose file says that the exit status is its report.
    ExitReport,
    /// The kernel confirmed an empty tree, after the exit and the end of output.
    TreeEmpty,
    /// Two sweeps without a keeper found nothing: weaker than a living subreaper's word.
    SweptTwice,
    /// The keeper said that the start could not happen: nothing was submitted.
    NeverStarted,
    /// The requirements or the caller ended it before anything was submitted.
    NeverSubmitted,
    /// A deadline passed without the end being shown.
    DeadlinePassed,
    /// Nothing more can be observed.
    ObservationLost,
    /// Some facts of the end are known, not enough for a judgement.
    Partial,
}

impl Proof {
    /// The word on the wire.
    pub fn word(self) -> &'static str {
        match self {
            Self::EndReport => "end_report",
            Self::ExitReport => "exit_report",
            Self::TreeEmpty => "tree_empty",
            Self::SweptTwice => "swept_twice",
            Self::NeverStarted => "never_started",
            Self::NeverSubmitted => "never_submitted",
            Self::DeadlinePassed => "deadline_passed",
            Self::ObservationLost => "observation_lost",
            Self::Partial => "partial",
        }
    }
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// How the leader of a tree ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
#[non_exhaustive]
pub enum ExitFact {
    /// By itself, with this code.
    Code {
        /// The code.
        code: i32,
    },
    /// By this signal.
    Signal {
        /// The signal's number.
        signal: i32,
        /// Whether a core was dumped.
        core: bool,
    },
}

impl ExitFact {
    /// Whether it is the exit of a program that says all is well.
    pub fn is_success(self) -> bool {
        self == Self::Code { code: 0 }
    }
}

impl fmt::Display for ExitFact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Code { code } => ostler_keeper::Exit::Code(code).fmt(f),
            Self::Signal { signal, core } => ostler_keeper::Exit::Signal { signal, core }.fmt(f),
        }
    }
}

/// The provider takes no more for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct RateLimit {
    /// In so many milliseconds it may, where the agent says so.
    pub retry_after_ms: Option<u64>,
}

/// Everything a verdict rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// The deciding fact.
    pub proof: Proof,
    /// How the leader ended, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<ExitFact>,
    /// Whether the kernel confirmed that nothing of the runtime is left.
    #[serde(default)]
    pub tree_empty: bool,
    /// Whether a cancel had been requested.
    #[serde(default)]
    pub cancel_requested: bool,
    /// Processes of the task that were left running on purpose.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_running: Vec<i32>,
    /// The provider's limit that made the task fail, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<RateLimit>,
    /// A word on what happened, for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Evidence {
    /// Evidence of this proof alone.
    pub fn of(proof: Proof) -> Self {
        Self {
            proof,
            exit: None,
            tree_empty: false,
            cancel_requested: false,
            left_running: Vec::new(),
            rate_limit: None,
            note: None,
        }
    }
}
