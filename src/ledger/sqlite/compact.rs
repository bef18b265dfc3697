//! Compaction: many small blobs of one session become one, in bounded steps beside the hot path.

use ostler_supervisors::contract::Position;
use ostler_supervisors::ledger::{Compaction, pack, unpack};
use sqlx::Row;

use super::write::{WriteFailure, Writer};

/// A session with more unmerged blobs than this is worth a step.
const LONG_TAIL: i64 = 64;
/// The most blobs one step merges.
const MOST_BLOBS: usize = 512;
/// The most bytes of a merged blob, about.
const MOST_BYTES: i64 = 256 * 1024;

struct Link {
    id: i64,
    first: i64,
    previous: i64,
    bytes: i64,
}

impl Writer {
    /// Merges the oldest unmerged blobs of one session.
    pub(super) async fn compact(&mut self) -> Result<Compaction, WriteFailure> {
        let done = match self.begin().await {
            Ok(()) => self.compact_longest().await,
            Err(error) => Err(error.into()),
        };
        self.finish(done).await
    }

    async fn compact_longest(&mut self) -> Result<Compaction, WriteFailure> {
        let longest = "SELECT session, blob FROM heads WHERE tail > ? ORDER BY tail DESC LIMIT 1";
        let longest = sqlx::query(longest).bind(LONG_TAIL).fetch_optional(&mut self.connection).await?;
        let Some(head) = longest else { return Ok(Compaction::default()) };
        let (session, newest): (i64, i64) = (head.get(0), head.get(1));
        let chain = self.unmerged(newest).await?;
        let group = group(&chain);
        if group.is_empty() {
            return Ok(Compaction::default());
        }
        self.merge(group).await?;
        let merged = group.len() as i64;
        let update =
            sqlx::query("UPDATE heads SET tail = ? WHERE session = ?").bind((chain.len() as i64 - merged).max(0));
        update.bind(session).execute(&mut self.connection).await?;
        self.forget_heads();
        Ok(Compaction { removed: merged as u64 - 1, more: true })
    }

    /// The unmerged blobs of a chain, oldest first.
    async fn unmerged(&mut self, newest: i64) -> Result<Vec<Link>, WriteFailure> {
        let mut chain = Vec::new();
        let mut id = newest;
        while id != 0 {
            let blob = sqlx::query("SELECT first, previous, length(events), merged FROM blobs WHERE id = ?").bind(id);
            let Some(blob) = blob.fetch_optional(&mut self.connection).await? else { break };
            if blob.get::<bool, _>(3) {
                break;
            }
            chain.push(Link { id, first: blob.get(0), previous: blob.get(1), bytes: blob.get(2) });
            id = blob.get(1);
        }
        chain.reverse();
        Ok(chain)
    }

    /// The group's newest row takes everything: its id stays, so the blob that points back to it still does.
    async fn merge(&mut self, group: &[Link]) -> Result<(), WriteFailure> {
        let mut events = Vec::new();
        for link in group {
            let blob: Vec<u8> = sqlx::query_scalar("SELECT events FROM blobs WHERE id = ?")
                .bind(link.id)
                .fetch_one(&mut self.connection)
                .await?;
            let unpacked = unpack(&blob, Position(link.first as u64));
            events.extend(unpacked.map_err(|failure| WriteFailure::Blob(link.id, failure))?);
        }
        for link in &group[..group.len() - 1] {
            sqlx::query("DELETE FROM blobs WHERE id = ?").bind(link.id).execute(&mut self.connection).await?;
        }
        let (oldest, newest) = (&group[0], &group[group.len() - 1]);
        let update = sqlx::query("UPDATE blobs SET first = ?, previous = ?, merged = 1, events = ? WHERE id = ?");
        let update = update.bind(oldest.first).bind(oldest.previous).bind(pack(&events)).bind(newest.id);
        update.execute(&mut self.connection).await?;
        Ok(())
    }
}

/// The oldest blobs that fit into one, leaving the newest alone: it is the one being read.
fn group(chain: &[Link]) -> &[Link] {
    let mut bytes = 0;
    let fits = |link: &&Link| {
        bytes += link.bytes;
        bytes <= MOST_BYTES || bytes == link.bytes
    };
    let candidates = &chain[..chain.len().saturating_sub(1).min(MOST_BLOBS)];
    &candidates[..candidates.iter().take_while(fits).count()]
}
