//! Reads: short, on connections of their own, and never across a wait.

use std::path::Path;

use ostler_supervisors::contract::{Event, OwnerId, Position, RuntimeId, SessionId};
use ostler_supervisors::ledger::{LedgerError, OutboxItem, OutboxThen, RuntimeState, SessionRow, unpack};
use serde::de::DeserializeOwned;
use sqlx::query::{Query, QueryScalar};
use sqlx::sqlite::{SqliteArguments, SqliteConnection, SqlitePool};
use sqlx::{Connection, Row, Sqlite};

use super::error;
use super::write::WriteFailure;

type Bodies<'q> = QueryScalar<'q, Sqlite, String, SqliteArguments>;

/// One row's body.
pub(super) async fn one<T: DeserializeOwned>(
    pool: &SqlitePool,
    path: &Path,
    query: Bodies<'_>,
) -> Result<Option<T>, LedgerError> {
    let body = query.fetch_optional(pool).await.map_err(error::mapper(path, "read a row"))?;
    body.map(|body| parse(path, &body)).transpose()
}

/// Every row's body.
pub(super) async fn all<T: DeserializeOwned>(
    pool: &SqlitePool,
    path: &Path,
    query: Bodies<'_>,
) -> Result<Vec<T>, LedgerError> {
    let bodies = query.fetch_all(pool).await.map_err(error::mapper(path, "read rows"))?;
    bodies.iter().map(|body| parse(path, body)).collect()
}

/// Sessions with what their harnesses stored of them.
pub(super) async fn sessions(
    pool: &SqlitePool,
    path: &Path,
    query: Query<'_, Sqlite, SqliteArguments>,
) -> Result<Vec<SessionRow>, LedgerError> {
    let rows = query.fetch_all(pool).await.map_err(error::mapper(path, "read sessions"))?;
    let session = |row: sqlx::sqlite::SqliteRow| {
        let native = row.get::<Option<&str>, _>(1).map(|native| parse(path, native)).transpose()?;
        Ok(SessionRow { native, ..parse(path, row.get(0))? })
    };
    rows.into_iter().map(session).collect()
}

fn parse<T: DeserializeOwned>(path: &Path, body: &str) -> Result<T, LedgerError> {
    serde_json::from_str(body).map_err(|failure| error::bad_row(path, &failure))
}

pub(super) async fn head(pool: &SqlitePool, session: &SessionId) -> Result<Position, sqlx::Error> {
    let query = "SELECT h.last FROM heads h JOIN sessions s ON s.number = h.session WHERE s.id = ?";
    let last: Option<i64> = sqlx::query_scalar(query).bind(session.as_str()).fetch_optional(pool).await?;
    Ok(Position(last.unwrap_or(0) as u64))
}

pub(super) async fn outbox(pool: &SqlitePool, runtime: &RuntimeId) -> Result<Vec<OutboxItem>, sqlx::Error> {
    let query = sqlx::query("SELECT number, ends, bytes FROM outbox WHERE runtime = ? ORDER BY number");
    let rows = query.bind(runtime.as_str()).fetch_all(pool).await?;
    let item = |row: sqlx::sqlite::SqliteRow| OutboxItem {
        number: row.get::<i64, _>(0) as u64,
        then: if row.get::<bool, _>(1) { OutboxThen::EndOfInput } else { OutboxThen::Continue },
        bytes: row.get(2),
    };
    Ok(rows.into_iter().map(item).collect())
}

pub(super) async fn runtimes(
    pool: &SqlitePool,
    path: &Path,
    owner: Option<&OwnerId>,
) -> Result<Vec<RuntimeState>, LedgerError> {
    let query = match owner {
        Some(owner) => {
            sqlx::query("SELECT body, consumed, discarding, snapshot FROM runtimes WHERE owner = ? ORDER BY id")
                .bind(owner.as_str())
        }
        None => sqlx::query("SELECT body, consumed, discarding, snapshot FROM runtimes ORDER BY id"),
    };
    let rows = query.fetch_all(pool).await.map_err(error::mapper(path, "read runtimes"))?;
    let state = |row: sqlx::sqlite::SqliteRow| {
        Ok(RuntimeState {
            row: parse(path, row.get::<&str, _>(0))?,
            offset: row.get::<i64, _>(1) as u64,
            discarding: row.get(2),
            snapshot: row.get(3),
        })
    };
    rows.into_iter().map(state).collect()
}

