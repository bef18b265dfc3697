//! Who may speak to the keeper: the owner, the listener, and strangers who have yet to show the secret.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::time::Duration;

use nix::poll::PollFlags;

use super::{Keeper, Watch};
use crate::clock;
use crate::message::{Auth, Order, RefusalCode, Report};
use crate::owner::{Connection, Incoming};

/// How long to wait after a connection could not be taken.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);
/// How long a connection may take to show the secret.
const STRANGER_PATIENCE: Duration = Duration::from_secs(5);
/// How many may try at once; a further one takes the place of whoever has said nothing for the longest.
const MAX_STRANGERS: usize = 16;
/// The most bytes of somebody who has not shown the secret.
const STRANGER_BYTES: usize = 4096;
/// How long the last reports may take to leave.
const LAST_FLUSH: Duration = Duration::from_millis(200);

pub(super) struct Doors {
    pub(super) owner: Option<Connection>,
    /// Whether the owner on descriptor 0 has said hello.
    pub(super) greeted: bool,
    pub(super) listener: Option<UnixListener>,
    /// Until when the listener is not watched: there was no descriptor for who knocked.
    deaf_until: Option<Duration>,
    strangers: Vec<(Connection, Duration)>,
}

impl Doors {
    pub(super) fn new(owner: Connection) -> Self {
        Self { owner: Some(owner), greeted: false, listener: None, deaf_until: None, strangers: Vec::new() }
    }

    pub(super) fn watch<'a>(&'a self, watched: &mut Vec<(Watch, BorrowedFd<'a>, PollFlags)>) {
        if let Some(owner) = &self.owner {
            let write = if owner.wants_to_write() { PollFlags::POLLOUT } else { PollFlags::empty() };
            let read = if owner.is_overdue() { PollFlags::empty() } else { PollFlags::POLLIN };
            watched.push((Watch::Owner, owner.fd(), read | write));
        }
        if let Some(listener) = self.listener.as_ref().filter(|_| self.deaf_until.is_none()) {
            watched.push((Watch::Listener, listener.as_fd(), PollFlags::POLLIN));
        }
        for (index, (stranger, _)) in self.strangers.iter().enumerate() {
            watched.push((Watch::Stranger(index), stranger.fd(), PollFlags::POLLIN));
        }
    }

    fn is_full(&self) -> bool {
        self.strangers.len() == MAX_STRANGERS
    }

    fn accept(&mut self) {
        let Some(accepted) = self.listener.as_ref().map(UnixListener::accept) else { return };
        let Ok((stream, _)) = accepted else {
            self.deaf_until = Some(clock::now() + ACCEPT_PAUSE);
            return;
        };
        let Ok(connection) = Connection::new(OwnedFd::from(stream)) else { return };
        if connection.is_own_user() {
            if self.is_full() {
                self.strangers.remove(0);
            }
            self.strangers.push((connection, clock::now() + STRANGER_PATIENCE));
        }
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        self.strangers.iter().map(|(_, until)| *until).chain(self.deaf_until).min()
    }

    pub(super) fn drop_slow_strangers(&mut self, now: Duration) {
        self.strangers.retain(|(_, until)| *until > now);
        self.deaf_until = self.deaf_until.filter(|until| *until > now);
    }

    pub(super) fn flush_before_exit(&mut self) {
        let until = clock::now() + LAST_FLUSH;
        let Some(owner) = &mut self.owner else { return };
        while owner.send() && owner.wants_to_write() {
            let left = until.saturating_sub(clock::now());
            let mut fds = [nix::poll::PollFd::new(owner.fd(), PollFlags::POLLOUT)];
            if left.is_zero() || nix::poll::ppoll(&mut fds, Some(left.into()), None).is_err() {
                return;
            }
        }
    }
}

impl Keeper {
    pub(super) fn owner_ready(&mut self, flags: PollFlags) {
        let Some(owner) = &mut self.doors.owner else { return };
        let writable = !flags.contains(PollFlags::POLLOUT) || owner.send();
        let readable = flags.intersects(PollFlags::POLLIN | PollFlags::POLLHUP | PollFlags::POLLERR);
        if readable || !writable {
            self.hear_owner(writable);
        }
    }

