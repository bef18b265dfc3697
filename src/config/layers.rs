//! All layers, read and laid over each other.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value as Schema;

use super::project::{self, Found};
use super::read::{Assigned, read};
use super::schema::{Node, schema};
use super::{AdapterName, File, Key, Layer, Origin, Problem, Problems, Source, Wrong, builtin, words};

/// A larger file is no configuration.
const LARGEST: u64 = 1 << 20;

/// What the configuration depends on: what was asked for, and what is around.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// The one file that was named, read in the place of the system's, the user's and the project's.
    pub named: Option<PathBuf>,
    /// `KEY=VALUE`, as flags have it; of two for one key the later one.
    pub set: Vec<String>,
    /// The environment, as far as it is Ostler's.
    pub environment: BTreeMap<OsString, OsString>,
    /// The working directory, if it is known.
    pub directory: Option<PathBuf>,
    /// The files of the system; an earlier one wins over a later one.
    pub system: Vec<PathBuf>,
    /// The user's file.
    pub user: Option<PathBuf>,
}

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileState {
    /// It was read.
    Read,
    /// There is none.
    Absent,
    /// It is another user's, and was not read.
    Foreign,
    /// Something is wrong with it.
    Wrong,
}

/// A file that was looked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileSeen {
    /// Its layer.
    pub layer: Layer,
    /// Where it is, or would be.
    pub path: PathBuf,
    /// What became of it.
    pub state: FileState,
}

/// A value, and where it comes from.
#[derive(Clone, PartialEq)]
pub struct Valued {
    /// The value, which may be a secret.
    pub(super) value: toml::Value,
    /// Where it comes from.
    pub origin: Origin,
}

impl Valued {
    /// The value of this key as the file's language has it; none if it may be a secret.
    pub fn shown(&self, key: &Key) -> Option<String> {
        (!key.is_secret()).then(|| self.value.to_string())
    }

    /// The value of this key as JSON; none if it may be a secret.
    pub fn json(&self, key: &Key) -> Option<serde_json::Value> {
        (!key.is_secret()).then(|| serde_json::to_value(&self.value).unwrap_or_default())
    }

    /// Whether it is an empty table, which sets nothing.
    pub fn is_nothing(&self) -> bool {
        self.value.is_table()
    }
}

impl std::fmt::Debug for Valued {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a value of {}", self.origin)
    }
}

/// Everything that was read.
#[derive(Debug, Clone)]
pub(super) struct Layers {
    schema: Schema,
    pub(super) values: BTreeMap<Key, Valued>,
    pub(super) files: Vec<FileSeen>,
    pub(super) problems: Vec<Problem>,
}

impl Layers {
    /// Reads every layer, the lowest first. What is wrong is in `problems`; the rest counts.
    pub(super) fn read(around: &Surroundings) -> Self {
        let mut layers = Self { schema: schema(), values: BTreeMap::new(), files: Vec::new(), problems: Vec::new() };
        let built_in = builtin::layer(&layers.schema);
        layers.lay(built_in);
        match &around.named {
            Some(path) => layers.file(Layer::Named, path),
            None => {
                around.system.iter().rev().for_each(|path| layers.file(Layer::System, path));
                around.user.iter().for_each(|path| layers.file(Layer::User, path));
            }
        }
        let over = layers.words(around);
        if around.named.is_none() {
            layers.project(around, &over);
        }
        layers.lay((over, Vec::new()));
        layers.complete();
        layers
    }

    fn lay(&mut self, (assigned, problems): (Vec<Assigned>, Vec<Problem>)) {
        for Assigned { key, value, origin } in assigned {
            self.values.insert(key, Valued { value, origin });
        }
        self.problems.extend(problems);
    }

    /// What is set by the environment and by flags, which win over every file.
    fn words(&mut self, around: &Surroundings) -> Vec<Assigned> {
        let root = Node::root(&self.schema);
        let texts = words::variables(root, &around.environment).into_iter().chain(words::flags(root, &around.set));
        self.problems.extend(words::misspelt(root, &around.environment));
        let mut over = Vec::new();
        for text in texts {
            let (mut assigned, problems) = match text {
                Ok((source, text)) => read(&self.schema, &source, &text),
                Err(problem) => (Vec::new(), vec![problem]),
            };
            assigned.iter_mut().for_each(|value| words::make_absolute(value, around.directory.as_deref()));
            over.extend(assigned);
            self.problems.extend(problems);
        }
        over
    }

    fn file(&mut self, layer: Layer, path: &Path) {
        let read = self.read_file(layer, path);
        self.lay(read);
    }

    fn read_file(&mut self, layer: Layer, path: &Path) -> (Vec<Assigned>, Vec<Problem>) {
        let source = Arc::new(Source::File(layer, path.to_owned()));
        let (assigned, problems) = match text_of(layer, path) {
            Ok(Some(text)) => read(&self.schema, &source, &text),
            Ok(None) => {
                self.files.push(FileSeen { layer, path: path.to_owned(), state: FileState::Absent });
                return (Vec::new(), Vec::new());
            }
            Err(said) => {
                let origin = Origin { source, line: None };
                (Vec::new(), vec![Problem { origin, wrong: Wrong::Unreadable(said) }])
            }
        };
        let (assigned, relative): (Vec<_>, Vec<_>) = assigned.into_iter().partition(|value| !words::is_relative(value));
        let relative = relative.into_iter().map(|value| {
            let said = "it must be an absolute path".to_owned();
            Problem { origin: value.origin, wrong: Wrong::Value { key: value.key, said } }
        });
        let problems: Vec<_> = problems.into_iter().chain(relative).collect();
        let state = if problems.is_empty() { FileState::Read } else { FileState::Wrong };
        self.files.push(FileSeen { layer, path: path.to_owned(), state });
        (assigned, problems)
    }

