//! The keeper's loop: one `poll`, then one named method for each thing that can have happened.

mod agent;
mod doors;
mod end;
mod orders;
mod output;
mod program;
mod stop;
mod terminal;

use std::os::fd::{AsFd, BorrowedFd};
use std::process::ExitCode;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::signalfd::SignalFd;
use nix::sys::time::TimeSpec;

use crate::clock;
use crate::message::{Containment, Phase, Report, State, StreamState};
use crate::owner::Connection;
use crate::setup;

use agent::Agent;
use doors::Doors;

/// Runs a keeper on descriptor 0 until there is nothing left to keep.
///
/// Called by the `ostler-keeper` binary and by the main one when it plays the keeper. It changes the process for
/// good (session, signals, subreaper, descriptors above 2), so it must be the whole program.
pub fn main() -> ExitCode {
    let Some(owner) = setup::take_owner() else {
        return ExitCode::from(1);
    };
    let started = setup::detach().and_then(|()| setup::child_events());
    let (Ok(children), Ok(owner)) = (started, Connection::new(owner)) else {
        return ExitCode::from(2);
    };
    Keeper { doors: Doors::new(owner), agent: None, children, orphaned_at: None, exit: None }.run()
}

/// How long to rest when `poll` itself fails.
const PAUSE: Duration = Duration::from_millis(50);

/// Everything a keeper is.
struct Keeper {
    doors: Doors,
    agent: Option<Agent>,
    children: SignalFd,
    /// Since when nobody owns the connection.
    orphaned_at: Option<Duration>,
    exit: Option<u8>,
}

/// What `poll` watches, by what it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Watch {
    Children,
    Owner,
    Listener,
    Stranger(usize),
    Progress,
    Stdin,
    Stdout,
    Stderr,
    Ending,
}

impl Keeper {
    fn run(mut self) -> ExitCode {
        loop {
            for (watch, flags) in self.poll() {
                self.happened(watch, flags);
            }
            self.tick(clock::now());
            if let Some(code) = self.exit {
                self.doors.flush_before_exit();
                return ExitCode::from(code);
            }
        }
    }

    fn poll(&self) -> Vec<(Watch, PollFlags)> {
        let now = clock::now();
        let watched = self.watched(now);
        let mut fds: Vec<PollFd<'_>> = watched.iter().map(|(_, fd, flags)| PollFd::new(*fd, *flags)).collect();
        let timeout = self.deadline(now).map(|at| TimeSpec::from(at.saturating_sub(now)));
        match ppoll(&mut fds, timeout, None) {
            Ok(0) | Err(Errno::EINTR) => Vec::new(),
            Err(_) => {
                // Too many descriptors for our limit, or no memory: neither gets better by asking at once again.
                std::thread::sleep(PAUSE);
                Vec::new()
            }
            Ok(_) => {
                let happened = watched.iter().zip(&fds).map(|((watch, ..), fd)| (*watch, fd.revents()));
                happened.filter_map(|(watch, flags)| flags.filter(|f| !f.is_empty()).map(|f| (watch, f))).collect()
            }
        }
    }

    fn watched(&self, now: Duration) -> Vec<(Watch, BorrowedFd<'_>, PollFlags)> {
        let mut watched = vec![(Watch::Children, self.children.as_fd(), PollFlags::POLLIN)];
        self.doors.watch(&mut watched);
        if let Some(agent) = &self.agent {
            agent.watch(&mut watched, now);
        }
        watched
    }

    fn happened(&mut self, watch: Watch, flags: PollFlags) {
        match watch {
            Watch::Children => self.children_changed(),
            Watch::Owner => self.owner_ready(flags),
            Watch::Listener => self.knocked(),
            Watch::Stranger(index) => self.stranger_ready(index),
            Watch::Progress => self.setup_progressed(),
            Watch::Stdin => self.write_input(flags),
            Watch::Stdout | Watch::Stderr => self.read_output(watch),
            Watch::Ending => self.ending_changed(),
        }
    }

    /// Whatever is due by the clock or follows from what has just happened.
    fn tick(&mut self, now: Duration) {
        self.doors.drop_slow_strangers(now);
        self.climb(now);
        self.prove_empty();
        self.finish_ends(now);
        self.look_at_terminal(now);
        self.settle(now);
        self.flush_output(now);
        self.orphan(now);
    }

    /// The next instant at which [`Self::tick`] has something to do.
    fn deadline(&self, now: Duration) -> Option<Duration> {
        let agent = self.agent.as_ref().and_then(|agent| agent.deadline(now));
        [self.doors.deadline(), agent, self.orphan_deadline()].into_iter().flatten().min()
    }

    fn report(&mut self, report: &Report) {
        if let Some(owner) = &mut self.doors.owner {
            owner.report(report);
        }
    }

    fn state(&self) -> State {
        match &self.agent {
            Some(agent) => agent.state(),
            None => State {
                phase: Phase::Spare,
                leader: None,
                containment: Containment::Descent,
                exit: None,
                emptiness: None,
                stop: None,
                stdout: StreamState::default(),
                stderr: StreamState::default(),
                input: Default::default(),
                leaked: Vec::new(),
                window: None,
                limits: Vec::new(),
            },
        }
    }
}
