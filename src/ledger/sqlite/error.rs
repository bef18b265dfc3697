//! SQLite's result codes in the ledger's words.

use std::path::Path;

use ostler_supervisors::ledger::{LedgerError, PackError};

use super::limit::PAGE;

/// Turns an error met while doing something into the ledger's own.
pub(super) fn mapper<'a>(path: &'a Path, doing: &'static str) -> impl Fn(sqlx::Error) -> LedgerError + use<'a> {
    move |error| map(path, doing, error)
}

fn map(path: &Path, doing: &'static str, error: sqlx::Error) -> LedgerError {
    let shown = path.display().to_string();
    match primary_code(&error) {
        Some(13) => LedgerError::Full,
        Some(5 | 6) => LedgerError::Busy,
        Some(11) => LedgerError::Corrupt { path: shown, what: error.to_string() },
        Some(26) => LedgerError::Foreign { path: shown, why: "it is no SQLite file" },
        // A disk without room shows itself as a failed write as well.
        Some(10) if room(path).is_some_and(|room| room < 16 * PAGE) => LedgerError::Full,
        _ => LedgerError::Store { doing, source: Box::new(error) },
    }
}

fn primary_code(error: &sqlx::Error) -> Option<u32> {
    let code = error.as_database_error()?.code()?.parse::<u32>().ok()?;
    Some(code & 0xff)
}

/// Bytes that a file's disk has left for it; `None` if it does not tell.
pub(super) fn room(path: &Path) -> Option<u64> {
    let folder = path.parent().unwrap_or(path);
    nix::sys::statvfs::statvfs(folder).ok().map(|disk| disk.blocks_available() * disk.fragment_size())
}

/// A damaged blob, named by its place.
pub(super) fn damaged(path: &Path, blob: i64, error: PackError) -> LedgerError {
    LedgerError::Corrupt { path: path.display().to_string(), what: format!("blob {blob}: {error}") }
}

/// A row whose body is not what this version writes.
pub(super) fn bad_row(path: &Path, error: &serde_json::Error) -> LedgerError {
    LedgerError::Corrupt { path: path.display().to_string(), what: format!("a row: {error}") }
}
