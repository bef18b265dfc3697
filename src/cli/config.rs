//! `ostler config`: check, show, schema.

use clap::Subcommand;
use serde_json::{Value, json};

use super::table::lines;
use super::{print_json, print_line};
use crate::config::{Checked, FileSeen, FileState, Key, Problems, Settings, Surroundings, Valued, schema};
use crate::error::Failure;

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
        key: Option<String>,
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
        ConfigVerb::Show { key, json } => show(&Settings::load(around)?, key.as_deref(), *json),
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

fn show(settings: &Settings, key: Option<&str>, as_json: bool) -> Result<u8, Failure> {
    let is_meant = |name: &str| {
        key.is_none_or(|key| name.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
    };
    let values = settings.values.iter().map(|(key, valued)| (key, key.to_string(), valued));
    let values: Vec<_> = values.filter(|(_, name, valued)| is_meant(name) && !valued.is_nothing()).collect();
    if as_json {
        let one = |(key, name, valued): &(&Key, String, &Valued)| (name.clone(), described_value(key, valued));
        let values: serde_json::Map<_, _> = values.iter().map(one).collect();
        return print_json(&json!({ "files": settings.files, "values": values })).map(|()| 0);
    }
    let row = |(key, name, valued): &(&Key, String, &Valued)| {
        let value = valued.shown(key).unwrap_or_else(|| "(not shown)".to_owned());
        vec![name.clone(), value, origin(valued)]
    };
    let rows: Vec<_> = values.iter().map(row).collect();
    lines(&["key", "value", "from"], &rows).iter().try_for_each(|line| print_line(line))?;
    Ok(0)
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
