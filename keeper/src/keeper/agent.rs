//! The runtime as the keeper holds it.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::time::Duration;

use nix::poll::PollFlags;

use super::Watch;
use super::end::Ending;
use crate::inbox::Inbox;
use crate::ladder::Climb;
use crate::leaf::Leaf;
use crate::message::{Containment, Emptiness, Exit, LimitState, Open, Phase, Process, State, WindowSize};
use crate::relay::{Relay, WhenFull};
use crate::terminal::{self, Typed};

/// How long output is gathered before it is sent.
pub(super) const COALESCE: Duration = Duration::from_micros(500);
/// How often a tree that is being killed is looked through again.
pub(super) const KILL_PASS: Duration = Duration::from_millis(5);
/// How long to wait between looks at processes that outlived everything, and between attempts to write.
pub(super) const SLOW_PASS: Duration = Duration::from_secs(1);
/// How long pipes of an empty tree may stay open: longer means that somebody outside holds them.
pub(super) const DRAIN: Duration = Duration::from_millis(100);

/// One output pipe, or a terminal's master, and what was read from it.
pub(super) struct Output {
    pub(super) pipe: Option<File>,
    pub(super) relay: Relay,
    /// Nobody has the terminal open: until then it is not looked at, since `poll` would say so all the time.
    pub(super) idle_until: Option<Duration>,
}

impl Output {
    fn new(pipe: Option<File>, retention: u64, when_full: WhenFull) -> Self {
        let mut relay = Relay::new(retention as usize, when_full);
        if pipe.is_none() {
            relay.finish();
        }
        Self { pipe, relay, idle_until: None }
    }
}

/// What the keeper remembers of the agent's terminal beside its descriptors: the agent's input and its output are both
/// its master.
pub(super) struct Terminal {
    pub(super) size: WindowSize,
    pub(super) typed: Typed,
}

/// The leader's life, as far as the keeper has seen it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leader {
    /// Not yet at `exec`.
    Starting,
    Running,
    /// Ended and waitable; it keeps its id until all others are reaped.
    Ended(Exit),
    /// Reaped.
    Reaped(Exit),
}

pub(super) struct Agent {
    pub(super) open: Open,
    pub(super) folder: PathBuf,
    pub(super) pid: i32,
    pub(super) start: u64,
    pub(super) leader: Leader,
    /// What an owner was told of the leader's end.
    pub(super) exit_told: Option<Exit>,
    pub(super) leaf: Option<Leaf>,
    pub(super) limits: Vec<LimitState>,
    pub(super) progress: Option<File>,
    pub(super) stdin: Option<File>,
    pub(super) inbox: Inbox,
    pub(super) stdout: Output,
    pub(super) stderr: Output,
    pub(super) terminal: Option<Terminal>,
    /// Until when output is gathered; not read meanwhile.
    pub(super) gather_until: Option<Duration>,
    pub(super) climb: Option<Climb>,
    pub(super) next_pass: Option<Duration>,
    pub(super) leaked: Vec<Process>,
    pub(super) endings: Vec<Ending>,
    /// Something ended: look after the endings at the next tick.
    pub(super) endings_due: bool,
    pub(super) emptiness: Option<Emptiness>,
    pub(super) drained: bool,
    pub(super) next_last_word: Duration,
}

impl Agent {
    pub(super) fn new(open: Open, leaf: Option<Leaf>, forked: crate::spawn::Forked, start: u64) -> Self {
        Self {
            folder: open.folder.clone(),
            pid: forked.pid,
            start,
            leader: Leader::Starting,
            exit_told: None,
            leaf,
            limits: forked.limits,
            progress: Some(forked.progress),
            stdin: Some(forked.stdin),
            inbox: Inbox::new(open.input_capacity as usize),
            stdout: Output::new(Some(forked.stdout), open.stdout_retention, WhenFull::Hold),
            stderr: Output::new(forked.stderr, open.stderr_retention, WhenFull::DropOldest),
            terminal: open.terminal.map(|size| Terminal { size, typed: Typed::default() }),
            open,
            gather_until: None,
            climb: None,
            next_pass: None,
            leaked: Vec::new(),
            endings: Vec::new(),
            endings_due: false,
            emptiness: None,
            drained: false,
            next_last_word: Duration::ZERO,
        }
    }

