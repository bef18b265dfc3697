//! The only writer of the ledger: gives positions, commits in groups, and tells when it is durable.
//!
//! While one group is being committed, the next one gathers. When the store cannot write, nothing is lost and nothing
//! is shown: the group is tried again, runtimes stop reading since nothing is given back to their windows, and new work
//! is refused by whoever looks at [`JournalState`].

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use actix::prelude::*;
use serde_json::value::RawValue;
use tokio::sync::{oneshot, watch};

use super::guard::ExitGuard;
use super::hub::Hub;
use super::root::Child;
use crate::contract::{Event, EventKind, Position, SessionId, TaskId};
use crate::ledger::{AppendError, Change, Commit, Ledger, LedgerError, Urgency};

/// The most events of one group: what it takes to commit them is what another session waits.
const GROUP: usize = 2048;
/// The most of them that are of one session while others wait as well.
const SHARE: usize = 512;
/// The pause before a failed commit is tried again.
const RETRY: Duration = Duration::from_millis(200);
/// A step of compaction follows this many groups.
const COMPACT_EVERY: u64 = 64;

/// Whether the ledger takes what it is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JournalState {
    /// It does.
    Writing,
    /// It does not, for this reason; it is tried again.
    Stalled(String),
}

/// An event without its position.
#[derive(Debug)]
pub(super) struct NewEvent {
    pub(super) run: Option<(TaskId, u64)>,
    pub(super) kind: EventKind,
    pub(super) data: Box<RawValue>,
}

/// What is to be stored together.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) events: Vec<NewEvent>,
    pub(super) changes: Vec<Change>,
    pub(super) urgency: Urgency,
}

impl Default for Draft {
    fn default() -> Self {
        Self { events: Vec::new(), changes: Vec::new(), urgency: Urgency::Normal }
    }
}

impl Draft {
    pub(super) fn append(&mut self, mut later: Self) {
        self.events.append(&mut later.events);
        self.changes.append(&mut later.changes);
        self.urgency = self.urgency.max(later.urgency);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty() && self.changes.is_empty()
    }
}

/// What happened to a draft.
pub(super) type Stored = Result<(), AppendError>;

/// What is done once a draft is durable. It runs in the journal, so it only tells somebody.
pub(super) type Then = Box<dyn FnOnce(Stored) + Send>;

/// Store this.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Store {
    pub(super) session: SessionId,
    pub(super) draft: Draft,
    pub(super) then: Option<Then>,
}

/// Answer when everything before is stored.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Flush(pub(super) oneshot::Sender<()>);

pub(super) struct Journal {
    ledger: Arc<dyn Ledger>,
    hub: Arc<Hub>,
    state: watch::Sender<JournalState>,
    queue: Vec<Entry>,
    /// A settlement waits: the reserve may be used.
    urgent: Arc<AtomicBool>,
    heads: HashMap<SessionId, Position>,
    work: Work,
    groups: u64,
    pub(super) guard: ExitGuard<Child>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Idle,
    Committing,
}

impl Journal {
    pub(super) fn new(
        ledger: Arc<dyn Ledger>,
        hub: Arc<Hub>,
        state: watch::Sender<JournalState>,
        guard: ExitGuard<Child>,
    ) -> Self {
        Self {
            ledger,
            hub,
            state,
            queue: Vec::new(),
            urgent: Arc::default(),
            heads: HashMap::new(),
            work: Work::Idle,
            groups: 0,
            guard,
        }
    }

