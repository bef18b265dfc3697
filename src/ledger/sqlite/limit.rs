//! The configured size. New work ends at it; what settles running work may go beyond, by as much as the reserve has.

use sqlx::AssertSqlSafe;
use sqlx::sqlite::SqliteConnection;

/// The size of a page; SQLite's default, which no ledger changes.
pub(super) const PAGE: u64 = 4096;

/// How much of the file a commit may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    /// Up to the limit.
    Usual,
    /// And what is kept for settlements.
    WithReserve,
}

/// A limit in force on the connection that writes.
#[derive(Debug)]
pub(super) struct SizeLimit {
    configured: u32,
    /// Where new work ends: more than was configured if the file had more already.
    usual: u32,
    /// Where everything ends. It is fixed here, so that settlements cannot move it on and on.
    last: u32,
    room: Room,
}

impl SizeLimit {
    /// Puts a limit of so many pages into force; SQLite keeps it per connection.
    pub(super) async fn set(on: &mut SqliteConnection, pages: u32, reserve: u64) -> Result<Self, sqlx::Error> {
        let usual = set(on, pages).await?;
        let reserve = u32::try_from(reserve / PAGE).unwrap_or(u32::MAX);
        Ok(Self { configured: pages, usual, last: usual.saturating_add(reserve), room: Room::Usual })
    }

    /// Gives this room to what is written next.
    pub(super) async fn give(&mut self, on: &mut SqliteConnection, room: Room) -> Result<(), sqlx::Error> {
        if self.room == room {
            return Ok(());
        }
        set(on, self.end(room)).await?;
        self.room = room;
        Ok(())
    }

    /// Bytes that may still be written.
    pub(super) async fn left(&self, on: &mut SqliteConnection) -> Result<u64, sqlx::Error> {
        let used = number(on, "PRAGMA page_count").await? - number(on, "PRAGMA freelist_count").await?;
        Ok(u64::try_from(i64::from(self.end(self.room)) - used).unwrap_or(0) * PAGE)
    }

    /// As it was configured, in MiB.
    pub(super) fn mib(&self) -> u64 {
        (u64::from(self.configured) * PAGE) >> 20
    }

    fn end(&self, room: Room) -> u32 {
        match room {
            Room::Usual => self.usual,
            Room::WithReserve => self.last,
        }
    }
}

/// Returns what is in force now: never less than the file has.
async fn set(on: &mut SqliteConnection, pages: u32) -> Result<u32, sqlx::Error> {
    let pages = number(on, &format!("PRAGMA max_page_count = {pages}")).await?;
    Ok(u32::try_from(pages).unwrap_or(u32::MAX))
}

async fn number(on: &mut SqliteConnection, pragma: &str) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar(AssertSqlSafe(pragma.to_owned())).fetch_one(on).await
}