    /// The project's file; who is trusted is said by every other layer.
    fn project(&mut self, around: &Surroundings, over: &[Assigned]) {
        let Some(directory) = &around.directory else { return };
        let others: Vec<_> = self.files.iter().map(|file| file.path.clone()).collect();
        match project::find(directory, &others) {
            Found::Nothing => {}
            Found::Two(one, other) => self.problems.push(project::twice(one, other)),
            Found::Foreign(path) => {
                self.files.push(FileSeen { layer: Layer::Project, path, state: FileState::Foreign });
            }
            Found::File(path, folder) => {
                let (assigned, problems) = self.read_file(Layer::Project, &path);
                let trusted = project::is_trusted(&folder, &self.trusted(over));
                let (assigned, refused) = project::obeyed(assigned, &folder, trusted);
                if !refused.is_empty() {
                    self.files
                        .iter_mut()
                        .filter(|file| file.path == path)
                        .for_each(|file| file.state = FileState::Wrong);
                }
                self.lay((assigned, problems.into_iter().chain(refused).collect()));
            }
        }
    }

    fn trusted(&self, over: &[Assigned]) -> Vec<PathBuf> {
        let key = Key::new(["trusted_projects"]);
        let over = over.iter().rev().find(|value| value.key == key).map(|value| &value.value);
        let value = over.or_else(|| self.values.get(&key).map(|valued| &valued.value));
        value.and_then(|value| Vec::deserialize(value.clone()).ok()).unwrap_or_default()
    }

    /// The defaults of every harness of which it is known how it is spoken to.
    fn complete(&mut self) {
        let adapters: Vec<(String, AdapterName)> = self
            .values
            .iter()
            .filter(|(key, _)| key.names().nth(2) == Some("adapter"))
            .filter_map(|(key, valued)| {
                Some((key.harness()?.to_owned(), AdapterName::deserialize(valued.value.clone()).ok()?))
            })
            .collect();
        for (name, adapter) in adapters {
            for Assigned { key, value, origin } in builtin::harness_defaults(&name, adapter) {
                self.values.entry(key).or_insert(Valued { value, origin });
            }
        }
    }

    /// All values as one file.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with any layer.
    pub(super) fn merged(&self) -> Result<File, Problems> {
        if !self.problems.is_empty() {
            return Err(Problems(self.problems.clone()));
        }
        let mut table = toml::Table::new();
        for (key, valued) in &self.values {
            insert(&mut table, key, valued.value.clone());
        }
        File::deserialize(toml::Value::Table(table)).map_err(|error| {
            let wrong = Wrong::Syntax(super::problem::said(error.message()));
            Problems(vec![Problem { origin: Origin::defaults(), wrong }])
        })
    }

    /// Where a harness is set, for what is missing in it: its first place in the uppermost layer.
    pub(super) fn place_of_harness(&self, name: &str) -> Origin {
        let of_it = self.values.iter().filter(|(key, _)| key.harness() == Some(name));
        let origins = of_it.map(|(_, valued)| &valued.origin);
        let first = origins.max_by_key(|origin| (origin.layer(), std::cmp::Reverse(origin.line)));
        first.cloned().unwrap_or_else(Origin::defaults)
    }
}

fn insert(table: &mut toml::Table, key: &Key, value: toml::Value) {
    let mut names = key.names();
    let Some(last) = names.next_back() else { return };
    let mut table = table;
    for name in names {
        let entry = table.entry(name.to_owned()).or_insert_with(|| toml::Value::Table(toml::Table::new()));
        let toml::Value::Table(inner) = entry else { return };
        table = inner;
    }
    table.insert(last.to_owned(), value);
}

/// The text of a file; none if there is no file where there need not be one.
fn text_of(layer: Layer, path: &Path) -> Result<Option<String>, String> {
    let may_be_absent = layer != Layer::Named && layer != Layer::Project;
    let mut options = std::fs::File::options();
    // Opening a pipe that nobody writes to would wait. A file that was named may be one.
    if layer != Layer::Named {
        options.custom_flags(nix::libc::O_NONBLOCK);
    }
    let file = match options.read(true).open(path) {
        Ok(file) => file,
        Err(error) if may_be_absent && matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(error.to_string()),
    };
    let kind = file.metadata().map_err(|error| error.to_string())?;
    if layer != Layer::Named && !kind.is_file() {
        return Err("it is no regular file".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > LARGEST {
        return Err(format!("it is larger than {} KiB", LARGEST >> 10));
    }
    String::from_utf8(bytes).map(Some).map_err(|_| "it is not UTF-8".to_owned())
}
