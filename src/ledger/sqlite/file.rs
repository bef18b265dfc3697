//! Whose file it is: checked before SQLite may touch it.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::time::Duration;

use ostler_supervisors::file_lock::{FileLock, LockError};
use ostler_supervisors::ledger::LedgerError;
use sqlx::migrate::{MigrateError, Migrator};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};

use super::error;

static MIGRATIONS: Migrator = sqlx::migrate!("src/ledger/migrations");

/// `Ostl` in the header of every ledger file.
const APPLICATION_ID: i64 = 0x4F73_746C;
/// The newest schema this build knows; equal to the newest migration.
const SCHEMA: i64 = 1;

const MAGIC: &[u8; 16] = b"SQLite format 3\0";
const USER_VERSION_AT: usize = 60;
const APPLICATION_ID_AT: usize = 68;

/// Holds other processes off while a file is made or brought up to date; SQLite's own locks cover single statements.
///
/// # Errors
///
/// [`LedgerError::Held`] if another process has it for longer than the timeout.
pub(super) async fn lock(path: &Path, timeout: Duration) -> Result<File, LedgerError> {
    FileLock::new(path.with_extension("lock")).lock(timeout).await.map_err(|error| match error {
        LockError::Held => LedgerError::Held,
        other => LedgerError::Store { doing: "lock it", source: Box::new(other) },
    })
}

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// No file, or an empty one: to be made.
    Nothing,
    /// A ledger.
    Ledger,
}

/// Reads the header, and refuses what is not ours before SQLite may touch it.
pub(super) fn check(path: &Path) -> Result<Found, LedgerError> {
    let Some(header) = header(path)? else { return Ok(Found::Nothing) };
    let shown = || path.display().to_string();
    let header: &[u8; 100] = match header.first_chunk() {
        Some(header) if header.starts_with(MAGIC) => header,
        _ => return Err(LedgerError::Foreign { path: shown(), why: "it is no SQLite file" }),
    };
    let word = |at: usize| i64::from(u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]));
    if word(APPLICATION_ID_AT) != APPLICATION_ID {
        return Err(LedgerError::Foreign { path: shown(), why: "another program made it" });
    }
    match word(USER_VERSION_AT) {
        found if found > SCHEMA => Err(LedgerError::Newer { path: shown(), found, known: SCHEMA }),
        _ => Ok(Found::Ledger),
    }
}

/// Makes a file that is marked as ours, in the file itself rather than in a log beside it. It gets its name when it is
/// whole: whoever is killed on the way leaves no half of it.
pub(super) async fn create(path: &Path, busy_timeout: Duration) -> Result<(), LedgerError> {
    let unfinished = path.with_extension("new");
    for suffix in ["", "-journal", "-wal", "-shm"] {
        let mut name = unfinished.clone().into_os_string();
        name.push(suffix);
        match std::fs::remove_file(&name) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(made(error)),
            _ => {}
        }
    }
    let options = SqliteConnectOptions::new()
        .filename(&unfinished)
        .create_if_missing(true)
        .busy_timeout(busy_timeout)
        .pragma("auto_vacuum", "INCREMENTAL")
        .pragma("application_id", APPLICATION_ID.to_string());
    let connection = options.connect().await.map_err(error::mapper(path, "create it"))?;
    connection.close().await.map_err(error::mapper(path, "create it"))?;
    std::fs::rename(&unfinished, path).map_err(made)
}

fn made(source: std::io::Error) -> LedgerError {
    LedgerError::Store { doing: "create it", source: Box::new(source) }
}

fn header(path: &Path) -> Result<Option<Vec<u8>>, LedgerError> {
    let store = |source: std::io::Error| LedgerError::Store { doing: "read its header", source: Box::new(source) };
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(store(error)),
    };
    let mut header = Vec::new();
    Read::by_ref(&mut file).take(100).read_to_end(&mut header).map_err(store)?;
    // Another process may have created it a moment ago and not written yet.
    Ok((!header.is_empty()).then_some(header))
}

/// Brings the schema up to date; checksums of what was applied before must match.
pub(super) async fn migrate(connection: &mut SqliteConnection, path: &Path) -> Result<(), LedgerError> {
    let found = version(connection).await.map_err(error::mapper(path, "read its version"))?;
    if found >= SCHEMA {
        let newer = LedgerError::Newer { path: path.display().to_string(), found, known: SCHEMA };
        return if found == SCHEMA { Ok(()) } else { Err(newer) };
    }
    MIGRATIONS.run(&mut *connection).await.map_err(|failure| match failure {
        MigrateError::Execute(failure) | MigrateError::ExecuteMigration(failure, _) => {
            error::mapper(path, "migrate")(failure)
        }
        MigrateError::VersionMismatch(number) => {
            LedgerError::Corrupt { path: path.display().to_string(), what: format!("migration {number} was changed") }
        }
        MigrateError::VersionMissing(found) => {
            LedgerError::Newer { path: path.display().to_string(), found, known: SCHEMA }
        }
        other => LedgerError::Store { doing: "migrate", source: Box::new(other) },
    })?;
    let mark = format!("PRAGMA user_version = {SCHEMA}");
    sqlx::query(AssertSqlSafe(mark)).execute(&mut *connection).await.map_err(error::mapper(path, "mark it")).map(drop)
}

async fn version(connection: &mut SqliteConnection) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("PRAGMA user_version").fetch_one(connection).await
}
