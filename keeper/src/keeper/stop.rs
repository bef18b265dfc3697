//! The end of a tree: reaping, climbing, the proof, and the last word.

use std::collections::HashSet;
use std::time::Duration;

use nix::sys::signal::Signal;

use super::Keeper;
use super::agent::{Agent, DRAIN, KILL_PASS, Leader, SLOW_PASS};
use crate::clock;
use crate::folder;
use crate::ladder::{Climb, ClimbAction, Ladder, Rung};
use crate::leaf::Leaf;
use crate::message::{Emptiness, Exit, Report, StopCause};
use crate::tree;
use crate::wait::{self, Waited};

/// How many times one pass looks again at once, so that a fork loop is outrun but never followed for ever.
const LOOKS_PER_PASS: usize = 32;

impl Keeper {
    /// A child changed: reap the adopted ones by id, and see whether the leader ended.
    pub(super) fn children_changed(&mut self) {
        while let Ok(Some(_)) = self.children.read_signal() {}
        self.reap();
        self.ending_changed();
    }

    pub(super) fn reap(&mut self) {
        let Some(agent) = &mut self.agent else { return };
        agent.reap();
        self.tell_exit();
        self.prove_empty();
        self.follow_leader();
    }

    /// Once, whichever look at the tree found it; always before the tree is said to be empty.
    fn tell_exit(&mut self) {
        let Some(agent) = &mut self.agent else { return };
        if let Some(exit) = agent.exit().filter(|_| agent.exit_told.is_none()) {
            agent.exit_told = Some(exit);
            self.report(&Report::Exited(exit));
        }
    }

    /// What a leader left behind is ended, where the order says so.
    fn follow_leader(&mut self) {
        let Some(agent) = &self.agent else { return };
        let left = agent.exit().is_some() && agent.emptiness.is_none() && agent.climb.is_none();
        if let Some(ladder) = agent.open.on_leader_exit.clone().filter(|_| left) {
            self.stop(ladder, StopCause::LeaderGone);
        }
    }

    pub(super) fn prove_empty(&mut self) {
        let Some(agent) = &mut self.agent else { return };
        if agent.emptiness.is_some() || !agent.is_empty() {
            return;
        }
        self.tell_exit();
        let Some(agent) = &mut self.agent else { return };
        // Asked before the leaf goes, and after everybody in it has gone.
        let oom_kills = agent.leaf.as_ref().and_then(Leaf::oom_kills);
        let emptiness = Emptiness { containment: agent.containment(), at_ms: Self::now_ms(), oom_kills };
        agent.emptiness = Some(emptiness);
        agent.leaked.clear();
        agent.stdin = None;
        agent.inbox.close();
        if let Some(leaf) = &agent.leaf {
            // Only a stranger put in by hand can hinder it; the next start's sweep tries again.
            let _left_to_the_sweep = leaf.remove();
        }
        // Emptied is told before the streams' ends, which the drain produces.
        self.report(&Report::Emptied(emptiness));
    }

    pub(super) fn stop(&mut self, ladder: Ladder, cause: StopCause) {
        let now = clock::now();
        let Some(agent) = &mut self.agent else { return };
        if let Some(emptiness) = agent.emptiness {
            return self.report(&Report::Emptied(emptiness));
        }
        match &mut agent.climb {
            Some(climb) if climb.deadline().is_none() => *climb = Climb::new(ladder, climb.cause(), now),
            Some(climb) => climb.join(ladder, now),
            None => agent.climb = Some(Climb::new(ladder, cause, now)),
        }
    }

    pub(super) fn climb(&mut self, now: Duration) {
        let Some(agent) = &mut self.agent else { return };
        if agent.emptiness.is_some() {
            return;
        }
        match agent.climb.as_mut().map(|climb| climb.advance(now)) {
            Some(ClimbAction::Enter(rung)) => {
                let is_told = agent.enter(rung, now);
                if let Some(climb) = agent.climb.as_mut().filter(|_| !is_told) {
                    climb.hurry(now);
                }
                self.report(&Report::Rung(rung));
            }
            Some(ClimbAction::Leaked) => {
                agent.leaked = agent.alive();
                agent.next_pass = Some(now + SLOW_PASS);
                let leaked = agent.leaked.clone();
                self.report(&Report::Leaked(leaked));
            }
            Some(ClimbAction::Wait) | None => self.pass(now),
        }
    }

    /// While a tree is being killed: look again, since it may have forked meanwhile.
    fn pass(&mut self, now: Duration) {
        let Some(agent) = &mut self.agent else { return };
        if agent.next_pass.is_some_and(|due| due <= now) {
            agent.kill_pass();
            let leaked = agent.climb.as_ref().is_some_and(|climb| climb.deadline().is_none());
            agent.next_pass = Some(now + if leaked { SLOW_PASS } else { KILL_PASS });
            self.reap();
        }
    }

    /// Once the tree is empty: read the pipes to their end, then the runtime is over.
    pub(super) fn settle(&mut self, now: Duration) {
        let Some(agent) = &mut self.agent else { return };
        let Some(emptiness) = agent.emptiness.filter(|_| !agent.drained) else { return };
        if !agent.drain() && now >= Duration::from_millis(emptiness.at_ms) + DRAIN {
            agent.close_outputs();
        }
        agent.drained = agent.stdout.relay.ended() && agent.stderr.relay.ended();
    }

