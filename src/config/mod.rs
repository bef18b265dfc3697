//! Settings: built in, one file, the environment, flags; the later one wins, key by key.

mod builtin;
mod file;
mod limits;
mod span;

use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ostler_supervisors::contract::HarnessId;
use ostler_supervisors::harness::{Deadlines, Harness, Secret};
use ostler_supervisors::machines::settlement::{EmptyOutput, ReportMode};
use serde::Serialize;

use crate::adapters::{Acp, AcpOptions, Claude, Codex, CodexOptions, Oneshot, OutputFormat, PromptBy};
use crate::error::{Failure, Kind};

pub use file::{AdapterName, ControlGroups, DeadlinesFile, File, HarnessFile, ReportName};
pub use limits::HarnessLimitsFile;
pub use span::Span;

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// It is built in.
    BuiltIn,
    /// The configuration file.
    File,
    /// An environment variable.
    Environment,
}

/// Everything that is configured.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The file, if there is one.
    pub file: Option<PathBuf>,
    /// Where state is kept.
    pub state: PathBuf,
    /// The harness used where none is named.
    pub default_harness: Option<HarnessId>,
    /// How long a daemon's keepers wait for the next daemon.
    pub orphan_grace: Duration,
    /// Where health and metrics are served; loopback.
    pub operations: String,
    /// Whether control group leaves are tried.
    pub control_groups: ControlGroups,
    /// Limits of starts.
    pub limits: ostler_supervisors::actors::OpenLimits,
    /// How long another process may hold the ledger's lock.
    pub busy_timeout: Duration,
    /// The largest size of the ledger, in MiB.
    pub ledger_mib: Option<u64>,
    /// Harnesses, merged.
    pub harnesses: BTreeMap<HarnessId, HarnessFile>,
    /// Where each top-level value comes from.
    pub origins: BTreeMap<&'static str, Origin>,
}

impl Settings {
    /// Reads what is configured. The file is the one given, or `$OSTLER_CONFIG`, or `ostler/ostler.toml` under the
    /// user's configuration folder, if it is there.
    ///
    /// # Errors
    ///
    /// [`Kind::Configuration`], naming the file and the place in it.
    pub fn load(explicit: Option<&Path>) -> Result<Self, Failure> {
        let named = explicit.map(Path::to_owned).or_else(|| std::env::var_os("OSTLER_CONFIG").map(PathBuf::from));
        let path = named.clone().unwrap_or_else(|| config_home().join("ostler/ostler.toml"));
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && named.is_none() => None,
            Err(error) => {
                let message = format!("{} cannot be read: {error}", path.display());
                return Err(Failure::new(Kind::Configuration, message));
            }
        };
        let file = text.as_deref().map(|text| File::parse(&path, text)).transpose()?;
        let found = file.is_some().then_some(path);
        Self::merge(found, file.unwrap_or_default())
    }

    fn merge(path: Option<PathBuf>, file: File) -> Result<Self, Failure> {
        let mut origins = BTreeMap::new();
        let mut pick = |name: &'static str, in_file: bool, in_environment: bool| {
            let origin = match (in_environment, in_file) {
                (true, _) => Origin::Environment,
                (false, true) => Origin::File,
                (false, false) => Origin::BuiltIn,
            };
            origins.insert(name, origin);
        };
        let state_variable = std::env::var_os("OSTLER_STATE").map(PathBuf::from);
        let harness_variable = std::env::var("OSTLER_HARNESS").ok();
        pick("state", file.state.is_some(), state_variable.is_some());
        pick("default_harness", file.default_harness.is_some(), harness_variable.is_some());
        pick("orphan_grace", file.orphan_grace.is_some(), false);
        pick("operations", file.operations.is_some(), false);
        pick("control_groups", file.control_groups.is_some(), false);
        let default_harness = match harness_variable {
            Some(name) => {
                Some(name.parse().map_err(|e| Failure::new(Kind::Configuration, format!("OSTLER_HARNESS: {e}")))?)
            }
            None => file.default_harness,
        };
        let mut harnesses = builtin::harnesses();
        for (id, harness) in file.harness {
            harnesses.entry(id).or_default().overlay(harness);
        }
        let limits = file.limits.unwrap_or_default();
        let settings = Self {
            file: path,
            state: state_variable.or(file.state).unwrap_or_else(|| state_home().join("ostler")),
            default_harness,
            orphan_grace: file.orphan_grace.map_or(Duration::from_secs(120), |span| span.0),
            control_groups: file.control_groups.unwrap_or_default(),
            operations: file.operations.unwrap_or_else(|| "127.0.0.1:0".to_owned()),
            limits: ostler_supervisors::actors::OpenLimits {
                start_concurrency: limits.start_concurrency.unwrap_or(4),
                max_live_runtimes: limits.max_live_runtimes.unwrap_or(256),
                queue: limits.start_queue.unwrap_or(4096),
                spare_keepers: limits.spare_keepers.unwrap_or(2),
            },
            busy_timeout: file
                .ledger
                .as_ref()
                .and_then(|l| l.busy_timeout)
                .map_or(Duration::from_secs(5), |span| span.0),
            ledger_mib: file.ledger.and_then(|ledger| ledger.max_mib),
            harnesses,
            origins,
        };
        for (id, harness) in &settings.harnesses {
            build(id, harness)?;
        }
        Ok(settings)
    }

    /// Every configured harness, ready for the tree.
    ///
    /// # Errors
    ///
    /// [`Kind::Configuration`] for one that cannot be.
    pub fn build(&self) -> Result<Vec<Harness>, Failure> {
        self.harnesses.iter().map(|(id, harness)| build(id, harness)).collect()
    }

    /// Makes the state folder, private to the user.
    ///
    /// # Errors
    ///
    /// [`Kind::StoreUnavailable`].
    pub fn make_state(&self) -> Result<(), Failure> {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.state);
        made.map_err(|error| {
            let text = format!("the state folder {} cannot be used: {error}", self.state.display());
            Failure::new(Kind::StoreUnavailable, text)
        })
    }

    /// The database file.
    pub fn ledger_path(&self) -> PathBuf {
        self.state.join("ledger.sqlite")
    }

    /// Where owners are registered.
    pub fn owners(&self) -> PathBuf {
        self.state.join("owners")
    }

    /// The daemon's socket.
    pub fn socket(&self) -> PathBuf {
        self.state.join("ostler.sock")
    }
}

