//! The file's shape. Every key is optional; an unknown one is an error that names its place.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ostler_supervisors::contract::HarnessId;
use ostler_supervisors::harness::OnLostSession;
use serde::{Deserialize, Serialize};

use super::{HarnessLimitsFile, Span};
use crate::adapters::{OutputFormat, PromptBy};
use crate::error::{Failure, Kind};

/// The whole file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Where state is kept.
    pub state: Option<PathBuf>,
    /// The harness used where none is named.
    pub default_harness: Option<HarnessId>,
    /// How long a daemon's keepers wait for the next daemon.
    pub orphan_grace: Option<Span>,
    /// Where health and metrics are served.
    pub operations: Option<String>,
    /// Whether control group leaves are tried.
    pub control_groups: Option<ControlGroups>,
    /// Limits of starts.
    pub limits: Option<LimitsFile>,
    /// The ledger.
    pub ledger: Option<LedgerFile>,
    /// Harnesses by name.
    #[serde(default)]
    pub harness: BTreeMap<HarnessId, HarnessFile>,
}

/// Whether a runtime gets a control group leaf beside the ownership by descent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlGroups {
    /// Where one can really be made.
    #[default]
    Try,
    /// Never.
    Never,
}

/// `[limits]`
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitsFile {
    /// Runtimes that start at once.
    pub start_concurrency: Option<usize>,
    /// Runtimes alive at once.
    pub max_live_runtimes: Option<usize>,
    /// Starts that may wait.
    pub start_queue: Option<usize>,
    /// Keepers that wait without a runtime.
    pub spare_keepers: Option<usize>,
}

/// `[ledger]`
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LedgerFile {
    /// How long another process may hold its lock.
    pub busy_timeout: Option<Span>,
    /// Its largest size.
    pub max_mib: Option<u64>,
}

/// Which adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
}

/// What counts as a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReportName {
    /// A message of its protocol.
    Protocol,
    /// Its exit status.
    ExitStatus,
}

/// `[harness.NAME]`
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
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
    pub approval_policy: Option<String>,
    /// What its tools may do (codex).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// The session mode it works in, by its own id (acp).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Programs that are its own helpers, never strays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub helpers: Option<Vec<String>>,
    /// The longest line of its output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frame_cap_mib: Option<u64>,
    /// What becomes of a task whose session it no longer has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_lost_session: Option<OnLostSession>,
    /// How long a runtime of it may be idle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<Span>,
    /// What its processes and its tree may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<HarnessLimitsFile>,
    /// Deadlines of its stops.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadlines: Option<DeadlinesFile>,
}

/// `[harness.NAME.deadlines]`
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
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

impl File {
    /// Reads a file's text.
    ///
    /// # Errors
    ///
    /// [`Kind::Configuration`], with the file, the line and what was expected there.
    pub fn parse(path: &Path, text: &str) -> Result<Self, Failure> {
        toml::from_str(text).map_err(|error| {
            let line = error.span().map(|span| 1 + text[..span.start].matches('\n').count());
            let place = line.map_or_else(|| path.display().to_string(), |line| format!("{}:{line}", path.display()));
            Failure::new(Kind::Configuration, format!("{place}: {}", error.message()))
        })
    }
}

impl HarnessFile {
    /// Every key that is set over there wins.
    pub fn overlay(&mut self, over: Self) {
        fn set<T>(mine: &mut Option<T>, over: Option<T>) {
            if over.is_some() {
                *mine = over;
            }
        }
        set(&mut self.adapter, over.adapter);
        set(&mut self.command, over.command);
        set(&mut self.version, over.version);
        set(&mut self.install, over.install);
        set(&mut self.inherit, over.inherit);
        set(&mut self.report, over.report);
        set(&mut self.empty_ok, over.empty_ok);
        set(&mut self.prompt, over.prompt);
        set(&mut self.output, over.output);
        set(&mut self.approval_policy, over.approval_policy);
        set(&mut self.sandbox, over.sandbox);
        set(&mut self.mode, over.mode);
        set(&mut self.helpers, over.helpers);
        set(&mut self.frame_cap_mib, over.frame_cap_mib);
        set(&mut self.on_lost_session, over.on_lost_session);
        set(&mut self.idle_timeout, over.idle_timeout);
        self.environment.get_or_insert_default().extend(over.environment.unwrap_or_default());
        if let Some(limits) = over.limits {
            self.limits.get_or_insert_default().overlay(limits);
        }
        let (mine, over) = (self.deadlines.get_or_insert_default(), over.deadlines.unwrap_or_default());
        set(&mut mine.interrupt, over.interrupt);
        set(&mut mine.end_of_input, over.end_of_input);
        set(&mut mine.terminate, over.terminate);
        set(&mut mine.kill, over.kill);
        set(&mut mine.stray, over.stray);
        set(&mut mine.ready, over.ready);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_key_names_file_line_and_what_was_expected() {
        let error = File::parse(Path::new("o.toml"), "\n[limits]\nstart_concurency = 3\n").expect_err("unknown");
        assert!(error.message.starts_with("o.toml:3: unknown field `start_concurency`, expected one of"), "{error}");
        let error = File::parse(Path::new("o.toml"), "orphan_grace = \"5\"").expect_err("no span");
        assert!(error.message.contains("o.toml:1:") && error.message.contains("500ms"), "{error}");
    }
}
