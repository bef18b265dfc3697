//! What each order does.

use std::os::unix::net::UnixListener;
use std::path::Path;

use nix::errno::Errno;
use nix::libc;

use super::Keeper;
use super::agent::{Agent, Leader};
use super::doors::refused;
use super::program;
use crate::clock;
use crate::folder::{self, Identity, Registration, SOCKET};
use crate::ladder::Ladder;
use crate::leaf::Leaf;
use crate::limits;
use crate::message::{
    LimitKind, LimitStanding, Open, Order, Process, RefusalCode, Report, SetupStep, StopCause, Stream,
};
use crate::spawn::{self, Progress, SetupFailure};
use crate::tree::{self, MAX_LISTED, Stat};

impl Keeper {
    pub(super) fn obey(&mut self, order: Order) {
        if self.exit.is_some() {
            return;
        }
        let kind = order.kind();
        match (order, &mut self.agent) {
            (Order::Open(open), None) => self.open(*open),
            (Order::Status, _) => self.report(&Report::State(Box::new(self.state()))),
            (Order::Read { stream, from }, Some(agent)) => agent.output(stream).relay.rewind(from),
            (Order::Ack { stream, offset }, Some(agent)) => agent.output(stream).relay.acknowledge(offset),
            (Order::Input { number, bytes }, Some(_)) => self.input(number, &bytes),
            (Order::CloseInput, Some(agent)) => {
                agent.inbox.finish();
                self.input_changed();
            }
            (Order::Stop(ladder), Some(_)) => self.stop(ladder, StopCause::Ordered),
            (Order::End { number, pid, start, grace_ms }, Some(_)) => self.end(number, pid, start, grace_ms),
            (Order::List { number }, Some(_)) => self.list(number),
            (Order::Resize(size), Some(_)) => self.resize(size),
            (Order::HangUp, Some(_)) => self.hang_up(),
            (Order::Release, _) => self.release(),
            _ => self.report(&refused(kind, RefusalCode::State, "not in this phase")),
        }
    }

    fn open(&mut self, open: Open) {
        match self.register_and_fork(&open) {
            Ok((leaf, forked)) => {
                let start = Stat::read(forked.pid).map(|stat| stat.start).unwrap_or_default();
                let appended = Identity::append_leader(&open.folder, forked.pid, start);
                self.agent = Some(Agent::new(open, leaf, forked, start));
                if appended.is_err() {
                    self.stop(Ladder::kill(std::time::Duration::from_secs(5)), StopCause::Ordered);
                }
            }
            Err((failure, text)) => self.open_failed(&open, failure, text),
        }
    }