    fn begin(&mut self, ctx: &mut Context<Self>) {
        if self.work == Work::Committing {
            return;
        }
        if self.queue.is_empty() {
            return;
        }
        self.work = Work::Committing;
        let (mut group, mut flushes) = (Vec::new(), Vec::new());
        for entry in next_group(&mut self.queue) {
            match entry {
                Entry::Store(store) => group.push(store),
                Entry::Flush(waiter) => flushes.push(waiter),
            }
        }
        let urgent = self.urgent.clone();
        let (ledger, heads) = (self.ledger.clone(), std::mem::take(&mut self.heads));
        let (state, compact) = (self.state.clone(), self.groups % COMPACT_EVERY == COMPACT_EVERY - 1);
        let commit = async move {
            let done = commit_group(&*ledger, heads, group, &state, &urgent).await;
            if compact && let Err(error) = ledger.compact().await {
                tracing::warn!(%error, "the ledger could not be compacted; tried again later");
            }
            done
        };
        ctx.spawn(commit.into_actor(self).map(|(heads, done), journal, ctx| {
            journal.heads = heads;
            journal.groups += 1;
            journal.work = Work::Idle;
            done.into_iter().for_each(|done| journal.tell(done));
            // Whoever asked and went does not mind.
            flushes.into_iter().for_each(|waiter| waiter.send(()).unwrap_or_default());
            let urgent = journal.queue.iter().any(Entry::is_urgent);
            journal.urgent.store(urgent, Ordering::Relaxed);
            journal.begin(ctx);
        }));
    }

    fn tell(&mut self, done: Committed) {
        if done.stored.is_ok() {
            self.hub.publish(&done.session, done.events);
        }
        if let Some(then) = done.then {
            then(done.stored);
        }
    }
}

/// What waits for its turn.
enum Entry {
    Store(Store),
    Flush(oneshot::Sender<()>),
}

/// Takes the next group. Each session's drafts stay in their order; one that writes much gets its share while others
/// wait; and a flush follows everything that came before it.
fn next_group(queue: &mut Vec<Entry>) -> Vec<Entry> {
    let of = |entry: &Entry| entry.session().cloned();
    let first = queue.iter().find_map(of);
    let alone = queue.iter().filter_map(of).all(|session| Some(session) == first);
    let share = if alone { GROUP } else { SHARE };
    let (mut group, mut rest, mut total) = (Vec::new(), Vec::new(), 0);
    let mut used: HashMap<SessionId, usize> = HashMap::new();
    for entry in queue.drain(..) {
        let fits = match &entry {
            Entry::Flush(_) => rest.is_empty(),
            Entry::Store(store) => {
                let size = store.draft.events.len() + 1;
                let used = used.entry(store.session.clone()).or_default();
                let fits = (*used == 0 || *used + size <= share) && (total == 0 || total + size <= GROUP);
                // What is held back holds back whatever of its session comes after it.
                *used = if fits { *used + size } else { usize::MAX / 2 };
                total += if fits { size } else { 0 };
                fits
            }
        };
        if fits { group.push(entry) } else { rest.push(entry) }
    }
    *queue = rest;
    group
}

impl Entry {
    fn session(&self) -> Option<&SessionId> {
        match self {
            Self::Store(store) => Some(&store.session),
            Self::Flush(_) => None,
        }
    }

    fn is_urgent(&self) -> bool {
        matches!(self, Self::Store(store) if store.draft.urgency == Urgency::Settlement)
    }
}

struct Committed {
    session: SessionId,
    events: Vec<Event>,
    stored: Stored,
    then: Option<Then>,
}

/// Commits a group, however long the store takes to be able to.
async fn commit_group(
    ledger: &dyn Ledger,
    mut heads: HashMap<SessionId, Position>,
    group: Vec<Store>,
    state: &watch::Sender<JournalState>,
    urgent: &AtomicBool,
) -> (HashMap<SessionId, Position>, Vec<Committed>) {
    let own = group.iter().map(|store| store.draft.urgency).max().unwrap_or(Urgency::Normal);
    // A settlement that waits behind this group needs the reserve as much as one in it.
    let urgency = || if urgent.load(Ordering::Relaxed) { Urgency::Settlement } else { own };
    let (mut commits, mut thens) = (Vec::with_capacity(group.len()), Vec::with_capacity(group.len()));
    for store in group {
        let next = match heads.get(&store.session) {
            Some(head) => head.next(),
            None => until_possible(state, || ledger.head(&store.session)).await.next(),
        };
        let commit = positioned(store.session, next, store.draft);
        if let Some(last) = commit.events.last() {
            heads.insert(commit.session.clone(), last.position);
        }
        commits.push(commit);
        thens.push(store.then);
    }
    let results = until_possible(state, || ledger.commit(&commits, urgency())).await;
    let mut done = Vec::with_capacity(commits.len());
    for ((commit, then), stored) in commits.into_iter().zip(thens).zip(results) {
        if let Err(error) = &stored {
            tracing::error!(%error, session = %commit.session, "another process wrote to a session of ours");
            heads.remove(&commit.session);
        }
        done.push(Committed { session: commit.session, events: commit.events, stored, then });
    }
    (heads, done)
}

