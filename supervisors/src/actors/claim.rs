//! Whose a session is: made ours if its owner is gone, by one process at a time.

use std::fs::File;

use tokio::sync::oneshot;

use super::journal::{Draft, Store};
use super::session::SessionError;
use super::system::{Env, OwnerKind};
use crate::contract::SessionId;
use crate::ledger::{Change, SessionRow, Urgency};

/// What somebody wants of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To go on with it.
    Use,
    /// To end what runs in it.
    End,
}

/// A session that this process may work on.
enum Claim {
    Ours(SessionRow),
    /// Its owner is gone.
    Free(SessionRow),
}

impl Env {
    /// Makes a session ours, if its owner's lock is free. One process at a time takes over, and looks again first; who
    /// needs nothing taken over does not wait for it.
    ///
    /// What a daemon left waits for the next daemon: another process takes it only to end it.
    pub(super) async fn claim(&self, id: &SessionId, purpose: Purpose) -> Result<SessionRow, SessionError> {
        if let Claim::Ours(row) = self.look(id, purpose).await? {
            return Ok(row);
        }
        let alone = self.owners.takeover().await?;
        match self.look(id, purpose).await? {
            Claim::Ours(row) => Ok(row),
            Claim::Free(row) => self.take(row, purpose, alone).await,
        }
    }

    async fn look(&self, id: &SessionId, purpose: Purpose) -> Result<Claim, SessionError> {
        let row = self.ledger.session(id).await?.ok_or_else(|| SessionError::UnknownSession(id.clone()))?;
        if row.owner == self.owner {
            return Ok(Claim::Ours(row));
        }
        let free = self.owners.free().await;
        if self.owners.is_held(&row.owner, &free) {
            return Err(SessionError::Foreign { session: row.id, owner: row.owner.to_string() });
        }
        let of_a_daemon = self.kind == OwnerKind::Run && free.get(&row.owner) == Some(&OwnerKind::Serve);
        if of_a_daemon && purpose == Purpose::Use && self.is_unfinished(id).await? {
            return Err(SessionError::Awaited(row.id));
        }
        Ok(Claim::Free(row))
    }

    /// Nobody else may look before it is stored, even if whoever asked for it has gone.
    async fn take(&self, row: SessionRow, purpose: Purpose, alone: File) -> Result<SessionRow, SessionError> {
        let row = SessionRow { owner: self.owner.clone(), ..row };
        let urgency = match purpose {
            Purpose::Use => Urgency::Normal,
            Purpose::End => Urgency::Settlement,
        };
        let draft = Draft { changes: vec![Change::Session(row.clone())], urgency, ..Draft::default() };
        let (stored, done) = oneshot::channel();
        let then = Box::new(move |result| {
            drop(alone);
            drop(stored.send(result));
        });
        self.journal.do_send(Store { session: row.id.clone(), draft, then: Some(then) });
        done.await.map_err(|_| SessionError::Interrupted)??;
        Ok(row)
    }

    /// Whether a session has a task that is not settled, or a runtime that is not gone.
    async fn is_unfinished(&self, id: &SessionId) -> Result<bool, SessionError> {
        let unsettled = self.ledger.unsettled().await?.iter().any(|task| task.session == *id);
        Ok(unsettled || self.ledger.runtimes(None).await?.iter().any(|runtime| runtime.row.session == *id))
    }
}
