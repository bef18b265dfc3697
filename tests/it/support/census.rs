//! The count of what is left, by a separate process that knows nothing of Ostler's state.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// The kinds that are counted.
pub const KINDS: [&str; 6] = ["processes", "zombies", "descriptors", "sockets", "folders", "leaves"];

/// Counts.
pub fn census(markers: &[&str], folder: &Path, leaves: &str) -> Value {
    let output = Command::new("python3")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/census/census.py"))
        .args(["--leaves", leaves, "--folder"])
        .arg(folder)
        .arg("--marker")
        .args(markers)
        .output()
        .expect("python3");
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The kinds of which something was found.
pub fn found(count: &Value) -> Vec<&'static str> {
    KINDS.into_iter().filter(|kind| count[*kind].as_array().is_some_and(|list| !list.is_empty())).collect()
}
