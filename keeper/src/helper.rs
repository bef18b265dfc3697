//! A helper command (one that says a version, or probes) and everything it starts.
//!
//! ```text
//! ostler-keeper helper PROGRAM ARGUMENT…
//! ```
//!
//! The command writes to this program's own output. This program's standard input is its owner: at its end nobody waits
//! any more. When the command has ended, or its owner has gone, whatever is left of it is killed, and only then does this
//! program exit: with the command's code, 128 and the signal's number, 126 if it could not be started, or 125 if it was
//! ended for its owner.

use std::ffi::OsString;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::sys::signalfd::SignalFd;

use crate::message::Exit;
use crate::wait::{self, Waited};
use crate::{clock, setup, spawn, tree};

const NOT_STARTED: u8 = 126;
const OWNER_GONE: u8 = 125;
/// How long what was killed may take to be gone.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is looked for again meanwhile.
const PASS: u8 = 5;

/// Runs one helper command to its end, and ends what it leaves. Changes the process for good, so it must be the whole
/// program.
pub fn main(command: impl IntoIterator<Item = OsString>) -> ExitCode {
    let events = setup::detach().and_then(|()| setup::child_events());
    let (Ok(events), Some(leader)) = (events, start(command)) else { return ExitCode::from(NOT_STARTED) };
    let code = match watch(leader, &events) {
        Some(Exit::Code(code)) => code as u8,
        Some(Exit::Signal { signal, .. }) => 128u8.saturating_add(signal as u8),
        None => OWNER_GONE,
    };
    end_all(&events);
    ExitCode::from(code)
}

fn start(command: impl IntoIterator<Item = OsString>) -> Option<i32> {
    let mut words = command.into_iter();
    let mut command = Command::new(words.next()?);
    command.args(words).stdin(Stdio::null());
    // SAFETY: between fork and exec only system calls are made, and this process has one thread.
    unsafe {
        command.pre_exec(|| {
            prctl::set_pdeathsig(Signal::SIGKILL)?;
            prctl::set_dumpable(true)?;
            Ok(spawn::reset_signals()?)
        });
    }
    command.spawn().ok().map(|child| child.id() as i32)
}

/// How the command ended; `None` if its owner went first.
fn watch(leader: i32, events: &SignalFd) -> Option<Exit> {
    let mut owner = std::io::stdin();
    loop {
        wait::reap_others(leader);
        match wait::look(leader) {
            Waited::Ended(exit) => return Some(exit),
            Waited::Unknown => return Some(Exit::Signal { signal: 0, core: false }),
            Waited::Alive => {}
        }
        let owner_moved = rest(events, &owner, PollTimeout::NONE);
        // Nothing is said to a helper: whatever comes is read away, and the end is the owner's.
        if owner_moved && matches!(owner.read(&mut [0; 64]), Ok(0) | Err(_)) {
            return None;
        }
    }
}

/// Until a child changed; `true` if the owner's end did.
fn rest(events: &SignalFd, owner: &impl AsFd, timeout: PollTimeout) -> bool {
    let mut fds = [PollFd::new(events.as_fd(), PollFlags::POLLIN), PollFd::new(owner.as_fd(), PollFlags::POLLIN)];
    // An interrupted wait is followed by another look, as every wait is.
    let _looked_at_again = poll(&mut fds, timeout);
    let moved = fds[1].revents().is_some_and(|flags| !flags.is_empty());
    while let Ok(Some(_)) = events.read_signal() {}
    moved
}

fn end_all(events: &SignalFd) {
    let until = clock::now() + PATIENCE;
    wait::reap_all();
    while wait::has_children() && clock::now() < until {
        for (pid, stat) in tree::descendants(std::process::id() as i32).unwrap_or_default() {
            tree::kill_group(stat.pgid);
            tree::signal(pid, stat.start, Signal::SIGKILL);
        }
        rest(events, events, PollTimeout::from(PASS));
        wait::reap_all();
    }
}
