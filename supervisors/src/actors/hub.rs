//! Readers: any position, no gap, no duplicate; live from memory, behind from the ledger.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::contract::{Event, Position, SessionId};
use crate::ledger::{Ledger, LedgerError};

/// How many of a session's newest events are kept for readers that keep up.
const RECENT: usize = 256;
/// How many events a reader gets at once.
const STEP: usize = 8192;

/// What was committed lately, for those who follow.
#[derive(Debug, Default)]
pub struct Hub {
    sessions: Mutex<HashMap<SessionId, Stream>>,
}

#[derive(Debug)]
struct Stream {
    recent: VecDeque<Arc<Event>>,
    head: watch::Sender<Position>,
}

impl Default for Stream {
    fn default() -> Self {
        Self { recent: VecDeque::new(), head: watch::channel(Position::START).0 }
    }
}

impl Hub {
    fn streams(&self) -> MutexGuard<'_, HashMap<SessionId, Stream>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows durable events to readers. Only the journal calls it, in order.
    pub(super) fn publish(&self, session: &SessionId, events: Vec<Event>) {
        let Some(head) = events.last().map(|event| event.position) else { return };
        let mut streams = self.streams();
        // Nobody has read this session: nothing to keep for anybody.
        let Some(stream) = streams.get_mut(session) else { return };
        stream.recent.extend(events.into_iter().map(Arc::new));
        let excess = stream.recent.len().saturating_sub(RECENT);
        stream.recent.drain(..excess);
        stream.head.send_replace(head);
        if stream.head.receiver_count() == 0 {
            streams.remove(session);
        }
    }

    /// A reader of a session from this position on.
    ///
    /// It subscribes first, so that nothing falls between history and what is live.
    pub fn read(self: &Arc<Self>, ledger: Arc<dyn Ledger>, session: SessionId, from: Position) -> Reader {
        let head = self.streams().entry(session.clone()).or_default().head.subscribe();
        Reader { hub: self.clone(), ledger, session, next: Position(from.0.max(1)), head }
    }

    fn recent(&self, session: &SessionId, from: Position) -> Option<Vec<Arc<Event>>> {
        let streams = self.streams();
        let recent = &streams.get(session)?.recent;
        let first = recent.front()?.position;
        let skip = from.0.checked_sub(first.0)? as usize;
        Some(recent.iter().skip(skip).take(STEP).cloned().collect())
    }
}

/// The last one to read a session keeps nothing of it for anybody.
impl Drop for Reader {
    fn drop(&mut self) {
        let mut streams = self.hub.streams();
        if streams.get(&self.session).is_some_and(|stream| stream.head.receiver_count() <= 1) {
            streams.remove(&self.session);
        }
    }
}

/// One reader of one session.
pub struct Reader {
    hub: Arc<Hub>,
    ledger: Arc<dyn Ledger>,
    session: SessionId,
    next: Position,
    head: watch::Receiver<Position>,
}

impl Reader {
    /// The next events that are there now; empty at the end.
    ///
    /// # Errors
    ///
    /// [`LedgerError`]; the reader stays where it is.
    pub async fn next(&mut self) -> Result<Vec<Arc<Event>>, LedgerError> {
        self.head.borrow_and_update();
        let events = match self.hub.recent(&self.session, self.next) {
            Some(events) if !events.is_empty() => events,
            _ => {
                let events = self.ledger.read(&self.session, self.next, STEP).await?;
                events.into_iter().map(Arc::new).collect()
            }
        };
        if let Some(last) = events.last() {
            self.next = last.position.next();
        }
        Ok(events)
    }

    /// Waits until there is more than was read.
    ///
    /// # Cancel safety
    ///
    /// A dropped future loses nothing.
    pub async fn changed(&mut self) {
        // The sender lives as long as the hub, which this reader holds.
        let _hub_lives = self.head.changed().await;
    }
}
