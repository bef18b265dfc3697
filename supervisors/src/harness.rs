//! What is configured of one harness: how it is started, spoken to, stopped and judged.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ostler_keeper::Limit;
use ostler_keeper::ladder::{Ladder, Rung};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::adapter::{AdapterKind, InterruptMode, Lifetime, OpenContext};
use crate::capability::{Capabilities, Capability};
use crate::contract::{ApprovalPolicy, HarnessId};
use crate::machines::health::RestartPolicy;
use crate::machines::settlement::ReportMode;
use crate::machines::task::{StrayPolicy, TaskPolicy};

/// A text that must not be shown: it has no `Display`, and its `Debug` says nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for the one place that needs it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Deadlines of one harness's stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// How long a native interrupt may take.
    pub interrupt: Duration,
    /// How long the tree has after the end of its input.
    pub end_of_input: Duration,
    /// How long it has after SIGTERM.
    pub terminate: Duration,
    /// How long the kernel has after SIGKILL.
    pub kill: Duration,
    /// How long a stray has between SIGTERM and SIGKILL.
    pub stray: Duration,
    /// How long the agent has until it takes its first task.
    pub ready: Duration,
}

impl Deadlines {
    /// The whole ladder.
    pub fn ladder(&self) -> Ladder {
        Ladder::new([(Rung::EndOfInput, self.end_of_input), (Rung::Terminate, self.terminate), (Rung::Kill, self.kill)])
    }

    /// The ladder for what a leader left behind: nobody reads its input any more.
    pub fn leftovers(&self) -> Ladder {
        Ladder::new([(Rung::Terminate, self.stray), (Rung::Kill, self.kill)])
    }

    /// The published budget of a cancel: the interrupt, the strays, and the whole ladder.
    pub fn cancel_budget(&self) -> Duration {
        self.interrupt + self.stray + self.ladder().budget()
    }
}

/// What becomes of a task whose session the harness no longer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnLostSession {
    /// It fails before anything was submitted.
    #[default]
    Fail,
    /// It begins without what was before.
    Fresh,
}

/// One configured harness.
#[derive(Clone)]
pub struct Harness {
    /// Its id.
    pub id: HarnessId,
    /// Program and first arguments.
    pub command: Vec<String>,
    /// Variables taken from Ostler's own environment.
    pub inherit: Vec<String>,
    /// Variables set.
    pub environment: BTreeMap<String, Secret>,
    /// How it is spoken to.
    pub adapter: Arc<dyn AdapterKind>,
    /// What it can do.
    pub capabilities: Capabilities,
    /// What counts as its report.
    pub report: ReportMode,
    /// Its deadlines.
    pub deadlines: Deadlines,
    /// Names of programs that are the agent's own helpers (MCP and language servers): never strays.
    pub helpers: Vec<String>,
    /// Names of programs below the one that is started which do the agent's work: what they start is not theirs, as what
    /// its helpers start is, but the task's.
    pub engines: Vec<String>,
    /// The longest line of its output, in bytes.
    pub frame_cap: usize,
    /// What becomes of a task whose session the harness no longer has.
    pub on_lost_session: OnLostSession,
    /// A runtime without work is closed after this, if the harness can go on from its own store.
    pub idle_timeout: Duration,
    /// What each of its processes, and its whole tree, may use.
    pub limits: Vec<Limit>,
    /// What of its failures is borne before it is left alone for a while.
    pub restarts: RestartPolicy,
}

/// Why a harness cannot be started.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HarnessError {
    /// No harness of this id is configured.
    #[error("no harness {0} is configured; `ostler harness list` shows them")]
    Unknown(HarnessId),
    /// It cannot do what is wanted of it.
    #[error("harness {harness} {}; `ostler harness show {harness}` shows its capabilities", .capability.lacking())]
    Lacks {
        /// Which harness.
        harness: HarnessId,
        /// What it lacks.
        capability: Capability,
    },
    /// It never asks, and the task is none that allows everything.
    #[error(
        "harness {0} asks for nothing before it does it, so it takes only tasks that allow everything: `--approve allow`"
    )]
    NeverAsks(HarnessId),
    /// It failed too often; it is tried again later.
    #[error("harness {id} failed {failures} times in a row{last}; it is tried again in {}", seconds(*.retry))]
    Broken {
        /// The harness.
        id: HarnessId,
        /// How often.
        failures: u32,
        /// What failed at last, where that is known.
        last: String,
        /// When it may be tried again.
        retry: Duration,
    },
    /// Its provider takes no more for now.
    #[error("harness {id} is at its provider's limit; it is tried again in {}", seconds(*.retry))]
    Limited {
        /// The harness.
        id: HarnessId,
        /// When it may be tried again.
        retry: Duration,
    },
}

