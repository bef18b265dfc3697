//! A session in which nothing runs leaves the memory: all of it is in the ledger, and whoever asks has it loaded again.

use std::time::Duration;

use actix::prelude::*;

use super::super::sessions::{StillUsed, Unused};
use super::Session;
use crate::ledger::SessionState;
use crate::tree::ExitReason;

/// Whoever has just used a session often uses it again at once.
const LINGER: Duration = Duration::from_secs(1);

/// Where a session stands on its way out of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    /// It is in use, or may soon be.
    Here,
    /// It is looked at again in a while.
    Lingering,
    /// Nobody is given its address any more; it ends when the last one who has it lets go.
    Leaving,
}

impl Session {
    /// Nothing may be left of it to do from here on.
    pub(super) fn perhaps_unused(&mut self, ctx: &mut Context<Self>) {
        if self.presence == Presence::Here && self.is_unused() {
            self.presence = Presence::Lingering;
            ctx.run_later(LINGER, |session, _| session.leave_if_unused());
        }
    }

    fn leave_if_unused(&mut self) {
        self.presence = Presence::Here;
        if self.is_unused() {
            self.presence = Presence::Leaving;
            self.guard.ends(ExitReason::Normal);
            // One for each time it has come to rest: bounded.
            self.sessions.do_send(Unused(self.row.id.clone()));
        }
    }

    /// Nothing runs, nothing is being stored that it would have to act on, and nobody waits for it. One that is being
    /// closed stays until that is stored.
    fn is_unused(&self) -> bool {
        self.task.is_none()
            && self.runtime.is_none()
            // It could not end before they are there, and whoever asks for it would wait as long.
            && self.acquiring == 0
            && self.accepting.is_empty()
            && !self.context.is_claimed()
            && self.closers.is_empty()
            && self.storing_close.is_none()
            && self.row.state != SessionState::Closing
    }

    /// Somebody who still had its address gives it work.
    pub(super) fn used(&mut self, ctx: &mut Context<Self>) {
        if self.presence == Presence::Leaving {
            self.presence = Presence::Here;
            self.guard.stays();
            self.sessions.do_send(StillUsed { session: self.row.id.clone(), actor: ctx.address() });
        }
    }
}
