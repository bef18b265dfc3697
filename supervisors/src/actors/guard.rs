//! An exit is always reported, whatever its cause: a panic drops the actor, and the guard in it speaks.

use actix::prelude::*;

use crate::tree::ExitReason;

/// A child ended.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(super) struct ChildExited<K: Send + 'static> {
    pub(super) key: K,
    pub(super) reason: ExitReason,
}

/// Lives in an actor; its drop tells the supervisor.
pub(super) struct ExitGuard<K: Send + Clone + 'static> {
    supervisor: Recipient<ChildExited<K>>,
    key: K,
    reason: Option<ExitReason>,
}

impl<K: Send + Clone + 'static> ExitGuard<K> {
    pub(super) fn new(supervisor: Recipient<ChildExited<K>>, key: K) -> Self {
        Self { supervisor, key, reason: None }
    }

    /// The actor is about to end for this reason. Without it, an end is an error, or a panic.
    pub(super) fn ends(&mut self, reason: ExitReason) {
        self.reason = Some(reason);
    }
}

impl<K: Send + Clone + 'static> ExitGuard<K> {
    /// It does not end after all.
    pub(super) fn stays(&mut self) {
        self.reason = None;
    }
}

impl<K: Send + Clone + 'static> Drop for ExitGuard<K> {
    fn drop(&mut self) {
        let unexpected = if std::thread::panicking() { ExitReason::Panic } else { ExitReason::Error };
        let reason = self.reason.unwrap_or(unexpected);
        // One exit per child: bounded. A supervisor that is gone has nothing left to decide.
        self.supervisor.do_send(ChildExited { key: self.key.clone(), reason });
    }
}