    /// The folder, the identity and the socket are there before any process of the agent is.
    fn register_and_fork(&mut self, open: &Open) -> Result<(Option<Leaf>, spawn::Forked), (SetupFailure, String)> {
        let failed = |step, path: &Path| {
            let text = path.display().to_string();
            move |error: std::io::Error| {
                let errno = Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO));
                (SetupFailure { step, errno }, text)
            }
        };
        let making = Registration::begin(&open.folder).map_err(failed(SetupStep::Folder, &open.folder))?;
        self.doors.listener = Some(listen(making.path()).map_err(failed(SetupStep::Socket, &open.folder))?);
        let leaf = open.leaf_parent.as_deref().and_then(|parent| Leaf::make(parent, &leaf_name(&open.runtime)));
        let registered = identity(open, leaf.as_ref()).write(making.path()).and_then(|()| making.finish());
        let forked = registered
            .map_err(failed(SetupStep::Folder, &open.folder))
            .and_then(|()| spawn::spawn(open, leaf.as_ref()).map_err(|failure| (failure, String::new())));
        if let (Err(_), Some(leaf)) = (&forked, &leaf) {
            // Nobody joined it, so it is empty; only a vanished parent can hinder this.
            let _empty = leaf.remove();
        }
        forked.map(|forked| (leaf, forked))
    }

    pub(super) fn setup_progressed(&mut self) {
        let Some(agent) = &mut self.agent else { return };
        let Some(pipe) = &mut agent.progress else { return };
        match spawn::read_progress(pipe, agent.pid) {
            Progress::Pending => {}
            Progress::WithoutLeaf => {
                if let Some(leaf) = agent.leaf.take() {
                    // It is empty: its only member-to-be could not join. A failure leaves an empty directory,
                    // which the sweep of the next start removes.
                    let _empty = leaf.remove();
                }
                limits::without_leaf(&mut agent.limits);
            }
            Progress::LimitRefused(kind, errno) => agent.limit_refused(kind, errno),
            Progress::Died => {
                self.agent_not_started(SetupFailure { step: SetupStep::Exec, errno: Errno::EINTR });
            }
            Progress::Executed => {
                agent.progress = None;
                agent.leader = Leader::Running;
                let (pid, start, containment) = (agent.pid, agent.start, agent.containment());
                let limits = agent.limits.clone();
                self.report(&Report::Opened { pid, start, containment, limits });
                self.reap();
            }
            Progress::Failed(failure) => self.agent_not_started(failure),
        }
    }

    fn agent_not_started(&mut self, failure: SetupFailure) {
        let Some(agent) = self.agent.take() else { return };
        let text = match failure.step {
            SetupStep::Directory => agent.open.directory.display().to_string(),
            SetupStep::Exec => program::described(&agent.open, failure.errno),
            _ => String::new(),
        };
        // It has nothing left to do but to end, if it has not yet; a stopped one would not.
        tree::signal(agent.pid, agent.start, nix::sys::signal::Signal::SIGKILL);
        let _reaped = nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(agent.pid), None);
        let _empty = agent.leaf.as_ref().map(Leaf::remove);
        self.open_failed(&agent.open, failure, text);
    }

    fn open_failed(&mut self, open: &Open, failure: SetupFailure, text: String) {
        let exists_already = failure.step == SetupStep::Folder && failure.errno == Errno::EEXIST;
        if !exists_already {
            // Nothing in it is needed: no process of the agent was ever there.
            let _unused = folder::remove(&open.folder);
        }
        self.report(&Report::OpenFailed { step: failure.step, errno: failure.errno as i32, text });
        self.exit = Some(2);
    }

    fn input(&mut self, number: u64, bytes: &[u8]) {
        let Some(agent) = &mut self.agent else { return };
        match agent.inbox.accept(number, bytes) {
            Ok(()) => self.write_input(nix::poll::PollFlags::empty()),
            Err(code) => {
                let text = format!("message {number}");
                self.report(&refused(6, code, &text));
            }
        }
        self.input_changed();
    }

    fn list(&mut self, number: u64) {
        let own = std::process::id() as i32;
        let Ok(found) = tree::descendants(own) else {
            return self.report(&refused(10, RefusalCode::State, "the process table cannot be read now"));
        };
        let truncated = found.len() > MAX_LISTED;
        let processes: Vec<Process> =
            found.iter().take(MAX_LISTED).map(|(pid, stat)| tree::describe(*pid, stat)).collect();
        self.report(&Report::Listing { number, processes, truncated });
    }

    fn release(&mut self) {
        match &self.agent {
            Some(agent) if agent.emptiness.is_none() => {
                self.report(&refused(11, RefusalCode::State, "the tree is not empty"));
            }
            Some(agent) => {
                // A folder that cannot be removed has no living keeper and an empty tree; the next owner removes it.
                let _left_to_the_next = folder::remove(&agent.folder);
                self.exit = Some(0);
            }
            None => self.exit = Some(0),
        }
    }
}

impl Agent {
    fn limit_refused(&mut self, kind: LimitKind, errno: Errno) {
        for limit in self.limits.iter_mut().filter(|limit| limit.kind == kind) {
            (limit.standing, limit.errno) = (LimitStanding::Refused, errno as i32);
        }
    }

    fn output(&mut self, stream: Stream) -> &mut super::agent::Output {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }
}

fn leaf_name(runtime: &str) -> String {
    format!("ostler-{runtime}")
}

fn identity(open: &Open, leaf: Option<&Leaf>) -> Identity {
    let pid = std::process::id() as i32;
    Identity {
        runtime: open.runtime.clone(),
        owner: open.owner.clone(),
        secret: open.secret.clone(),
        keeper: (pid, Stat::read(pid).map(|stat| stat.start).unwrap_or_default()),
        leaf: leaf.map(|leaf| leaf.directory().to_owned()),
        leader: None,
    }
}

/// Listens by a relative name, since a path of a state folder may be longer than a socket's can be.
fn listen(folder: &Path) -> std::io::Result<UnixListener> {
    std::env::set_current_dir(folder)?;
    let listener = UnixListener::bind(SOCKET)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

impl Keeper {
    pub(super) fn input_changed(&mut self) {
        let Some(agent) = &mut self.agent else { return };
        if agent.inbox.is_finished() {
            agent.finish_input();
        }
        let state = agent.inbox.state();
        self.report(&Report::InputState(state));
    }

    pub(super) fn now_ms() -> u64 {
        clock::now().as_millis() as u64
    }
}