    pub(super) fn orphan_deadline(&self) -> Option<Duration> {
        let since = self.orphaned_at?;
        match &self.agent {
            Some(agent) if agent.drained => Some(agent.next_last_word),
            Some(agent) if agent.climb.is_none() => Some(since + Duration::from_millis(agent.open.orphan.grace_ms)),
            _ => None,
        }
    }

    /// Without an owner: a spare goes, a finished runtime says its last word, a running one waits out its grace.
    pub(super) fn orphan(&mut self, now: Duration) {
        let Some(since) = self.orphaned_at else { return };
        let Some(agent) = &mut self.agent else {
            self.exit.get_or_insert(0);
            return;
        };
        if agent.drained {
            return self.last_word(now);
        }
        let grace = Duration::from_millis(agent.open.orphan.grace_ms);
        if agent.climb.is_none() && now >= since + grace {
            let ladder = agent.open.orphan.ladder.clone();
            self.stop(ladder, StopCause::Orphaned);
        }
    }

    fn last_word(&mut self, now: Duration) {
        let Some(agent) = &mut self.agent else { return };
        if now < agent.next_last_word {
            return;
        }
        let (stdout, stderr) = (agent.stdout.relay.kept(), agent.stderr.relay.kept());
        match folder::write_last_word(&agent.folder, agent.state(), stdout, stderr) {
            Ok(()) => self.exit = Some(0),
            // Whoever removed the folder wants nothing of this runtime any more.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => self.exit = Some(0),
            // A full disk: keep the bytes, and try until it is written or an owner comes.
            Err(_) => agent.next_last_word = now + SLOW_PASS,
        }
    }
}

impl Agent {
    fn reap(&mut self) {
        if self.progress.is_some() {
            // The setup's own report comes first: it says why a child that never became an agent ended.
            return;
        }
        if let Leader::Reaped(_) = self.leader {
            return wait::reap_all();
        }
        let own = std::process::id() as i32;
        // Any answer is fine for the others: reaped now, or still alive.
        wait::reap_others(self.pid);
        if let Some(exit) = self.leader_exit() {
            self.leader = Leader::Ended(exit);
            if tree::children(own).iter().all(|&pid| pid == self.pid) {
                // Last, so that no id below the leader is recycled while it is still being named.
                wait::reap(self.pid);
                self.leader = Leader::Reaped(exit);
                wait::reap_all();
            }
        }
    }

    /// How the leader ended, without reaping it.
    fn leader_exit(&self) -> Option<Exit> {
        match (self.leader, wait::look(self.pid)) {
            (Leader::Ended(exit), _) | (_, Waited::Ended(exit)) => Some(exit),
            // Nobody else can have waited for it; the kernel said that it is gone, and nothing of how.
            (_, Waited::Unknown) => Some(Exit::Signal { signal: 0, core: false }),
            (_, Waited::Alive) => None,
        }
    }

    /// The kernel's own answer: no child of any kind, and nobody in the leaf.
    fn is_empty(&self) -> bool {
        matches!(self.leader, Leader::Reaped(_))
            && !wait::has_children()
            && !self.leaf.as_ref().is_some_and(|leaf| leaf.is_populated())
    }

    /// The processes a pass can see. One that sees none because the table cannot be read is followed by another: only
    /// the kernel's answer to `wait` proves emptiness.
    fn tree(&self) -> Vec<(i32, tree::Stat)> {
        tree::descendants(std::process::id() as i32).unwrap_or_default()
    }

    /// Does what the rung says. `false` if that tells the agent nothing, as when its input was at its end before.
    fn enter(&mut self, rung: Rung, now: Duration) -> bool {
        match rung {
            Rung::EndOfInput => return self.end_input(),
            Rung::HangUp => return self.hang_up(),
            Rung::Terminate => {
                for (pid, stat) in self.tree() {
                    tree::signal(pid, stat.start, Signal::SIGTERM);
                    // A stopped process takes no SIGTERM before it goes on.
                    tree::signal(pid, stat.start, Signal::SIGCONT);
                }
            }
            Rung::Kill => {
                self.next_pass = Some(now + KILL_PASS);
                self.kill_pass();
            }
        }
        true
    }

    fn kill_pass(&mut self) {
        if let Some(leaf) = &self.leaf {
            // Where the whole-group kill fails, the passes over the tree below still do it.
            let _passes_follow = leaf.kill();
        }
        let mut killed = HashSet::new();
        for _ in 0..LOOKS_PER_PASS {
            let found = self.tree();
            let mut fresh = found.iter().filter(|(pid, stat)| killed.insert((*pid, stat.start))).peekable();
            if fresh.peek().is_none() {
                return;
            }
            for (pid, stat) in fresh {
                tree::kill_group(stat.pgid);
                tree::signal(*pid, stat.start, Signal::SIGKILL);
            }
            self.reap();
        }
    }

    fn alive(&self) -> Vec<crate::message::Process> {
        self.tree().iter().map(|(pid, stat)| tree::describe(*pid, stat)).collect()
    }
}