    /// Obeys what has arrived. Whole orders count even if their sender is gone by now: then all of them are read.
    fn hear_owner(&mut self, writable: bool) {
        loop {
            let Some(owner) = &mut self.doors.owner else { return };
            let open = owner.receive();
            let (frames, understood) = owner.frames();
            let quiet = frames.is_empty();
            frames.into_iter().for_each(|frame| self.incoming(frame));
            if !open || !understood || (!writable && quiet) {
                return self.owner_gone();
            }
            if writable {
                return;
            }
        }
    }

    fn incoming(&mut self, frame: Incoming) {
        match frame {
            Incoming::Order(Order::Hello(auth)) => self.greet(auth),
            _ if !self.doors.greeted => self.owner_gone(),
            Incoming::Order(order) => self.obey(order),
            Incoming::Bad(kind, error) => {
                let code = match error {
                    crate::wire::WireError::Kind(_) => RefusalCode::Unsupported,
                    _ => RefusalCode::Malformed,
                };
                self.report(&Report::Refused { kind, code, text: error.to_string() });
            }
        }
    }

    fn greet(&mut self, auth: Auth) {
        match welcome(auth, 1) {
            Ok(report) => {
                self.doors.greeted = true;
                self.report(&report);
            }
            Err(report) => {
                self.report(&report);
                self.owner_gone();
            }
        }
    }

    /// The connection is lost; the tree is not.
    fn owner_gone(&mut self) {
        if let Some(owner) = &mut self.doors.owner {
            let _peer_gone = owner.send();
        }
        self.doors.owner = None;
        self.orphaned_at = Some(clock::now());
    }

    /// Silent ones can keep nobody out: the first of them makes room, if it has not shown the secret by now.
    pub(super) fn knocked(&mut self) {
        if self.doors.is_full() {
            self.stranger_ready(0);
        }
        self.doors.accept();
    }

    pub(super) fn stranger_ready(&mut self, index: usize) {
        if index >= self.doors.strangers.len() {
            return;
        }
        let (connection, _) = &mut self.doors.strangers[index];
        let open = connection.receive() && connection.buffered() <= STRANGER_BYTES;
        let (frames, understood) = connection.frames();
        let mut frames = frames.into_iter();
        match frames.next() {
            Some(Incoming::Order(Order::Attach { auth, secret })) => {
                let (connection, _) = self.doors.strangers.remove(index);
                if self.attach(connection, auth, &secret) {
                    frames.for_each(|frame| self.incoming(frame));
                }
            }
            None if open && understood => {}
            _ => drop(self.doors.strangers.remove(index)),
        }
    }

    /// Makes a stranger the owner, if he shows the secret. `true` if he did.
    fn attach(&mut self, mut connection: Connection, auth: Auth, secret: &[u8]) -> bool {
        let known = self.agent.as_ref().is_some_and(|agent| same(&agent.open.secret, secret));
        let answer = match welcome(auth, 2) {
            Ok(answer) if known => answer,
            Ok(_) => refused(2, RefusalCode::Denied, "the secret is not that of this runtime"),
            Err(answer) => answer,
        };
        connection.report(&answer);
        if !matches!(answer, Report::Welcome { .. }) {
            let _stranger_gone = connection.send();
            return false;
        }
        self.report(&Report::Superseded);
        self.owner_gone();
        self.doors.owner = Some(connection);
        self.doors.greeted = true;
        self.orphaned_at = None;
        if let Some(agent) = &mut self.agent {
            agent.stdout.relay.hold();
            agent.stderr.relay.hold();
        }
        self.report(&Report::State(Box::new(self.state())));
        true
    }
}

fn welcome(auth: Auth, kind: u16) -> Result<Report, Report> {
    if (auth.oldest..=auth.newest).contains(&crate::VERSION) {
        return Ok(Report::Welcome { version: crate::VERSION, pid: std::process::id() as i32 });
    }
    let text = format!("this keeper speaks version {}", crate::VERSION);
    Err(refused(kind, RefusalCode::Unsupported, &text))
}

pub(super) fn refused(kind: u16, code: RefusalCode, text: &str) -> Report {
    Report::Refused { kind, code, text: text.to_owned() }
}

/// Compares without telling by its duration where the first difference is.
fn same(known: &[u8], shown: &[u8]) -> bool {
    known.len() == shown.len() && known.iter().zip(shown).fold(0, |diff, (a, b)| diff | (a ^ b)) == 0
}
