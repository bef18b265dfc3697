//! The only writer of the ledger: gives positions, commits in groups, and tells when it is durable.
//!
//! While one group is being committed, the next one gathers. When the store cannot write, nothing is lost and nothing
//! is shown: the group is tried again, runtimes stop reading since nothing is given back to their windows, and new work
//! is refused by whoever looks at [`JournalState`].

use std::collections::{HashMap, HashSet};
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

/// The most of one group, in bytes: what it takes to commit them is what another session waits.
const GROUP: usize = 512 * 1024;
/// The most of them that are of one session. Whoever comes while a flood is committed waits for this much of it.
const SHARE: usize = 128 * 1024;
/// What an event or a change takes beside its payload.
const ENVELOPE: usize = 64;
/// So many heads are known without asking the ledger; what was written to long ago is asked for again.
const HEADS: usize = 1024;
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
        // Of offsets that follow each other the last one says everything.
        if let (Some(Change::Offset { runtime, .. }), Some(Change::Offset { runtime: same, .. })) =
            (self.changes.last(), later.changes.first())
            && runtime == same
        {
            self.changes.pop();
        }
        self.changes.append(&mut later.changes);
        self.urgency = self.urgency.max(later.urgency);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty() && self.changes.is_empty()
    }

    /// What it takes to commit it, in bytes, roughly.
    fn weight(&self) -> usize {
        let events = self.events.iter().map(|event| ENVELOPE + event.data.get().len()).sum::<usize>();
        events + ENVELOPE * self.changes.len()
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

/// Answer when what came before is stored.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Flush {
    pub(super) of: FlushOf,
    pub(super) done: oneshot::Sender<()>,
}

/// What is waited for.
pub(super) enum FlushOf {
    Everything,
    /// What is of one session: it does not wait for others.
    Session(SessionId),
}

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
                Entry::Store(store, _) => group.push(store),
                Entry::Flush(flush) => flushes.push(flush.done),
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
            // Which of them are still written to is not known here; those are few, and soon known again.
            journal.heads = if heads.len() > HEADS { HashMap::new() } else { heads };
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
        done.thens.into_iter().for_each(|then| then(done.stored.clone()));
    }
}

/// What waits for its turn.
enum Entry {
    /// A draft, and its weight.
    Store(Store, usize),
    Flush(Flush),
}

/// Takes the next group. Each session's drafts stay in their order; one that writes much gets its share, and what is
/// larger than any share is taken by itself; a flush follows what came before it.
fn next_group(queue: &mut Vec<Entry>) -> Vec<Entry> {
    let (mut group, mut rest, mut filling) = (Vec::new(), Vec::new(), Filling::default());
    for entry in queue.drain(..) {
        let fits = match &entry {
            Entry::Flush(Flush { of: FlushOf::Everything, .. }) => rest.is_empty(),
            Entry::Flush(Flush { of: FlushOf::Session(session), .. }) => !filling.held.contains(session),
            Entry::Store(store, weight) => filling.takes(&store.session, *weight),
        };
        if fits { group.push(entry) } else { rest.push(entry) }
    }
    *queue = rest;
    group
}

/// What a group has so far.
#[derive(Default)]
struct Filling {
    total: usize,
    used: HashMap<SessionId, usize>,
    /// What is held back holds back whatever of its session comes after it.
    held: HashSet<SessionId>,
}

impl Filling {
    fn takes(&mut self, session: &SessionId, weight: usize) -> bool {
        let used = self.used.entry(session.clone()).or_default();
        let has_room = (*used == 0 || *used + weight <= SHARE) && (self.total == 0 || self.total + weight <= GROUP);
        if !has_room || self.held.contains(session) {
            self.held.insert(session.clone());
            return false;
        }
        *used += weight;
        self.total += weight;
        true
    }
}

impl Entry {
    fn is_urgent(&self) -> bool {
        matches!(self, Self::Store(store, _) if store.draft.urgency == Urgency::Settlement)
    }
}

struct Committed {
    session: SessionId,
    events: Vec<Event>,
    stored: Stored,
    thens: Vec<Then>,
}

/// What is stored of one session in one group.
struct Part {
    session: SessionId,
    draft: Draft,
    thens: Vec<Then>,
}

