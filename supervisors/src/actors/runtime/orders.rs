//! Strays and stops.

use std::time::Duration;

use actix::prelude::*;
use ostler_keeper::clock;
use ostler_keeper::tree::{MILLIS_PER_TICK, ticks};
use ostler_keeper::{EndResult, Order as KeeperOrder, Process};

use super::super::session::RuntimeNews;
use super::{Phase, Runtime, TreeEnd};
use crate::machines::task::{Input, StopMode, Stray, StrayEnd};

/// A process younger than this may still be on its way into a session of its own: 200 ms.
const YOUNG_TICKS: u64 = 20;
/// So often is waited for such ones; an agent may start something all the time.
const MOST_LOOKS: u32 = 3;

/// How long to wait before a listing that was refused is asked for again.
const LIST_PAUSE: Duration = Duration::from_millis(200);

/// Whether a keeper named every process it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Listing {
    Whole,
    /// There are more than a keeper names.
    Cut,
}

impl Runtime {
    pub(super) fn list_strays(&mut self) {
        if self.phase == Phase::Over {
            return self.to_task(Input::Strays(Vec::new()));
        }
        // Without a connection nobody can tell: once there is one again, the task asks again.
        self.next_number += 1;
        self.keeper_order(KeeperOrder::List { number: self.next_number });
    }

    /// Born in the task, in a session other than the leader's, and none of the agent's own helpers, nor of theirs.
    pub(super) fn listed(&mut self, processes: Vec<Process>, listing: Listing, ctx: &mut Context<Self>) {
        if let Some(wait) = self.may_leave_yet(&processes).filter(|_| self.looks < MOST_LOOKS) {
            self.looks += 1;
            ctx.run_later(wait, |runtime, _| runtime.list_strays());
            return;
        }
        self.looks = 0;
        let leader = self.leader.map(|(pid, _)| pid);
        let does_its_work = |process: &&Process| {
            Some(process.pid) == leader || Some(process.sid) == leader && self.harness.is_engine(&process.command)
        };
        let is_stray = |process: &&Process| {
            let mut lineage = lineage(process, &processes).filter(|ancestor| !does_its_work(ancestor));
            Some(process.sid) != leader && !lineage.any(|ancestor| self.is_own(ancestor))
        };
        let stray =
            |process: &Process| Stray { pid: process.pid, start: process.start, command: process.command.clone() };
        let strays: Vec<_> = processes.iter().filter(is_stray).map(stray).collect();
        if strays.is_empty() && listing == Listing::Cut {
            // What nobody can look through is not free of strays.
            return self.order_stop(StopMode::Ladder);
        }
        self.to_task(Input::Strays(strays));
    }

    /// Older than the task, or one of the agent's helpers.
    fn is_own(&self, process: &Process) -> bool {
        process.start < self.task_since || self.harness.is_helper(&process.command)
    }

    /// After what time a process of the task that was only just born in the leader's session is in its own, if it will
    /// ever be: a tool gets its session between its fork and its program.
    fn may_leave_yet(&self, processes: &[Process]) -> Option<Duration> {
        let (leader, now) = (self.leader.map(|(pid, _)| pid)?, ticks(clock::now()));
        let is_inside = |process: &&Process| process.sid == leader && process.pid != leader && !self.is_own(process);
        let youngest = processes.iter().filter(is_inside).map(|process| process.start).max()?;
        let left = (youngest + YOUNG_TICKS).checked_sub(now).filter(|left| *left > 0)?;
        Some(Duration::from_millis(left * MILLIS_PER_TICK))
    }

    pub(super) fn end_stray(&mut self, stray: Stray) {
        self.next_number += 1;
        let (number, grace) = (self.next_number, self.harness.deadlines.stray);
        let (pid, start) = (stray.pid, stray.start);
        self.endings.insert(number, stray);
        self.keeper_order(KeeperOrder::End { number, pid, start, grace_ms: grace.as_millis() as u64 });
    }

    pub(super) fn stray_ended(&mut self, number: u64, result: EndResult) {
        if let Some(stray) = self.endings.remove(&number) {
            let end = if result == EndResult::Alive { StrayEnd::Alive } else { StrayEnd::Gone };
            self.to_task(Input::StrayEnded(stray, end));
        }
    }

    /// Remembered, so that a stop meets a start that is still under way.
    pub(super) fn order_stop(&mut self, mode: StopMode) {
        let mode = if self.stop == Some(StopMode::Kill) { StopMode::Kill } else { mode };
        self.stop = Some(mode);
        self.news(RuntimeNews::Stopping);
        match self.phase {
            // A keeper that has its order to open obeys a stop even before the agent runs.
            Phase::Running | Phase::Starting if self.origin.is_none() => {
                self.keeper_order(KeeperOrder::Stop(self.ladder(mode)));
            }
            Phase::Prepared => self.never_started(),
            _ => {}
        }
    }

    /// The process table could not be read.
    pub(super) fn list_again(&mut self, ctx: &mut Context<Self>) {
        ctx.run_later(LIST_PAUSE, |runtime, _| runtime.to_task(Input::Resumed));
    }

    /// Stopped before anything was stored of it.
    fn never_started(&mut self) {
        self.phase = Phase::Over;
        (self.live, self.start) = (None, None);
        self.news(RuntimeNews::Over(TreeEnd::Proven));
        if let Some(own) = self.own.clone() {
            own.do_send(super::end::LetGo);
        }
    }
}

/// A process and its ancestors, as far as the listing goes.
fn lineage<'a>(process: &'a Process, all: &'a [Process]) -> impl Iterator<Item = &'a Process> {
    std::iter::successors(Some(process), |child| {
        all.iter().find(|other| other.pid == child.ppid && other.pid != child.pid)
    })
}
