//! A ledger in memory: for tests, and the yardstick of what the others must do.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use ostler_supervisors::contract::{Event, InteractionId, OwnerId, Position, RuntimeId, SessionId, TaskId};
use ostler_supervisors::ledger::{
    AppendError, Change, Commit, Compaction, InteractionRow, Ledger, LedgerError, OutboxItem, RuntimeState, SessionRow,
    TaskRow, TaskState, Urgency,
};

/// Keeps everything in memory; nothing survives it.
#[derive(Debug, Default)]
pub struct MemoryLedger {
    tables: Mutex<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    streams: HashMap<SessionId, Vec<Event>>,
    sessions: BTreeMap<SessionId, SessionRow>,
    tasks: BTreeMap<TaskId, TaskRow>,
    interactions: BTreeMap<(TaskId, InteractionId), InteractionRow>,
    runtimes: BTreeMap<RuntimeId, RuntimeState>,
    outbox: BTreeMap<(RuntimeId, u64), OutboxItem>,
}

impl MemoryLedger {
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tables {
    fn commit(&mut self, commit: &Commit) -> Result<(), AppendError> {
        let made =
            commit.changes.iter().any(|change| matches!(change, Change::Session(row) if row.id == commit.session));
        if !made && !self.sessions.contains_key(&commit.session) {
            return Err(AppendError::UnknownSession(commit.session.clone()));
        }
        let stream = self.streams.entry(commit.session.clone()).or_default();
        let start = commit.expected_next.0.saturating_sub(1) as usize;
        let end = start + commit.events.len();
        if !commit.events.is_empty() && start != stream.len() {
            let stored = stream.get(start..end).is_some_and(|stored| stored == commit.events);
            return if stored { Ok(()) } else { Err(AppendError::conflict(commit, Position(stream.len() as u64))) };
        }
        stream.extend(commit.events.iter().cloned());
        commit.changes.iter().for_each(|change| self.apply(change));
        Ok(())
    }

    fn apply(&mut self, change: &Change) {
        match change {
            Change::Session(row) => {
                let native = self.sessions.get(&row.id).and_then(|known| known.native.clone());
                self.sessions.insert(row.id.clone(), SessionRow { native, ..row.clone() });
            }
            Change::Native { session, native } => {
                if let Some(row) = self.sessions.get_mut(session) {
                    row.native = Some(native.clone());
                }
            }
            Change::Task(row) => drop(self.tasks.insert(row.id.clone(), (**row).clone())),
            Change::Interaction(row) => {
                let key = (row.task.clone(), row.request.id.clone());
                self.interactions.insert(key, row.clone());
            }
            Change::Runtime(row) => {
                let fresh = RuntimeState { row: row.clone(), offset: 0, discarding: false, snapshot: None };
                self.runtimes.entry(row.id.clone()).or_insert(fresh).row = row.clone();
            }
            Change::RuntimeGone(id) => {
                self.runtimes.remove(id);
                self.outbox.retain(|(runtime, _), _| runtime != id);
            }
            Change::Offset { runtime, offset, discarding } => {
                if let Some(state) = self.runtimes.get_mut(runtime) {
                    (state.offset, state.discarding) = (*offset, *discarding);
                }
            }
            Change::Snapshot { runtime, bytes } => {
                if let Some(state) = self.runtimes.get_mut(runtime) {
                    state.snapshot = Some(bytes.clone());
                }
            }
            Change::Outbox { runtime, item } => {
                self.outbox.insert((runtime.clone(), item.number), item.clone());
            }
            Change::OutboxConfirmed { runtime, number } => {
                self.outbox.retain(|(other, item), _| other != runtime || item > number);
            }
            _ => {}
        }
    }
}

#[async_trait]
impl Ledger for MemoryLedger {
    async fn commit(&self, batch: &[Commit], _: Urgency) -> Result<Vec<Result<(), AppendError>>, LedgerError> {
        let mut tables = self.tables();
        Ok(batch.iter().map(|commit| tables.commit(commit)).collect())
    }

    async fn head(&self, session: &SessionId) -> Result<Position, LedgerError> {
        Ok(Position(self.tables().streams.get(session).map_or(0, |stream| stream.len() as u64)))
    }

    async fn read(&self, session: &SessionId, from: Position, limit: usize) -> Result<Vec<Event>, LedgerError> {
        let tables = self.tables();
        let stream = tables.streams.get(session).map_or(&[][..], Vec::as_slice);
        Ok(stream.iter().skip(from.0.saturating_sub(1) as usize).take(limit.max(1)).cloned().collect())
    }

    async fn session(&self, id: &SessionId) -> Result<Option<SessionRow>, LedgerError> {
        Ok(self.tables().sessions.get(id).cloned())
    }

    async fn sessions(&self) -> Result<Vec<SessionRow>, LedgerError> {
        let mut rows: Vec<_> = self.tables().sessions.values().cloned().collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.created_ms));
        Ok(rows)
    }

    async fn task(&self, id: &TaskId) -> Result<Option<TaskRow>, LedgerError> {
        Ok(self.tables().tasks.get(id).cloned())
    }

    async fn tasks(&self, session: Option<&SessionId>) -> Result<Vec<TaskRow>, LedgerError> {
        let tables = self.tables();
        let wanted = tables.tasks.values().filter(|row| session.is_none_or(|session| row.session == *session));
        let mut rows: Vec<_> = wanted.cloned().collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.created_ms));
        Ok(rows)
    }

    async fn unsettled(&self) -> Result<Vec<TaskRow>, LedgerError> {
        let mut rows = self.tasks(None).await?;
        rows.retain(|row| row.state != TaskState::Settled);
        rows.reverse();
        Ok(rows)
    }

    async fn interactions(&self, task: &TaskId) -> Result<Vec<InteractionRow>, LedgerError> {
        Ok(self.tables().interactions.values().filter(|row| row.task == *task).cloned().collect())
    }

    async fn runtimes(&self, owner: Option<&OwnerId>) -> Result<Vec<RuntimeState>, LedgerError> {
        let tables = self.tables();
        let wanted = tables.runtimes.values().filter(|state| owner.is_none_or(|owner| state.row.owner == *owner));
        Ok(wanted.cloned().collect())
    }

    async fn outbox(&self, runtime: &RuntimeId) -> Result<Vec<OutboxItem>, LedgerError> {
        let tables = self.tables();
        let items = tables.outbox.iter().filter(|((other, _), _)| other == runtime);
        Ok(items.map(|(_, item)| item.clone()).collect())
    }

    async fn compact(&self) -> Result<Compaction, LedgerError> {
        Ok(Compaction::default())
    }

    async fn close(&self) {}
}