/// Joins what a group has of each session: few long commits cost less than many short ones.
fn joined(group: Vec<Store>) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let mut places: HashMap<SessionId, usize> = HashMap::new();
    for Store { session, draft, then } in group {
        let place = *places.entry(session.clone()).or_insert(parts.len());
        if place == parts.len() {
            parts.push(Part { session, draft: Draft::default(), thens: Vec::new() });
        }
        parts[place].draft.append(draft);
        parts[place].thens.extend(then);
    }
    parts
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
    let (mut commits, mut thens) = (Vec::new(), Vec::new());
    for part in joined(group) {
        let next = match heads.get(&part.session) {
            Some(head) => head.next(),
            None => until_possible(state, || ledger.head(&part.session)).await.next(),
        };
        let commit = positioned(part.session, next, part.draft);
        if let Some(last) = commit.events.last() {
            heads.insert(commit.session.clone(), last.position);
        }
        commits.push(commit);
        thens.push(part.thens);
    }
    let results = until_possible(state, || ledger.commit(&commits, urgency())).await;
    let mut done = Vec::with_capacity(commits.len());
    for ((commit, thens), stored) in commits.into_iter().zip(thens).zip(results) {
        if let Err(error) = &stored {
            tracing::error!(%error, session = %commit.session, "another process wrote to a session of ours");
            heads.remove(&commit.session);
        }
        done.push(Committed { session: commit.session, events: commit.events, stored, thens });
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
        let weight = store.draft.weight();
        let entry = Entry::Store(store, weight);
        if entry.is_urgent() {
            self.urgent.store(true, Ordering::Relaxed);
        }
        self.queue.push(entry);
        self.begin(ctx);
    }
}

impl Handler<Flush> for Journal {
    type Result = ();

    /// Answered in turn.
    fn handle(&mut self, flush: Flush, ctx: &mut Self::Context) {
        self.queue.push(Entry::Flush(flush));
        self.begin(ctx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(session: &str, kib: usize) -> Entry {
        let store = Store { session: session.parse().expect("an id"), draft: Draft::default(), then: None };
        Entry::Store(store, kib * 1024)
    }

    /// The sessions of a group, and the weight of each of its entries in KiB; a flush ends in `-`.
    fn taken(queue: &mut Vec<Entry>) -> Vec<String> {
        let name = |entry: &Entry| match entry {
            Entry::Store(store, weight) => format!("{}{}", store.session, weight / 1024),
            Entry::Flush(Flush { of: FlushOf::Everything, .. }) => "-".to_owned(),
            Entry::Flush(Flush { of: FlushOf::Session(session), .. }) => format!("{session}-"),
        };
        next_group(queue).iter().map(name).collect()
    }

    fn flush(of: FlushOf) -> Entry {
        Entry::Flush(Flush { of, done: oneshot::channel().0 })
    }

    #[test]
    fn a_flood_gets_its_share_and_keeps_its_order() {
        let all = flush(FlushOf::Everything);
        let mut queue = vec![entry("f", 100), entry("f", 101), entry("f", 2), all, entry("a", 1), entry("a", 2)];
        assert_eq!(taken(&mut queue), ["f100", "a1", "a2"]);
        assert_eq!(taken(&mut queue), ["f101", "f2", "-"]);
        assert!(queue.is_empty());
    }

    #[test]
    fn who_waits_for_one_session_does_not_wait_for_a_flood() {
        let of = |session: &str| flush(FlushOf::Session(session.parse().expect("an id")));
        let mut queue = vec![entry("f", 100), entry("f", 101), entry("a", 1), of("f"), of("a"), of("b")];
        assert_eq!(taken(&mut queue), ["f100", "a1", "a-", "b-"]);
        assert_eq!(taken(&mut queue), ["f101", "f-"]);
    }

    #[test]
    fn what_is_larger_than_any_share_is_taken_by_itself() {
        let mut queue = vec![entry("f", 9000), entry("f", 1), entry("a", 1), entry("f", 1)];
        assert_eq!(taken(&mut queue), ["f9000"]);
        assert_eq!(taken(&mut queue), ["f1", "a1", "f1"]);
    }

    #[test]
    fn a_group_is_bounded_however_many_sessions_write() {
        let mut queue: Vec<_> = (0..10).map(|session| entry(&format!("s{session}"), 100)).collect();
        assert_eq!(taken(&mut queue), ["s0100", "s1100", "s2100", "s3100", "s4100"]);
        assert_eq!(queue.len(), 5);
    }

    #[test]
    fn a_draft_weighs_what_its_payloads_do_and_something_for_each_event() {
        let event = || NewEvent { run: None, kind: EventKind::from_adapter("x"), data: RawValue::NULL.to_owned() };
        let draft = Draft { events: (0..10).map(|_| event()).collect(), ..Draft::default() };
        assert_eq!(draft.weight(), 10 * (ENVELOPE + 4));
    }
}
