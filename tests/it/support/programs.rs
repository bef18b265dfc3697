//! The programs under test.

use std::ffi::OsString;
use std::path::PathBuf;

/// The `ostler` binary.
pub fn ostler() -> PathBuf {
    env!("CARGO_BIN_EXE_ostler").into()
}

/// The `ostler-keeper` binary.
pub fn keeper() -> PathBuf {
    env!("CARGO_BIN_EXE_ostler-keeper").into()
}

/// The command line of the scripted agent, played by the main binary.
pub fn agent(arguments: &[&str]) -> Vec<OsString> {
    let mut command = vec![ostler().into_os_string(), "play-agent".into()];
    command.extend(arguments.iter().map(Into::into));
    command
}
