//! Bytes: from the agent's pipes to the owner, and from the owner's messages to the agent.

use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

use nix::poll::PollFlags;

use super::agent::{Agent, COALESCE, Output, SLOW_PASS};
use super::{Keeper, Watch};
use crate::clock;
use crate::message::{Report, Stream};

/// How much is read, and sent, at once.
const PIECE: usize = 32 * 1024;
/// How much of a drained pipe is read: more than any pipe holds means that somebody outside the tree fills it.
const MAX_DRAIN_PIECES: usize = 128;
/// How much is written to the agent before others get their turn.
const WRITE_TURN: usize = 1024 * 1024;

impl Keeper {
    pub(super) fn read_output(&mut self, watch: Watch) {
        let Some(agent) = &mut self.agent else { return };
        let output = if watch == Watch::Stdout { &mut agent.stdout } else { &mut agent.stderr };
        read_piece(output, Limit::Retention);
        if agent.gather_until.is_none_or(|until| until <= clock::now()) {
            agent.gather_until = Some(clock::now() + COALESCE);
        }
    }

    /// Sends what was gathered once the gathering is over; takes in first what arrived meanwhile.
    pub(super) fn flush_output(&mut self, now: Duration) {
        let Some(agent) = &mut self.agent else { return };
        let gathering = agent.gather_until.is_some_and(|until| until > now);
        if gathering && agent.stdout.relay.unsent() < PIECE {
            return;
        }
        if agent.gather_until.take().is_some() {
            read_piece(&mut agent.stdout, Limit::Retention);
            read_piece(&mut agent.stderr, Limit::Retention);
        }
        if let Some(owner) = &mut self.doors.owner {
            // Until the socket is full, which `poll` tells the end of, or nothing is left. A peer that is gone is
            // seen by the next poll.
            while send_outputs(agent, owner) && owner.send() && !owner.wants_to_write() {}
        }
    }

    pub(super) fn write_input(&mut self, flags: PollFlags) {
        let Some(agent) = &mut self.agent else { return };
        let pending = agent.inbox.state().pending;
        if flags.contains(PollFlags::POLLERR) {
            // The agent closed its end: nothing will ever be read again.
            agent.stdin = None;
            agent.inbox.close();
        }
        agent.write_turn();
        let now = agent.inbox.state();
        if (pending > 0 && now.pending == 0) || now.closed || agent.inbox.is_finished() {
            self.input_changed();
        }
    }
}

/// Whether a read respects the retention. It does while the agent lives, since an agent can fill any memory; what an
/// ended one left in its pipe is bounded by the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    Retention,
    Pipe,
}

fn read_piece(output: &mut Output, limit: Limit) {
    let Some(pipe) = &mut output.pipe else { return };
    let room = if limit == Limit::Pipe { PIECE } else { output.relay.room().min(PIECE) };
    if room == 0 {
        return;
    }
    let mut piece = [0; PIECE];
    match pipe.read(&mut piece[..room]) {
        Ok(0) => {
            output.pipe = None;
            output.relay.finish();
        }
        Ok(count) => output.relay.push(&piece[..count]),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
        // As long as somebody lives who may open the terminal again, this is not its end.
        Err(error) if is_unheld(&error) && limit == Limit::Retention => {
            output.idle_until = Some(clock::now() + SLOW_PASS)
        }
        Err(_) => {
            output.pipe = None;
            output.relay.finish();
        }
    }
}

/// What a terminal's master says while nobody has the terminal open; a pipe never does.
fn is_unheld(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(nix::libc::EIO)
}

/// Fills the owner's buffer; `false` when there was nothing to add.
fn send_outputs(agent: &mut Agent, owner: &mut crate::owner::Connection) -> bool {
    let mut added = owner.wants_to_write();
    for (stream, output) in [(Stream::Stdout, &mut agent.stdout), (Stream::Stderr, &mut agent.stderr)] {
        while owner.has_room() {
            let Some((offset, bytes)) = output.relay.take(PIECE) else { break };
            owner.report(&Report::Output { stream, offset, bytes });
            added = true;
        }
        if let Some(offset) = output.relay.take_end() {
            owner.report(&Report::OutputEnd { stream, offset });
            added = true;
        }
    }
    added
}

impl Agent {
    /// Writes at most one turn.
    fn write_turn(&mut self) {
        let Some(pipe) = &mut self.stdin else { return };
        let mut left = WRITE_TURN;
        while !self.inbox.front().is_empty() && left > 0 {
            let piece = &self.inbox.front()[..self.inbox.front().len().min(left)];
            match pipe.write(piece) {
                Ok(count) => {
                    if let Some(terminal) = &mut self.terminal {
                        terminal.typed.add(&piece[..count]);
                    }
                    self.inbox.wrote(count);
                    left -= count;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return self.not_written(&error),
            }
        }
    }

    pub(super) fn not_written(&mut self, error: &std::io::Error) {
        if self.terminal.is_some() && is_unheld(error) {
            self.stdout.idle_until = Some(clock::now() + SLOW_PASS);
        } else if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) {
            self.stdin = None;
            self.inbox.close();
        }
    }

    /// Reads what the pipes still hold. `true` once both are at their end.
    pub(super) fn drain(&mut self) -> bool {
        for output in [&mut self.stdout, &mut self.stderr] {
            for _ in 0..MAX_DRAIN_PIECES {
                let before = output.relay.end();
                read_piece(output, Limit::Pipe);
                if output.relay.end() == before {
                    break;
                }
            }
        }
        self.stdout.pipe.is_none() && self.stderr.pipe.is_none()
    }

    /// Gives up on pipes that somebody outside the tree holds.
    pub(super) fn close_outputs(&mut self) {
        for output in [&mut self.stdout, &mut self.stderr] {
            if output.pipe.take().is_some() {
                output.relay.finish();
            }
        }
    }
}