fn config_home() -> PathBuf {
    xdg("XDG_CONFIG_HOME", ".config")
}

fn state_home() -> PathBuf {
    xdg("XDG_STATE_HOME", ".local/state")
}

/// A relative value is no value (XDG base directories).
fn xdg(variable: &str, below_home: &str) -> PathBuf {
    let set = std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    set.unwrap_or_else(|| PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(below_home))
}

fn build(id: &HarnessId, file: &HarnessFile) -> Result<Harness, Failure> {
    let missing = |key: &str| Failure::new(Kind::Configuration, format!("harness.{id}: `{key}` is missing"));
    let adapter: Arc<dyn ostler_supervisors::adapter::AdapterKind> =
        match file.adapter.ok_or_else(|| missing("adapter"))? {
            AdapterName::Oneshot => Arc::new(Oneshot {
                prompt: file.prompt.unwrap_or(PromptBy::Argument),
                output: file.output.unwrap_or(OutputFormat::Text),
            }),
            AdapterName::Acp => Arc::new(Acp { options: AcpOptions { mode: file.mode.clone() } }),
            AdapterName::Codex => {
                let defaults = CodexOptions::default();
                Arc::new(Codex {
                    options: CodexOptions {
                        approval_policy: file.approval_policy.clone().unwrap_or(defaults.approval_policy),
                        sandbox: file.sandbox.clone().unwrap_or(defaults.sandbox),
                    },
                })
            }
            AdapterName::Claude => Arc::new(Claude),
        };
    let command = file.command.clone().filter(|command| !command.is_empty()).ok_or_else(|| missing("command"))?;
    let empty = if file.empty_ok == Some(true) { EmptyOutput::Accepted } else { EmptyOutput::Suspicious };
    let report = match (file.report, file.adapter) {
        (Some(ReportName::ExitStatus), _) | (None, Some(AdapterName::Oneshot)) => ReportMode::ExitStatus(empty),
        _ => ReportMode::Protocol,
    };
    let secret = |(name, value): (&String, &String)| (name.clone(), Secret::new(value.clone()));
    Ok(Harness {
        id: id.clone(),
        command,
        inherit: file.inherit.clone().unwrap_or_else(builtin::inherit),
        environment: file.environment.iter().flatten().map(secret).collect(),
        adapter,
        report,
        deadlines: deadlines(file),
        helpers: file.helpers.clone().unwrap_or_default(),
        frame_cap: (file.frame_cap_mib.unwrap_or(64) as usize) << 20,
        on_lost_session: file.on_lost_session.unwrap_or_default(),
        idle_timeout: file.idle_timeout.map_or(IDLE_TIMEOUT, |span| span.0),
        limits: file.limits.as_ref().map(HarnessLimitsFile::limits).unwrap_or_default(),
    })
}

/// How long a runtime may be idle where nothing else is said.
const IDLE_TIMEOUT: Duration = Duration::from_secs(15 * 60);

fn deadlines(file: &HarnessFile) -> Deadlines {
    let given = file.deadlines.clone().unwrap_or_default();
    let pick = |given: Option<Span>, built_in: u64| given.map_or(Duration::from_millis(built_in), |span| span.0);
    Deadlines {
        interrupt: pick(given.interrupt, 2_000),
        end_of_input: pick(given.end_of_input, 1_000),
        terminate: pick(given.terminate, 2_000),
        kill: pick(given.kill, 5_000),
        stray: pick(given.stray, 500),
        ready: pick(given.ready, 30_000),
    }
}