    pub(super) fn watch<'a>(&'a self, watched: &mut Vec<(Watch, BorrowedFd<'a>, PollFlags)>, now: Duration) {
        let mut add = |watch, file: &'a Option<File>, flags| {
            if let Some(file) = file {
                watched.push((watch, file.as_fd(), flags));
            }
        };
        add(Watch::Progress, &self.progress, PollFlags::POLLIN);
        let quiet = self.inbox.front().is_empty() && !self.inbox.is_finished();
        match (&self.terminal, quiet) {
            // Watched for nothing, a pipe still tells when its reader is gone; a terminal's may come back.
            (None, true) => add(Watch::Stdin, &self.stdin, PollFlags::empty()),
            (Some(_), false) if self.stdout.idle_until.is_some() => {}
            (_, false) => add(Watch::Stdin, &self.stdin, PollFlags::POLLOUT),
            (Some(_), true) => {}
        }
        if self.gather_until.is_none_or(|until| until <= now) {
            for (watch, output) in [(Watch::Stdout, &self.stdout), (Watch::Stderr, &self.stderr)] {
                if output.relay.room() > 0 && output.idle_until.is_none() {
                    add(watch, &output.pipe, PollFlags::POLLIN);
                }
            }
        }
        for ending in &self.endings {
            ending.watch(watched);
        }
    }

    /// The next instant at which something is due. One that has passed since the last look is still due: nothing else
    /// may ever wake the keeper again.
    pub(super) fn deadline(&self, now: Duration) -> Option<Duration> {
        let climb = self.climb.as_ref().filter(|_| self.emptiness.is_none()).and_then(Climb::deadline);
        let pass = self.next_pass.filter(|_| self.emptiness.is_none());
        let drain = self.emptiness.filter(|_| !self.drained).map(|e| Duration::from_millis(e.at_ms) + DRAIN);
        // Nobody wakes us when a leaf empties after the last child was reaped.
        let leaf = (self.emptiness.is_none() && matches!(self.leader, Leader::Reaped(_))).then(|| now + KILL_PASS);
        let endings = self.endings.iter().map(Ending::deadline).min();
        [climb, pass, self.gather_until, drain, leaf, endings, self.stdout.idle_until].into_iter().flatten().min()
    }

    pub(super) fn exit(&self) -> Option<Exit> {
        match self.leader {
            Leader::Ended(exit) | Leader::Reaped(exit) => Some(exit),
            Leader::Starting | Leader::Running => None,
        }
    }

    pub(super) fn containment(&self) -> Containment {
        match self.leaf {
            Some(_) => Containment::DescentAndLeaf,
            None => Containment::Descent,
        }
    }

    pub(super) fn state(&self) -> State {
        State {
            phase: match (self.emptiness, self.leader) {
                (Some(_), _) => Phase::Empty,
                (None, Leader::Starting) => Phase::Starting,
                (None, Leader::Running) => Phase::Running,
                (None, Leader::Ended(_) | Leader::Reaped(_)) => Phase::LeaderGone,
            },
            leader: Some((self.pid, self.start)),
            containment: self.containment(),
            exit: self.exit(),
            emptiness: self.emptiness,
            stop: self.climb.as_ref().map(Climb::cause),
            stdout: self.stdout.relay.state(),
            stderr: self.stderr.relay.state(),
            input: self.inbox.state(),
            leaked: self.leaked.clone(),
            window: self.window(),
            limits: self.limits.clone(),
        }
    }

    pub(super) fn window(&self) -> Option<WindowSize> {
        let known = self.terminal.as_ref()?.size;
        let open = self.stdout.pipe.as_ref();
        Some(open.and_then(|master| terminal::size(master.as_fd()).ok()).unwrap_or(known))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::Ladder;
    use crate::message::OrphanPolicy;
    use crate::spawn::Forked;

    fn agent() -> Agent {
        let open = Open {
            folder: PathBuf::new(),
            runtime: "r".into(),
            owner: "o".into(),
            secret: Vec::new(),
            command: Vec::new(),
            environment: Vec::new(),
            directory: PathBuf::new(),
            leaf_parent: None,
            stdout_retention: 1,
            stderr_retention: 1,
            input_capacity: 1,
            oom_score_adj: 0,
            umask: 0,
            orphan: OrphanPolicy { grace_ms: 0, ladder: Ladder::kill(Duration::ZERO) },
            on_leader_exit: None,
            terminal: None,
            limits: Vec::new(),
        };
        let null = || File::open("/dev/null").expect("there");
        let forked = Forked {
            pid: 1,
            stdin: null(),
            stdout: null(),
            stderr: Some(null()),
            progress: null(),
            limits: Vec::new(),
        };
        Agent::new(open, None, forked, 1)
    }

    #[test]
    fn output_gathered_until_an_instant_that_has_just_passed_is_due() {
        let mut agent = agent();
        agent.gather_until = Some(Duration::from_millis(10));
        agent.emptiness = Some(Emptiness { containment: Containment::Descent, at_ms: 5, oom_kills: None });
        agent.drained = true;
        assert_eq!(agent.deadline(Duration::from_millis(11)), Some(Duration::from_millis(10)));
    }
}
