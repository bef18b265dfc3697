//! Settings: built in, of the system, the user, the project, the environment, flags; the later one wins, key by key.

mod build;
mod builtin;
mod capabilities;
mod file;
mod foreign;
mod key;
mod layers;
mod limits;
mod loopback;
mod nearest;
mod origin;
mod problem;
mod project;
mod read;
mod restarts;
mod schema;
mod span;
#[cfg(test)]
mod tests;
mod words;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::time::Duration;

use ostler_supervisors::actors::OpenLimits;
use ostler_supervisors::contract::HarnessId;
use ostler_supervisors::harness::Harness;
use ostler_supervisors::machines::admission::{MemoryBounds, Share};
use ostler_supervisors::memory::MemorySource;

use crate::error::{Failure, Kind};
use build::build;

pub use capabilities::CapabilitiesFile;
pub use file::{AdapterName, ControlGroups, DeadlinesFile, File, HarnessFile, ReportName};
pub use key::Key;
pub use layers::{FileSeen, FileState, Surroundings, Valued};
pub use limits::HarnessLimitsFile;
pub use loopback::Loopback;
pub use origin::{Layer, Origin, Source};
pub use problem::{Problem, Problems, Wrong};
pub use restarts::RestartsFile;
pub use schema::schema;
pub use span::Span;

/// Everything that is configured.
#[derive(Debug, Clone)]
pub struct Settings {
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
    pub limits: OpenLimits,
    /// Where the kernel says how much memory is left.
    pub memory: MemorySource,
    /// How long another process may hold the ledger's lock.
    pub busy_timeout: Duration,
    /// The largest size of the ledger, in MiB.
    pub ledger_mib: Option<u64>,
    /// Harnesses, merged.
    pub harnesses: BTreeMap<HarnessId, HarnessFile>,
    /// The files that were looked for, the lowest layer first.
    pub files: Vec<FileSeen>,
    /// Every value, and where it comes from.
    pub values: BTreeMap<Key, Valued>,
}

/// Whether there is such a key.
///
/// # Errors
///
/// With the nearest one, or with those that are there.
pub fn known(key: &Key) -> Result<(), Wrong> {
    let schema = schema();
    let root = schema::Node::root(&schema);
    match root.at(key) {
        Some(_) => Ok(()),
        None => Err(nearest::unknown(root, key.clone())),
    }
}

/// The configuration, right or wrong.
#[derive(Debug, Clone)]
pub struct Checked {
    /// The files that were looked for, the lowest layer first.
    pub files: Vec<FileSeen>,
    /// What is configured, or everything that is wrong.
    pub settings: Result<Settings, Problems>,
}

impl Surroundings {
    /// Those of this process, with the file and the values its flags name. Without a named file it is
    /// `$OSTLER_CONFIG`, if that is set.
    pub fn of_process(named: Option<PathBuf>, set: Vec<String>) -> Self {
        let variable = || std::env::var_os("OSTLER_CONFIG").filter(|path| !path.is_empty()).map(PathBuf::from);
        let system = std::env::var_os("XDG_CONFIG_DIRS").filter(|folders| !folders.is_empty());
        let system = system.unwrap_or_else(|| "/etc/xdg".into());
        let folders = std::env::split_paths(&system).chain([PathBuf::from("/etc")]).filter(|path| path.is_absolute());
        let file = |folder: PathBuf| folder.join("ostler/ostler.toml");
        Self {
            named: named.or_else(variable),
            set,
            environment: std::env::vars_os().filter(|(name, _)| is_own(name)).collect(),
            directory: std::env::current_dir().ok(),
            system: folders.map(file).collect(),
            user: Some(file(xdg("XDG_CONFIG_HOME", ".config"))).filter(|path| path.is_absolute()),
        }
    }
}

impl Settings {
    /// Reads what is configured.
    ///
    /// # Errors
    ///
    /// Everything that is wrong, each with its place.
    pub fn load(around: &Surroundings) -> Result<Self, Problems> {
        Self::check(around).settings
    }

    /// The same, and what was looked for.
    pub fn check(around: &Surroundings) -> Checked {
        let layers = layers::Layers::read(around);
        let settings = layers.merged().and_then(|file| Self::of(file, &layers));
        Checked { files: layers.files, settings }
    }

