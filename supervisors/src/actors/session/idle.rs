//! A runtime without work: closed after a while, or when its place is wanted, and opened again by the harness's own
//! resume with the next task.

use actix::prelude::*;
use serde_json::json;

use super::super::opens::{Hibernate, Idle, Needed, NotHibernated, NotIdle};
use super::{RuntimeState, Session};
use crate::clock;
use crate::contract::event::kinds;
use crate::machines::Millis;

/// Why a runtime is closed that could have gone on.
#[derive(Debug, Clone, Copy)]
enum Why {
    /// Nobody had a use for it.
    IdleTimeout,
    /// Another session waits for a place.
    PlaceWanted,
    /// The machine is short of memory.
    MemoryShort,
}

impl Why {
    fn word(self) -> &'static str {
        match self {
            Self::IdleTimeout => "idle_timeout",
            Self::PlaceWanted => "place_wanted",
            Self::MemoryShort => "memory_short",
        }
    }
}

/// Runs while a runtime has no work.
pub(super) struct IdleTimer {
    handle: SpawnHandle,
    at: Millis,
}

impl IdleTimer {
    /// How long it still runs.
    pub(super) fn left_ms(&self) -> u64 {
        clock::until(self.at).as_millis() as u64
    }
}

impl Session {
    /// Its runtime may have nothing to do from here on.
    pub(super) fn perhaps_idle(&mut self, ctx: &mut Context<Self>) {
        if !self.can_hibernate() {
            return;
        }
        self.drop_idle_timer(ctx);
        let timeout = self.harness.idle_timeout;
        let handle = ctx.run_later(timeout, |session, _| session.hibernate(Why::IdleTimeout));
        self.idle_timer = Some(IdleTimer { handle, at: clock::now() + timeout });
        let hibernate = ctx.address().recipient();
        // One for each task: bounded.
        self.env.opens.do_send(Idle { session: self.row.id.clone(), hibernate });
    }

    /// It has work, or is being ended.
    pub(super) fn not_idle(&mut self, ctx: &mut Context<Self>) {
        if self.drop_idle_timer(ctx) {
            self.env.opens.do_send(NotIdle(self.row.id.clone()));
        }
    }

    fn drop_idle_timer(&mut self, ctx: &mut Context<Self>) -> bool {
        self.idle_timer.take().is_some_and(|timer| ctx.cancel_future(timer.handle))
    }

    /// Nothing is lost by it: the harness has shown that it stored the session, nobody has a use for the runtime, and
    /// nothing was left running in it on purpose.
    fn can_hibernate(&self) -> bool {
        let stored = self.row.native.as_ref().is_some_and(|native| native.resumable);
        let warm = self.runtime.as_ref().is_some_and(|runtime| runtime.state == RuntimeState::Ready);
        stored
            && warm
            && self.left_running.is_empty()
            && self.task.is_none()
            && self.accepting.is_empty()
            && self.close.is_open()
    }

    fn hibernate(&mut self, why: Why) {
        self.idle_timer = None;
        if !self.can_hibernate() {
            return self.env.opens.do_send(NotHibernated);
        }
        let runtime = self.runtime.as_ref().map(|runtime| &runtime.id);
        self.tell_outside(kinds::SESSION_HIBERNATED, json!({ "runtime_id": runtime, "why": why.word() }));
        self.env.opens.do_send(NotIdle(self.row.id.clone()));
        self.stop_idle_runtime();
    }
}

impl Handler<Hibernate> for Session {
    type Result = ();

    fn handle(&mut self, hibernate: Hibernate, ctx: &mut Self::Context) {
        self.drop_idle_timer(ctx);
        self.hibernate(match hibernate.0 {
            Needed::Place => Why::PlaceWanted,
            Needed::Memory => Why::MemoryShort,
        });
    }
}
