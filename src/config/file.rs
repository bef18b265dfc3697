//! The file's shape. Every key is optional, since each layer sets some. The schema, and with it what is a key at all,
//! comes from these types.

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;

use ostler_supervisors::contract::HarnessId;
use ostler_supervisors::harness::OnLostSession;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CapabilitiesFile, HarnessLimitsFile, Loopback, RestartsFile, Span};
use crate::adapters::{CodexApproval, CodexSandbox, OutputFormat, PromptBy};

/// What may be the name of a harness.
const HARNESS_NAME: &str = r"^(?!\.{1,2}$)[^\s/\x00-\x1f\x7f-\x9f]{1,128}$";

/// The configuration of Ostler.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
#[schemars(title = "ostler.toml")]
pub struct File {
    /// Where state is kept; an absolute path.
    pub state: Option<PathBuf>,
    /// The harness used where none is named.
    #[schemars(with = "Option<String>", extend("pattern" = HARNESS_NAME))]
    pub default_harness: Option<HarnessId>,
    /// How long a daemon's keepers wait for the next daemon.
    pub orphan_grace: Option<Span>,
    /// Where health and metrics are served; loopback only.
    pub operations: Option<Loopback>,
    /// Whether control group leaves are tried.
    pub control_groups: Option<ControlGroups>,
    /// Folders whose project file may set everything; absolute paths. No project's file can set this.
    pub trusted_projects: Option<Vec<PathBuf>>,
    /// Limits of starts.
    pub limits: Option<LimitsFile>,
    /// The ledger.
    pub ledger: Option<LedgerFile>,
    /// Harnesses by name.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, HarnessFile>", extend("propertyNames" = { "pattern": HARNESS_NAME }))]
    pub harness: BTreeMap<HarnessId, HarnessFile>,
}

/// Whether a runtime gets a control group leaf beside the ownership by descent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ControlGroups {
    /// Where one can really be made.
    #[default]
    Try,
    /// Never.
    Never,
}

/// Limits of starts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct LimitsFile {
    /// Runtimes that start at once.
    pub start_concurrency: Option<NonZeroUsize>,
    /// Runtimes alive at once.
    pub max_live_runtimes: Option<NonZeroUsize>,
    /// Starts that may wait.
    pub start_queue: Option<usize>,
    /// Keepers that wait without a runtime.
    pub spare_keepers: Option<usize>,
    /// Memory that stays free: below it nothing is started, in MiB.
    #[schemars(extend("maximum" = u32::MAX))]
    pub memory_floor_mib: Option<u32>,
    /// How much of ten seconds everything may wait for memory, in percent: above it nothing is started.
    #[schemars(range(max = 100))]
    pub memory_pressure: Option<u8>,
    /// The folder in which the kernel says so; an absolute path.
    pub memory_source: Option<PathBuf>,
}

/// The ledger.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct LedgerFile {
    /// How long another process may hold its lock.
    pub busy_timeout: Option<Span>,
    /// Its largest size, in MiB. At it nothing new is taken; what runs may settle in 4 MiB beyond it.
    #[schemars(extend("maximum" = u32::MAX))]
    pub max_mib: Option<NonZeroU32>,
}

/// Which adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AdapterName {
    /// Any command that is one task.
    Oneshot,
    /// Codex's app-server.
    Codex,
    /// Any agent that speaks the Agent Client Protocol.
    Acp,
    /// Claude Code's stream-json mode.
    Claude,
    /// Pi's RPC mode.
    Pi,
}

impl AdapterName {
    /// Its name in the file.
    pub fn word(self) -> &'static str {
        match self {
            Self::Oneshot => "oneshot",
            Self::Codex => "codex",
            Self::Acp => "acp",
            Self::Claude => "claude",
            Self::Pi => "pi",
        }
    }
}

/// What counts as a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReportName {
    /// A message of its protocol.
    Protocol,
    /// Its exit status.
    ExitStatus,
}

/// A harness.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct HarnessFile {
    /// Which adapter speaks to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapter: Option<AdapterName>,
    /// Program and arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// Arguments that make it print its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Vec<String>>,
    /// What to say to somebody who has not installed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub install: Option<String>,
    /// Variables it gets from Ostler's environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inherit: Option<Vec<String>>,
    /// Variables it gets besides; never shown.
    #[serde(skip_serializing)]
    pub environment: Option<BTreeMap<String, String>>,
    /// What counts as its report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<ReportName>,
    /// Whether exit code 0 without a byte of output is a success.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub empty_ok: Option<bool>,
    /// How it gets the prompt (oneshot).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<PromptBy>,
    /// How its output is read (oneshot).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<OutputFormat>,
    /// When it asks (codex).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_policy: Option<CodexApproval>,
    /// What its tools may do (codex).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<CodexSandbox>,
    /// The session mode it works in, by its own id (acp).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Programs that are its own helpers, never strays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub helpers: Option<Vec<String>>,
    /// Programs below the one that is started which do its work: what they leave is a stray like any other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engines: Option<Vec<String>>,
    /// The longest line of its output, in MiB.
    #[schemars(extend("maximum" = u32::MAX))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frame_cap_mib: Option<NonZeroU32>,
    /// What becomes of a task whose session it no longer has.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("enum" = ["fail", "fresh"]))]
    pub on_lost_session: Option<OnLostSession>,
    /// How long a runtime of it may be idle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<Span>,
    /// What it can do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<CapabilitiesFile>,
    /// What its processes and its tree may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<HarnessLimitsFile>,
    /// What of its failures is borne before it is left alone for a while.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restarts: Option<RestartsFile>,
    /// Deadlines of its stops.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadlines: Option<DeadlinesFile>,
}

/// Deadlines of a harness.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct DeadlinesFile {
    /// For a native interrupt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupt: Option<Span>,
    /// After the end of input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_of_input: Option<Span>,
    /// After SIGTERM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminate: Option<Span>,
    /// After SIGKILL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kill: Option<Span>,
    /// For one stray, between SIGTERM and SIGKILL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stray: Option<Span>,
    /// Until the first task is taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<Span>,
}