    fn of(file: File, layers: &layers::Layers) -> Result<Self, Problems> {
        let limits = file.limits.unwrap_or_default();
        let ledger = file.ledger.unwrap_or_default();
        let settings = Self {
            state: file.state.unwrap_or_else(|| state_home().join("ostler")),
            default_harness: file.default_harness,
            orphan_grace: built_in(file.orphan_grace, "orphan_grace")?.0,
            control_groups: built_in(file.control_groups, "control_groups")?,
            operations: built_in(file.operations, "operations")?.into(),
            limits: OpenLimits {
                start_concurrency: built_in(limits.start_concurrency, "limits.start_concurrency")?.get(),
                max_live_runtimes: built_in(limits.max_live_runtimes, "limits.max_live_runtimes")?.get(),
                queue: built_in(limits.start_queue, "limits.start_queue")?,
                spare_keepers: built_in(limits.spare_keepers, "limits.spare_keepers")?,
                memory: MemoryBounds {
                    floor: u64::from(built_in(limits.memory_floor_mib, "limits.memory_floor_mib")?) << 20,
                    pressure: Share::percent(built_in(limits.memory_pressure, "limits.memory_pressure")?),
                },
            },
            memory: MemorySource::new(built_in(limits.memory_source, "limits.memory_source")?),
            busy_timeout: built_in(ledger.busy_timeout, "ledger.busy_timeout")?.0,
            ledger_mib: ledger.max_mib.map(|mib| mib.get().into()),
            harnesses: file.harness,
            files: layers.files.clone(),
            values: layers.values.clone(),
        };
        let wrong = |(id, harness): (&HarnessId, &HarnessFile)| {
            let failure = build(id, harness).err()?;
            Some(Problem { origin: layers.place_of_harness(id.as_str()), wrong: Wrong::Harness(failure.message) })
        };
        let mut problems = foreign::keys(&layers.values);
        if !settings.state.is_absolute() {
            problems.push(Problem { origin: Origin::defaults(), wrong: Wrong::NoHome });
        }
        problems.extend(settings.harnesses.iter().filter_map(wrong));
        if problems.is_empty() { Ok(settings) } else { Err(Problems(problems)) }
    }

    /// Whether the harness to be used by default is one that is configured.
    ///
    /// # Errors
    ///
    /// With the place where it is chosen, and the nearest one that is configured.
    pub fn check_choice(&self) -> Result<(), Problems> {
        let key = Key::new(["default_harness"]);
        let (Some(id), Some(valued)) = (&self.default_harness, self.values.get(&key)) else { return Ok(()) };
        if self.harnesses.contains_key(id) {
            return Ok(());
        }
        let near = nearest::nearest(id.as_str(), self.harnesses.keys().map(HarnessId::as_str));
        let near = near.map(|near| format!("; the nearest is {near}")).unwrap_or_default();
        let wrong = Wrong::Value { key, said: format!("no harness {id} is configured{near}") };
        Err(Problems(vec![Problem { origin: valued.origin.clone(), wrong }]))
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

    /// What a daemon holds as long as it runs.
    pub fn serve_lock(&self) -> PathBuf {
        self.state.join("serve.lock")
    }

    /// The daemon's socket.
    pub fn socket(&self) -> PathBuf {
        self.state.join("ostler.sock")
    }
}

/// Other variables are nobody's business here, and may be secrets.
fn is_own(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b"OSTLER_")
}

/// The lowest layer sets it.
fn built_in<T>(value: Option<T>, key: &str) -> Result<T, Problems> {
    let wrong = || Wrong::Syntax(format!("{key} is not set"));
    value.ok_or_else(|| Problems(vec![Problem { origin: Origin::defaults(), wrong: wrong() }]))
}

fn state_home() -> PathBuf {
    xdg("XDG_STATE_HOME", ".local/state")
}

/// A relative value is no value (XDG base directories).
fn xdg(variable: &str, below_home: &str) -> PathBuf {
    let set = std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    set.unwrap_or_else(|| PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(below_home))
}
