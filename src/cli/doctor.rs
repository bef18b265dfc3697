//! `ostler doctor`: what of the promises this machine can keep, and why not the rest.

use std::io::Write;

use clap::Args;
use ostler_keeper::{LimitKind, LimitState};
use ostler_supervisors::machines::admission::admit;
use serde::Serialize;

use super::{harness, print_json, print_line, route};
use crate::config::{ControlGroups, Settings};
use crate::error::{Failure, Kind};

/// Bytes that are written to see whether there is room.
const TRIAL: usize = 4096;

#[derive(Debug, Args)]
pub(super) struct Doctor {
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    ok: bool,
    found: String,
}

pub(super) async fn doctor(doctor: Doctor, settings: &Settings) -> Result<u8, Failure> {
    let mut checks = vec![containment(), limits(settings), memory(settings), state(settings), ledger(settings).await];
    for (id, harness) in &settings.harnesses {
        let found = match harness::program(harness) {
            Some(path) => {
                let version = harness::version(harness).await.unwrap_or_else(|| "version not known".to_owned());
                format!("{id}: {} ({version})", path.display())
            }
            None => format!("{id}: not installed; {}", harness.install.as_deref().unwrap_or("no hint")),
        };
        checks.push(Check { name: "harness", ok: harness::program(harness).is_some(), found });
    }
    if doctor.json {
        print_json(&checks)?;
    } else {
        for check in &checks {
            let mark = if check.ok { "ok  " } else { "--  " };
            print_line(&format!("{mark}{:<12}{}", check.name, check.found))?;
        }
    }
    Ok(0)
}

fn containment() -> Check {
    let leaf = ostler_keeper::usable_leaf_parent();
    let found = match &leaf {
        Some(parent) => format!("by descent, and by control group leaves below {}", parent.display()),
        None => "by descent; no control group leaf can be made here (in most containers and SSH sessions none can)"
            .to_owned(),
    };
    Check { name: "containment", ok: leaf.is_some(), found }
}

/// Whether the tree of every agent can be held to its limits; those of single processes always can.
fn limits(settings: &Settings) -> Check {
    let parent = match settings.control_groups {
        ControlGroups::Try => ostler_keeper::usable_leaf_parent(),
        ControlGroups::Never => None,
    };
    let offered = ostler_keeper::offered_limits(parent.as_deref());
    let (held, not): (Vec<&LimitState>, Vec<_>) = offered.iter().partition(|limit| limit.reason().is_none());
    let list = |limits: &[&LimitState]| limits.iter().map(|limit| limit.to_string()).collect::<Vec<_>>().join(", ");
    let found = match not.is_empty() {
        true => format!("can be in force: {}", list(&held)),
        false => format!("can be in force: {}; not: {}", list(&held), list(&not)),
    };
    let of_trees = [LimitKind::Memory, LimitKind::Swap, LimitKind::Processes];
    Check { name: "limits", ok: !not.iter().any(|limit| of_trees.contains(&limit.kind)), found }
}

/// Whether a runtime could be started now, as far as its memory goes.
fn memory(settings: &Settings) -> Check {
    let reading = settings.memory.read();
    let room = admit(settings.limits.memory, reading);
    let left =
        reading.available.map_or("what is left is not told".to_owned(), |bytes| format!("{} MiB left", bytes >> 20));
    let waits = reading.stalled.map_or("pressure is not told".to_owned(), |stalled| format!("pressure {stalled}"));
    let found = match &room {
        Ok(()) => format!("{left}, {waits}"),
        Err(shortage) => format!("{left}, {waits}; nothing is started: {shortage}"),
    };
    Check { name: "memory", ok: room.is_ok(), found }
}

fn state(settings: &Settings) -> Check {
    let usable = settings.make_state().and_then(|()| try_to_write(settings));
    let found = match &usable {
        Ok(()) => settings.state.display().to_string(),
        Err(failure) => failure.message.clone(),
    };
    Check { name: "state", ok: usable.is_ok(), found }
}

/// A folder that is there may be on a disk that is full, or that takes nothing.
fn try_to_write(settings: &Settings) -> Result<(), Failure> {
    let written = tempfile::Builder::new().prefix("doctor-").tempfile_in(&settings.state).and_then(|mut file| {
        file.write_all(&[1; TRIAL])?;
        file.as_file().sync_all()?;
        file.close()
    });
    written.map_err(|error| {
        let text = format!("nothing can be written to {}: {error}", settings.state.display());
        Failure::new(Kind::StoreUnavailable, text)
    })
}

async fn ledger(settings: &Settings) -> Check {
    if !settings.ledger_path().exists() {
        return Check { name: "ledger", ok: true, found: "none yet; the first task makes it".to_owned() };
    }
    match route::ledger(settings).await {
        Ok(ledger) => {
            let bytes = std::fs::metadata(ledger.path()).map(|file| file.len()).unwrap_or_default();
            Check { name: "ledger", ok: true, found: format!("{}, {} KiB", ledger.path().display(), bytes / 1024) }
        }
        Err(failure) => Check { name: "ledger", ok: false, found: failure.message },
    }
}
