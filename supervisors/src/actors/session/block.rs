//! A context that takes no task: said when it begins, and lifted when the end of its last task is proven after all.

use serde_json::{Value, json};

use super::super::journal::{Draft, Store};
use super::super::render;
use super::super::system::Env;
use super::{ContextMachine, Session};
use crate::contract::event::kinds;
use crate::contract::{EventKind, Position};
use crate::ledger::{LedgerError, SessionRow, TaskRow};
use crate::machines::context::blocking;

/// How many of a session's last events are looked through for a proof. It comes when a runtime is gone, and a blocked
/// session gets no new one, so little can follow it.
const LAST: u64 = 256;

impl Session {
    pub(super) fn tell_of_block(&self) {
        if let ContextMachine::Blocked { task, reason } = &self.context {
            self.tell_outside(kinds::CONTEXT_BLOCKED, json!({ "task_id": task, "reason": reason }));
        }
    }

    /// The tree is proven empty: the old run can no longer touch the context, and where the harness can go on from its
    /// own store, it takes tasks again (AHP 2.5).
    pub(super) fn lift_block(&mut self) {
        let resumable = self.row.native.as_ref().is_some_and(|native| native.resumable);
        let ContextMachine::Blocked { task, .. } = &self.context else { return };
        if resumable {
            let task = task.clone();
            self.tell_outside(kinds::CONTEXT_UNBLOCKED, json!({ "task_id": task }));
            self.context.recovered(&task);
        }
    }

    pub(super) fn tell_outside(&self, kind: EventKind, data: Value) {
        let draft = Draft { events: vec![render::outside(kind, data)], ..Draft::default() };
        self.env.journal.do_send(Store { session: self.row.id.clone(), draft, then: None });
    }
}

/// Whether the end of a session's last task was proven after its verdict: the runtime's own last event says so.
pub(super) async fn proven_later(env: &Env, row: &SessionRow, last: Option<&TaskRow>) -> Result<bool, LedgerError> {
    let native = row.native.as_ref();
    let blocked = |task: &&TaskRow| task.outcome.as_ref().is_some_and(|outcome| blocking(outcome, native).is_some());
    let (Some(task), true) = (last.filter(blocked), native.is_some_and(|native| native.resumable)) else {
        return Ok(false);
    };
    let from = Position(env.ledger.head(&row.id).await?.0.saturating_sub(LAST).max(1));
    let events = env.ledger.read(&row.id, from, LAST as usize + 1).await?;
    let of_task = |run: &Option<(_, u64)>| run.as_ref().is_some_and(|(run, _)| *run == task.id);
    let after = events.iter().rposition(|event| of_task(&event.run) && event.kind.is_terminal()).map_or(0, |at| at + 1);
    let is_proof = |data: &str| serde_json::from_str::<Value>(data).is_ok_and(|data| data["tree_empty"] == true);
    Ok(events[after..].iter().any(|event| event.kind == kinds::RUNTIME_CLOSED && is_proof(event.data.get())))
}