/// Events from a position on, at least one if there is one.
pub(super) async fn events(
    pool: &SqlitePool,
    path: &Path,
    session: &SessionId,
    from: Position,
    limit: usize,
) -> Result<Vec<Event>, LedgerError> {
    let mut connection = pool.acquire().await.map_err(error::mapper(path, "open a reader"))?;
    // One short snapshot, so that compaction cannot take a blob away between two steps of the walk.
    let mut snapshot = connection.begin().await.map_err(error::mapper(path, "read events"))?;
    let events = events_on(&mut snapshot, session, from, limit).await;
    snapshot.rollback().await.map_err(error::mapper(path, "read events"))?;
    events.map_err(|failure| failure.into_ledger_error(path))
}

/// The same on a connection that sees one state throughout.
pub(super) async fn events_on(
    connection: &mut SqliteConnection,
    session: &SessionId,
    from: Position,
    limit: usize,
) -> Result<Vec<Event>, WriteFailure> {
    let from = from.0.max(1) as i64;
    let head = "SELECT h.session, h.last, h.blob FROM heads h JOIN sessions s ON s.number = h.session WHERE s.id = ?";
    let head = sqlx::query(head).bind(session.as_str()).fetch_optional(&mut *connection).await?;
    let Some(head) = head.filter(|head| head.get::<i64, _>(1) >= from) else { return Ok(Vec::new()) };
    let (number, newest): (i64, i64) = (head.get(0), head.get(2));
    let mut events = merged(connection, number, from, limit).await?;
    let next = from + events.len() as i64;
    if events.len() < limit.max(1) && next <= head.get(1) {
        events.extend(tail(connection, newest, next, limit - events.len().min(limit)).await?);
    }
    Ok(events)
}

/// From the merged blobs, by their index: forward, without a walk.
async fn merged(
    connection: &mut SqliteConnection,
    session: i64,
    from: i64,
    limit: usize,
) -> Result<Vec<Event>, WriteFailure> {
    let start =
        "SELECT first, last FROM blobs WHERE session = ? AND merged = 1 AND first <= ? ORDER BY first DESC LIMIT 1";
    let start = sqlx::query(start).bind(session).bind(from).fetch_optional(&mut *connection).await?;
    let Some(start) = start.filter(|start| start.get::<i64, _>(1) >= from) else { return Ok(Vec::new()) };
    let mut first: i64 = start.get(0);
    let mut events = Vec::new();
    while events.len() < limit.max(1) {
        let blob = "SELECT id, last, events FROM blobs WHERE session = ? AND merged = 1 AND first = ?";
        let blob = sqlx::query(blob).bind(session).bind(first).fetch_optional(&mut *connection).await?;
        let Some(blob) = blob else { break };
        take(&mut events, blob.get(0), blob.get(2), first, from)?;
        first = blob.get::<i64, _>(1) + 1;
    }
    Ok(events)
}

/// From the unmerged blobs: back from the head to where the reader is, then forward.
async fn tail(
    connection: &mut SqliteConnection,
    newest: i64,
    from: i64,
    limit: usize,
) -> Result<Vec<Event>, WriteFailure> {
    let mut chain = Vec::new();
    let mut id = newest;
    while id != 0 {
        let blob = sqlx::query("SELECT first, previous FROM blobs WHERE id = ?").bind(id);
        let Some(blob) = blob.fetch_optional(&mut *connection).await? else { break };
        let first: i64 = blob.get(0);
        chain.push((id, first));
        id = if first <= from { 0 } else { blob.get(1) };
    }
    let mut events = Vec::new();
    for (id, first) in chain.into_iter().rev() {
        let blob: Vec<u8> =
            sqlx::query_scalar("SELECT events FROM blobs WHERE id = ?").bind(id).fetch_one(&mut *connection).await?;
        take(&mut events, id, &blob, first, from)?;
        if events.len() >= limit.max(1) {
            break;
        }
    }
    Ok(events)
}

fn take(events: &mut Vec<Event>, id: i64, blob: &[u8], first: i64, from: i64) -> Result<(), WriteFailure> {
    let unpacked = unpack(blob, Position(first as u64)).map_err(|failure| WriteFailure::Blob(id, failure))?;
    events.extend(unpacked.into_iter().skip((from - first).max(0) as usize));
    Ok(())
}
