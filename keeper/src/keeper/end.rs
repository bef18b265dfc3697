//! Ending one process of a tree, while the rest goes on.

use std::collections::HashSet;
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
/// How many looks in a row have to find nobody.
const LOOKS_FOR_GONE: usize = 8;

/// One order to end a process that is being carried out.
#[derive(Debug)]
pub(super) struct Ending {
    number: u64,
    target: (i32, u64),
    /// The target's session, if it is not the agent's own: whoever is in it belongs to the target.
    session: Option<i32>,
    members: Vec<Member>,
    /// Sessions and groups that members were in: whoever forks away from one is found by them.
    groups: HashSet<i32>,
    /// Start times from here on are younger than the order.
    since: u64,
    /// The group of the agent itself, whose members are not the target's because of it.
    leader_group: i32,
    kill_at: Duration,
    killed: bool,
}

/// One process that belongs to the target.
#[derive(Debug)]
struct Member {
    pid: i32,
    start: u64,
    /// Wakes the loop at its end. Only so many have one, since descriptors are few.
    handle: Option<Handle>,
}

impl Member {
    /// Not known to be gone.
    fn may_live(&self) -> bool {
        match Stat::look(self.pid) {
            Ok(stat) => stat.is_some_and(|stat| stat.start == self.start && !stat.is_dead()),
            Err(_) => true,
        }
    }
}

impl Ending {
    pub(super) fn watch<'a>(&'a self, watched: &mut Vec<(Watch, BorrowedFd<'a>, PollFlags)>) {
        let handles = self.members.iter().filter_map(|member| member.handle.as_ref());
        watched.extend(handles.map(|handle| (Watch::Ending, handle.fd().as_fd(), PollFlags::POLLIN)));
    }

    pub(super) fn deadline(&self) -> Duration {
        if self.killed { self.kill_at + KILL_DEADLINE } else { self.kill_at }
    }

    /// Adds who belongs to the target by now, and forgets who is gone. `true` if somebody new was found.
    fn refresh(&mut self) -> bool {
        // What cannot be read is not gone: the members stay, and are looked at again.
        let Ok(alive) = tree::descendants(std::process::id() as i32) else { return false };
        // Each is asked for by itself: a look at the whole misses who changes its parent meanwhile.
        self.members.retain(Member::may_live);
        let before = self.members.len();
        for (pid, stat) in &alive {
            let known = |pid: i32| self.members.iter().any(|member| member.pid == pid);
            if !known(*pid) && (known(stat.ppid) || self.is_target(*pid, stat)) {
                let handle = (self.members.len() < MAX_WATCHED).then(|| Handle::open(*pid, stat.start)).flatten();
                self.members.push(Member { pid: *pid, start: stat.start, handle });
                self.groups.insert(stat.pgid);
            }
        }
        self.members.len() > before
    }

    /// The target itself, whoever is in the session it leads, and whoever a member forked and left behind: adopted by
    /// the keeper, younger than the order, and in a group that a member was in.
    fn is_target(&self, pid: i32, stat: &Stat) -> bool {
        let left_behind = stat.ppid == std::process::id() as i32 && stat.start >= self.since;
        (pid, stat.start) == self.target
            || self.session == Some(stat.sid)
            || (left_behind && self.groups.contains(&stat.pgid) && self.leader_group != stat.pgid)
    }

    fn signal(&self, signals: &[Signal]) {
        for member in &self.members {
            signals.iter().for_each(|signal| tree::signal(member.pid, member.start, *signal));
        }
    }

    /// Kills the members, and the groups they are in as wholes, so that none forks away from it.
    fn kill(&mut self) {
        self.refresh();
        self.groups.iter().filter(|pgid| **pgid != self.leader_group).for_each(|pgid| tree::kill_group(*pgid));
        self.groups.clear();
        self.signal(&[Signal::SIGKILL]);
    }

    /// Moves on; the result once there is one.
    fn advance(&mut self, now: Duration) -> Option<EndResult> {
        // A look is not atomic: one that forks and exits can slip through it, but hardly through all of them.
        if (0..LOOKS_FOR_GONE).all(|_| !self.refresh() && self.members.is_empty()) {
            return Some(EndResult::Gone);
        }
        if now >= self.kill_at {
            self.killed = true;
            self.kill();
        }
        (self.killed && now >= self.kill_at + KILL_DEADLINE).then_some(EndResult::Alive)
    }
}

impl Keeper {
    pub(super) fn end(&mut self, number: u64, pid: i32, start: u64, grace_ms: u64) {
        let Some(agent) = &mut self.agent else { return };
        let alive = tree::descendants(std::process::id() as i32).unwrap_or_default();
        let found = alive.into_iter().find(|(p, stat)| (*p, stat.start) == (pid, start));
        let Some((_, stat)) = found else {
            return self.report(&Report::Ended { number, result: EndResult::NotFound });
        };
        let mut ending = Ending {
            number,
            target: (pid, start),
            session: Some(stat.sid).filter(|sid| *sid != agent.pid),
            members: Vec::new(),
            groups: HashSet::new(),
            since: tree::ticks(clock::now()),
            leader_group: Stat::read(agent.pid).map_or(0, |leader| leader.pgid),
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
