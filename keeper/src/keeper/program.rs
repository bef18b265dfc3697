//! What is said of a program that could not be started: its name, where it was looked for, and what is wrong with it.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use crate::message::Open;

pub(super) fn described(open: &Open, errno: Errno) -> String {
    let program = open.command.first().map(|p| p.to_string_lossy().into_owned()).unwrap_or_default();
    if program.contains('/') {
        return match flaw(&open.directory.join(&program), errno) {
            Some(flaw) => format!("{program} ({flaw})"),
            None => program,
        };
    }
    let Some(path) = open.environment.iter().find_map(|v| v.to_str()?.strip_prefix("PATH=")) else { return program };
    let entries = path.split(':').filter(|entry| !entry.is_empty());
    let found = |place: PathBuf| Some(format!("; {}: {}", place.display(), flaw(&place, errno)?));
    let flawed = entries.map(|entry| open.directory.join(entry).join(&program)).find_map(found);
    format!("{program} (looked for in {path}{})", flawed.unwrap_or_default())
}

/// What the error alone does not tell: "not found" may be the interpreter, and "denied" a directory.
fn flaw(place: &Path, errno: Errno) -> Option<&'static str> {
    let found = std::fs::metadata(place).ok()?;
    match errno {
        Errno::ENOENT => Some("its interpreter is missing"),
        Errno::EACCES if found.is_dir() => Some("it is a directory"),
        Errno::EACCES if found.permissions().mode() & 0o111 == 0 => Some("it is not executable"),
        _ => None,
    }
}
