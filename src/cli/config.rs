//! `ostler config`: check, show, schema.

use clap::Subcommand;
use serde_json::{Value, json};

use super::table::lines;
use super::{print_json, print_line};
use crate::config::{Checked, FileSeen, FileState, Key, Problems, Settings, Surroundings, Valued, known, schema};
use crate::error::{Failure, Kind};

#[derive(Debug, Subcommand)]
pub(super) enum ConfigVerb {
    /// Reads every layer of the configuration and says everything that is wrong with it
    Check {
        /// Prints JSON
        #[arg(long)]
        json: bool,
    },
    /// Shows every value and where it comes from; secrets are not shown
    Show {
        /// Only this key, and those below it
        key: Option<Key>,
        /// Prints JSON
        #[arg(long)]
        json: bool,
    },
    /// Prints the JSON Schema of the file
    Schema,
}

pub(super) fn config(verb: &ConfigVerb, around: &Surroundings) -> Result<u8, Failure> {
    match verb {
        ConfigVerb::Check { json } => check(Settings::check(around), *json),
        ConfigVerb::Show { key, json } => show(&Settings::load(around)?, key.as_ref(), *json),
        ConfigVerb::Schema => print_json(&schema()).map(|()| 0),
    }
}

fn check(checked: Checked, as_json: bool) -> Result<u8, Failure> {
    let problems = checked.settings.and_then(|settings| settings.check_choice()).err();
    if as_json {
        let told = problems.as_ref().map(Problems::to_json).unwrap_or_else(|| json!([]));
        print_json(&json!({ "ok": problems.is_none(), "files": checked.files, "problems": told }))?;
    } else {
        checked.files.iter().try_for_each(|file| print_line(&described(file)))?;
    }
    match problems {
        Some(problems) => Err(problems.into()),
        None if as_json => Ok(0),
        None => print_line("the configuration is fine").map(|()| 0),
    }
}

fn described(file: &FileSeen) -> String {
    let state = match file.state {
        FileState::Read => "read",
        FileState::Absent => "not there",
        FileState::Foreign => "not read: it belongs to another user",
        FileState::Wrong => "wrong",
    };
    format!("{:<8} {}: {state}", file.layer.to_string(), file.path.display())
}

fn show(settings: &Settings, key: Option<&Key>, as_json: bool) -> Result<u8, Failure> {
    let values = settings.values.iter().filter(|(_, valued)| !valued.is_nothing());
    let values: Vec<_> = values.filter(|(known, _)| key.is_none_or(|key| known.is_within(key))).collect();
    if let (Some(key), true) = (key, values.is_empty()) {
        return nothing_set(key).map(|()| 0);
    }
    if as_json {
        let one = |(key, valued): &(&Key, &Valued)| (key.to_string(), described_value(key, valued));
        let values: serde_json::Map<_, _> = values.iter().map(one).collect();
        return print_json(&json!({ "files": settings.files, "values": values })).map(|()| 0);
    }
    let row = |(key, valued): &(&Key, &Valued)| {
        let value = valued.shown(key).unwrap_or_else(|| "(not shown)".to_owned());
        vec![key.to_string(), origin(valued), value]
    };
    let rows: Vec<_> = values.iter().map(row).collect();
    lines(&["key", "from", "value"], &rows).iter().try_for_each(|line| print_line(line))?;
    Ok(0)
}

/// A key that is none is named, with what may have been meant; one that is merely not set is no mistake.
fn nothing_set(key: &Key) -> Result<(), Failure> {
    match known(key) {
        Ok(()) => Err(Failure::new(Kind::NotFound, format!("{key} is not set"))),
        Err(wrong) => Err(Failure::new(Kind::InvalidInput, wrong.to_string())),
    }
}

fn described_value(key: &Key, valued: &Valued) -> Value {
    let mut described = json!({ "origin": valued.origin });
    match valued.json(key) {
        Some(value) => described["value"] = value,
        None => described["secret"] = true.into(),
    }
    described
}

fn origin(valued: &Valued) -> String {
    let layer = valued.origin.layer().to_string();
    match valued.origin.source.name() {
        Some(_) => format!("{layer}, {}", valued.origin),
        None => layer,
    }
}
