//! Values that are given by variables and by flags: texts, of which the key's type says how they are read.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;

use toml::de::{DeTable, DeValue};

use super::problem::said;
use super::read::Assigned;
use super::schema::Node;
use super::{Key, Origin, Problem, Source, Wrong};

/// A name that is so many letters off is a mistake in writing.
const MISSPELT: usize = 2;
/// A longer name is none of ours.
const LONGEST: usize = 64;

/// The flag that sets any key.
const SET: &str = "--set";

/// A source with its text in the file's language.
type Text = Result<(Arc<Source>, String), Problem>;

/// The variable of a key: `OSTLER_LIMITS_START_CONCURRENCY`. Harnesses have none: their names are not known before.
pub(super) fn variable(key: &Key) -> Option<String> {
    if key.harness().is_some() {
        return None;
    }
    let names: Vec<_> = key.names().map(str::to_uppercase).collect();
    match names.join("_").as_str() {
        "DEFAULT_HARNESS" => Some("OSTLER_HARNESS".to_owned()),
        name => Some(format!("OSTLER_{name}")),
    }
}

/// What the environment sets. An empty variable sets nothing.
pub(super) fn variables(root: Node<'_>, environment: &BTreeMap<OsString, OsString>) -> Vec<Text> {
    let set = |key: Key| {
        let name = variable(&key)?;
        let value = environment.get(OsStr::new(&name)).filter(|value| !value.is_empty())?;
        let source = Arc::new(Source::Variable(name));
        let text = value.to_str().ok_or_else(|| wrong(&source, &key, "it is not UTF-8"));
        Some(text.map(|text| (source.clone(), assignment(root, &key, text))))
    };
    root.keys().into_iter().filter_map(set).collect()
}

/// Variables that are almost those of a key. Any other is no business of the configuration: agents and tests have
/// some of their own.
pub(super) fn misspelt(root: Node<'_>, environment: &BTreeMap<OsString, OsString>) -> Vec<Problem> {
    let known: Vec<_> = root.keys().iter().filter_map(variable).collect();
    let wrong = |name: &OsString| {
        let name = name.to_str().filter(|name| !known.iter().any(|known| known == name))?;
        let near = |known: &&String| strsim::damerau_levenshtein(name, known) <= MISSPELT;
        let nearest = known.iter().find(near)?.clone();
        let origin = Origin { source: Arc::new(Source::Variable(name.to_owned())), line: None };
        Some(Problem { origin, wrong: Wrong::NoVariable { nearest } })
    };
    environment.keys().filter(|name| name.len() <= LONGEST).filter_map(wrong).collect()
}

/// What flags set.
pub(super) fn flags(root: Node<'_>, set: &[String]) -> Vec<Text> {
    set.iter().map(|word| flag(root, word)).collect()
}

fn flag(root: Node<'_>, word: &str) -> Text {
    let source = Arc::new(Source::Flag(SET));
    let problem = |wrong| Problem { origin: Origin { source: source.clone(), line: None }, wrong };
    let no_key = || problem(Wrong::Syntax(format!("{} is not KEY=VALUE", said(&format!("{word:?}")))));
    let (name, value) = word.split_once('=').ok_or_else(no_key)?;
    let key = key(name).ok_or_else(no_key)?;
    if key.is_secret() {
        return Err(problem(Wrong::FileOnly { key }));
    }
    Ok((source.clone(), assignment(root, &key, value)))
}

/// A key as it is written in the file's language.
pub(super) fn key(text: &str) -> Option<Key> {
    let text = format!("{} = 0", text.trim());
    let table = DeTable::parse(&text).ok()?;
    let mut key = Key::default();
    let mut at = table.get_ref();
    loop {
        let mut entries = at.iter();
        let ((name, value), None) = (entries.next()?, entries.next()) else { return None };
        key = key.child(name.get_ref());
        match value.get_ref().as_table() {
            Some(inner) => at = inner,
            None => return Some(key),
        }
    }
}

/// A line of the file: what is a text there need not be quoted here.
fn assignment(root: Node<'_>, key: &Key, text: &str) -> String {
    let text = text.trim();
    let is_text = root.at(key).is_some_and(Node::is_text);
    let may_be_value = !is_text || text.starts_with(['"', '\'']);
    let value = match may_be_value && DeValue::parse(text).is_ok() {
        true => text.to_owned(),
        // Whatever is wrong with it is said of the text that was given.
        false => toml::Value::String(text.to_owned()).to_string(),
    };
    let names: Vec<_> = key.names().map(|name| toml::Value::String(name.to_owned()).to_string()).collect();
    format!("{} = {value}", names.join("."))
}

fn wrong(source: &Arc<Source>, key: &Key, text: &str) -> Problem {
    let wrong = Wrong::Value { key: key.clone(), said: text.to_owned() };
    Problem { origin: Origin { source: source.clone(), line: None }, wrong }
}

/// The keys whose values are paths of Ostler's own.
fn is_path(key: &Key) -> bool {
    let paths: [&[&str]; 3] = [&["state"], &["trusted_projects"], &["limits", "memory_source"]];
    paths.iter().any(|names| *key == Key::new(names.iter().copied()))
}

fn paths(value: &toml::Value) -> Vec<&str> {
    match value {
        toml::Value::Array(values) => values.iter().filter_map(toml::Value::as_str).collect(),
        value => value.as_str().into_iter().collect(),
    }
}

/// Whether it is a path that would depend on where Ostler is started.
pub(super) fn is_relative(value: &Assigned) -> bool {
    is_path(&value.key) && paths(&value.value).iter().any(|path| !Path::new(path).is_absolute())
}

/// A path on a command line is meant from the working directory.
pub(super) fn make_absolute(value: &mut Assigned, directory: Option<&Path>) {
    let (true, Some(directory)) = (is_path(&value.key), directory) else { return };
    let absolute = |text: &mut toml::Value| {
        let path = text.as_str().map(|path| directory.join(path));
        if let Some(path) = path.as_deref().and_then(Path::to_str) {
            *text = toml::Value::String(path.to_owned());
        }
    };
    match &mut value.value {
        toml::Value::Array(values) => values.iter_mut().for_each(absolute),
        value => absolute(value),
    }
}
