//! A machine between two daemons: the whole of it, with the version of its shape.

use ostler_supervisors::adapter::SnapshotError;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

#[derive(Serialize)]
struct Taken<'a, M> {
    version: u32,
    machine: &'a M,
}

#[derive(Deserialize)]
struct Given<M> {
    version: u32,
    machine: M,
}

pub(super) fn take<M: Serialize>(version: u32, machine: &M) -> Vec<u8> {
    serde_json::to_vec(&Taken { version, machine }).unwrap_or_default()
}

/// # Errors
///
/// [`SnapshotError`] for bytes of another version, or that are no machine of this kind.
pub(super) fn restore<M: DeserializeOwned>(version: u32, bytes: &[u8]) -> Result<M, SnapshotError> {
    let given: Given<M> = serde_json::from_slice(bytes).map_err(|error| SnapshotError(error.to_string()))?;
    if given.version != version {
        return Err(SnapshotError(format!("version {} is not known", given.version)));
    }
    Ok(given.machine)
}
