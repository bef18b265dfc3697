//! The machine between two daemons.

use ostler_supervisors::adapter::SnapshotError;
use serde::{Deserialize, Serialize};

use super::Machine;

const VERSION: u32 = 1;

#[derive(Serialize)]
struct Taken<'a> {
    version: u32,
    machine: &'a Machine,
}

#[derive(Deserialize)]
struct Given {
    version: u32,
    machine: Machine,
}

pub(super) fn take(machine: &Machine) -> Vec<u8> {
    serde_json::to_vec(&Taken { version: VERSION, machine }).unwrap_or_default()
}

pub(super) fn restore(bytes: &[u8]) -> Result<Machine, SnapshotError> {
    let given: Given = serde_json::from_slice(bytes).map_err(|error| SnapshotError(error.to_string()))?;
    match given.version {
        VERSION => Ok(given.machine),
        other => Err(SnapshotError(format!("version {other} is not known"))),
    }
}
