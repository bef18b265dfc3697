//! `ostler config`: check and show.

use std::path::Path;

use clap::Subcommand;
use serde_json::json;

use super::{print_json, print_line};
use crate::config::{Settings, Span};
use crate::error::Failure;

#[derive(Debug, Subcommand)]
pub(super) enum ConfigVerb {
    /// Reads the configuration and says what is wrong with it
    Check {
        /// Prints JSON
        #[arg(long)]
        json: bool,
    },
    /// Shows every value and where it comes from; secrets are not shown
    Show {
        /// Prints JSON
        #[arg(long)]
        json: bool,
    },
}

pub(super) fn config(verb: &ConfigVerb, file: Option<&Path>) -> Result<u8, Failure> {
    let settings = Settings::load(file)?;
    settings.build()?;
    match verb {
        ConfigVerb::Check { json: true } => print_json(&json!({ "ok": true, "file": settings.file }))?,
        ConfigVerb::Check { json: false } => match &settings.file {
            Some(path) => print_line(&format!("{} is fine", path.display()))?,
            None => print_line("there is no configuration file; everything is built in")?,
        },
        ConfigVerb::Show { json } => show(&settings, *json)?,
    }
    Ok(0)
}

fn show(settings: &Settings, as_json: bool) -> Result<(), Failure> {
    let values = json!({
        "state": settings.state,
        "default_harness": settings.default_harness,
        "orphan_grace": Span(settings.orphan_grace),
        "operations": settings.operations,
        "control_groups": settings.control_groups,
    });
    if as_json {
        return print_json(&json!({ "file": settings.file, "values": values, "origins": settings.origins }));
    }
    for (name, origin) in &settings.origins {
        let value = match &values[*name] {
            serde_json::Value::Null => "not set".to_owned(),
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        print_line(&format!("{name:<16} {value}  ({})", format!("{origin:?}").to_lowercase()))?;
    }
    for id in settings.harnesses.keys() {
        print_line(&format!("harness          {id}  (`ostler harness show {id}`)"))?;
    }
    Ok(())
}
