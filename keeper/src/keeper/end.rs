//! Ending one process of a tree, while the rest goes on.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::poll::PollFlags;
use nix::sys::signal::Signal;

use super::{Keeper, Watch};
use crate::clock;
use crate::message::{EndResult, Report};
use crate::tree::{self, Handle, Stat};

/// How long SIGKILL may take.
const KILL_DEADLINE: Duration = Duration::from_secs(2);
/// How many members wake the loop by their end; further ones are looked at when one of these ends or by the clock.
const MAX_WATCHED: usize = 64;

/// One order to end a process that is being carried out.
#[derive(Debug)]
pub(super) struct Ending {
    number: u64,
    target: (i32, u64),
    /// The session the target leads, if it leads one: whoever is in it belongs to the target.
    session: Option<i32>,
    members: Vec<(i32, u64, Option<Handle>)>,
    kill_at: Duration,
    killed: bool,
}

impl Ending {
    pub(super) fn watch<'a>(&'a self, watched: &mut Vec<(Watch, BorrowedFd<'a>, PollFlags)>) {
        let handles = self.members.iter().filter_map(|(.., handle)| handle.as_ref()).take(MAX_WATCHED);
        watched.extend(handles.map(|handle| (Watch::Ending, handle.fd().as_fd(), PollFlags::POLLIN)));
    }

    pub(super) fn deadline(&self) -> Duration {
        if self.killed { self.kill_at + KILL_DEADLINE } else { self.kill_at }
    }

    /// Adds who belongs to the target by now, and forgets who is gone.
    fn refresh(&mut self) {
        let alive = tree::descendants(std::process::id() as i32);
        self.members.retain(|(pid, start, _)| alive.iter().any(|(p, stat)| p == pid && stat.start == *start));
        for (pid, stat) in &alive {
            let known = |pid: i32| self.members.iter().any(|(member, ..)| *member == pid);
            if !known(*pid) && (known(stat.ppid) || self.is_target(*pid, stat)) {
                let handle = Handle::open(*pid, stat.start);
                self.members.push((*pid, stat.start, handle));
            }
        }
    }

    fn is_target(&self, pid: i32, stat: &Stat) -> bool {
        (pid, stat.start) == self.target || self.session == Some(stat.sid)
    }

    fn signal(&self, signals: &[Signal]) {
        for handle in self.members.iter().filter_map(|(.., handle)| handle.as_ref()) {
            for &signal in signals {
                // Whoever is gone already is what was wanted; whoever stays is reported as alive.
                let _gone = handle.signal(signal);
            }
        }
    }

    /// Moves on; the result once there is one.
    fn advance(&mut self, now: Duration) -> Option<EndResult> {
        self.refresh();
        if self.members.is_empty() {
            return Some(EndResult::Gone);
        }
        if now >= self.kill_at {
            self.killed = true;
            self.signal(&[Signal::SIGKILL]);
        }
        (self.killed && now >= self.kill_at + KILL_DEADLINE).then_some(EndResult::Alive)
    }
}

impl Keeper {
    pub(super) fn end(&mut self, number: u64, pid: i32, start: u64, grace_ms: u64) {
        let Some(agent) = &mut self.agent else { return };
        let found =
            tree::descendants(std::process::id() as i32).into_iter().find(|(p, stat)| (*p, stat.start) == (pid, start));
        let Some((_, stat)) = found else {
            return self.report(&Report::Ended { number, result: EndResult::NotFound });
        };
        let mut ending = Ending {
            number,
            target: (pid, start),
            session: (stat.sid == pid).then_some(pid),
            members: Vec::new(),
            kill_at: clock::now() + Duration::from_millis(grace_ms),
            killed: false,
        };
        ending.refresh();
        ending.signal(&[Signal::SIGTERM, Signal::SIGCONT]);
        agent.endings.push(ending);
        agent.endings_due = true;
    }

    pub(super) fn ending_changed(&mut self) {
        if let Some(agent) = &mut self.agent {
            agent.endings_due = true;
        }
    }

    pub(super) fn finish_ends(&mut self, now: Duration) {
        let Some(agent) = &mut self.agent else { return };
        let due = std::mem::take(&mut agent.endings_due) || agent.endings.iter().any(|e| e.deadline() <= now);
        if !due {
            return;
        }
        let mut done = Vec::new();
        agent.endings.retain_mut(|ending| match ending.advance(now) {
            Some(result) => {
                done.push(Report::Ended { number: ending.number, result });
                false
            }
            None => true,
        });
        for report in done {
            self.report(&report);
        }
    }
}