/// Rounded up: whoever waits so long is not told to wait again.
fn seconds(span: Duration) -> String {
    format!("{} s", span.as_millis().div_ceil(1000))
}

/// What a runtime of a harness is started with.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Program and arguments.
    pub command: Vec<String>,
    /// The whole environment.
    pub environment: BTreeMap<String, Secret>,
    /// The working directory.
    pub directory: PathBuf,
}

impl Harness {
    /// The plan for a runtime.
    pub fn plan(&self, context: OpenContext<'_>) -> Plan {
        let mut command = self.command.clone();
        command.extend(self.adapter.start(context).arguments);
        let mut environment: BTreeMap<String, Secret> = self
            .inherit
            .iter()
            .filter_map(|name| Some((name.clone(), Secret::new(std::env::var(name).ok()?))))
            .collect();
        // It speaks to us over pipes, where colours are noise.
        for (name, value) in [("NO_COLOR", "1"), ("TERM", "dumb")] {
            environment.insert(name.to_owned(), Secret::new(value.to_owned()));
        }
        environment.extend(self.environment.clone());
        Plan { command, environment, directory: context.spec.directory.clone() }
    }

    /// What a task of it is judged by.
    pub fn task_policy(&self, strays: StrayPolicy) -> TaskPolicy {
        let is_native = self.capabilities.has(Capability::Cancel);
        TaskPolicy {
            mode: self.report,
            interrupt: if is_native { InterruptMode::Native } else { InterruptMode::None },
            interrupt_grace: self.deadlines.interrupt,
            cancel_budget: self.deadlines.cancel_budget(),
            strays,
            stray_grace: self.deadlines.stray,
        }
    }

    /// Whether its caller may choose this model.
    ///
    /// # Errors
    ///
    /// [`HarnessError::Lacks`].
    pub fn takes_model(&self, model: Option<&str>) -> Result<(), HarnessError> {
        match model {
            Some(_) if !self.capabilities.has(Capability::Model) => {
                Err(HarnessError::Lacks { harness: self.id.clone(), capability: Capability::Model })
            }
            _ => Ok(()),
        }
    }

    /// Whether it takes a task under this policy. One that never asks can neither ask nor be declined; a plain command is
    /// the caller's own choice.
    ///
    /// # Errors
    ///
    /// [`HarnessError::NeverAsks`].
    pub fn takes_policy(&self, policy: ApprovalPolicy) -> Result<(), HarnessError> {
        let asks = self.capabilities.has(Capability::Approvals) || self.adapter.lifetime() == Lifetime::Task;
        if asks || policy == ApprovalPolicy::Allow { Ok(()) } else { Err(HarnessError::NeverAsks(self.id.clone())) }
    }

    /// Whether a command line is one of the agent's own helpers.
    pub fn is_helper(&self, command: &str) -> bool {
        names_one_of(command, &self.helpers)
    }

    /// Whether a command line is one of the programs that do the agent's work.
    pub fn is_engine(&self, command: &str) -> bool {
        names_one_of(command, &self.engines)
    }
}

/// Whether a command line begins with one of these programs, or with what runs it.
fn names_one_of(command: &str, programs: &[String]) -> bool {
    let words = command.split_ascii_whitespace().take(3);
    let mut names = words.filter_map(|word| Path::new(word).file_name()?.to_str());
    names.any(|name| programs.iter().any(|program| program == name))
}

impl std::fmt::Debug for Harness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Harness").field("id", &self.id).field("command", &self.command).finish_non_exhaustive()
    }
}