fn positioned(session: SessionId, next: Position, draft: Draft) -> Commit {
    let at_ms = crate::clock::wall_ms();
    let place = |(index, event): (usize, NewEvent)| Event {
        position: Position(next.0 + index as u64),
        run: event.run,
        at_ms,
        kind: event.kind,
        data: event.data,
    };
    let events = draft.events.into_iter().enumerate().map(place).collect();
    Commit { session, expected_next: next, events, changes: draft.changes }
}

async fn until_possible<T, F>(state: &watch::Sender<JournalState>, mut attempt: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, LedgerError>>,
{
    loop {
        match attempt().await {
            Ok(value) => {
                state
                    .send_if_modified(|state| std::mem::replace(state, JournalState::Writing) != JournalState::Writing);
                return value;
            }
            Err(error) => {
                tracing::warn!(%error, "the ledger cannot be written; tried again");
                state.send_replace(JournalState::Stalled(error.to_string()));
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

impl Actor for Journal {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        // What is told to it is bounded where it is made: by windows and by one completion for each request.
        ctx.set_mailbox_capacity(4096);
    }
}

impl Handler<Store> for Journal {
    type Result = ();

    fn handle(&mut self, store: Store, ctx: &mut Self::Context) {
        crate::faults::panic_if_asked("journal");
        let entry = Entry::Store(store);
        if entry.is_urgent() {
            self.urgent.store(true, Ordering::Relaxed);
        }
        self.queue.push(entry);
        self.begin(ctx);
    }
}

impl Handler<Flush> for Journal {
    type Result = ();

    /// Answered in turn: when everything before it is stored.
    fn handle(&mut self, flush: Flush, ctx: &mut Self::Context) {
        self.queue.push(Entry::Flush(flush.0));
        self.begin(ctx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(session: &str, events: usize) -> Entry {
        let event = || NewEvent { run: None, kind: EventKind::from_adapter("x"), data: RawValue::NULL.to_owned() };
        let draft = Draft { events: (0..events).map(|_| event()).collect(), ..Draft::default() };
        Entry::Store(Store { session: session.parse().expect("an id"), draft, then: None })
    }

    /// The sessions of a group, and how many events each of its entries has; `-` is a flush.
    fn taken(queue: &mut Vec<Entry>) -> Vec<String> {
        let name = |entry: &Entry| match entry {
            Entry::Store(store) => format!("{}{}", store.session, store.draft.events.len()),
            Entry::Flush(_) => "-".to_owned(),
        };
        next_group(queue).iter().map(name).collect()
    }

    fn flush() -> Entry {
        Entry::Flush(oneshot::channel().0)
    }

    #[test]
    fn a_flood_gets_its_share_while_others_wait_and_keeps_its_order() {
        let mut queue = vec![entry("f", 300), entry("f", 301), entry("f", 2), flush(), entry("a", 1), entry("a", 2)];
        assert_eq!(taken(&mut queue), ["f300", "a1", "a2"]);
        assert_eq!(taken(&mut queue), ["f301", "f2", "-"]);
        assert!(queue.is_empty());
    }

    #[test]
    fn alone_it_gets_whole_groups_and_one_that_is_larger_than_any_is_taken_by_itself() {
        let mut queue = vec![entry("f", 2000), entry("f", 40), entry("f", 20), entry("f", 9000), entry("f", 1)];
        assert_eq!(taken(&mut queue), ["f2000", "f40"]);
        assert_eq!(taken(&mut queue), ["f20"]);
        assert_eq!(taken(&mut queue), ["f9000"]);
        assert_eq!(taken(&mut queue), ["f1"]);
    }
}
