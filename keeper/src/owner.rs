//! The owner's connection: frames in, frames out, nothing blocks.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::getuid;

use crate::message::{Order, Report};
use crate::wire::{self, WireError};

/// A frame of the largest size is read in pieces of this one.
const READ_SIZE: usize = 32 * 1024;
/// Above this, an emptied buffer gives its memory back.
const KEEP_CAPACITY: usize = 128 * 1024;
/// The most bytes of reports that may wait for a peer who goes on asking.
const MAX_OWED: usize = 1024 * 1024;

/// One connection to an owner, or to somebody who has yet to show that he is one.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: UnixStream,
    received: Vec<u8>,
    outgoing: Vec<u8>,
    written: usize,
}

/// One frame of an owner.
#[derive(Debug)]
pub(crate) enum Incoming {
    Order(Order),
    /// A frame of a kind or with a value that this version does not know.
    Bad(u16, WireError),
}

impl Connection {
    pub(crate) fn new(fd: OwnedFd) -> io::Result<Self> {
        let stream = UnixStream::from(fd);
        stream.set_nonblocking(true)?;
        Ok(Self { stream, received: Vec::new(), outgoing: Vec::new(), written: 0 })
    }

    /// Whether the peer runs as the user of this keeper.
    pub(crate) fn is_own_user(&self) -> bool {
        getsockopt(&self.stream, PeerCredentials).is_ok_and(|peer| peer.uid() == getuid().as_raw())
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Reads what is there, at most one piece. `false` at the end of the connection.
    pub(crate) fn receive(&mut self) -> bool {
        let mut piece = [0; READ_SIZE];
        // A reset is told once, and what had arrived before it can still be read.
        let read = match self.stream.read(&mut piece) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => self.stream.read(&mut piece),
            other => other,
        };
        match read {
            Ok(0) => false,
            Ok(count) => {
                self.received.extend_from_slice(&piece[..count]);
                true
            }
            Err(error) => matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
        }
    }

    /// How many bytes wait for the rest of their frame.
    pub(crate) fn buffered(&self) -> usize {
        self.received.len()
    }

    /// Whether the peer asks faster than it listens: then it is not read until it has.
    pub(crate) fn is_overdue(&self) -> bool {
        self.outgoing.len() - self.written > MAX_OWED
    }

    /// The whole frames received so far, and whether what follows can be understood at all.
    pub(crate) fn frames(&mut self) -> (Vec<Incoming>, bool) {
        let (mut frames, mut used) = (Vec::new(), 0);
        let understood = loop {
            let frame = match wire::cut(&self.received[used..]) {
                Ok(Some(frame)) => frame,
                Ok(None) => break true,
                Err(_) => break false,
            };
            used += frame.size;
            frames.push(match Order::decode(&frame) {
                Ok(order) => Incoming::Order(order),
                Err(error) => Incoming::Bad(frame.kind, error),
            });
        };
        self.received.drain(..used);
        if self.received.is_empty() && self.received.capacity() > KEEP_CAPACITY {
            self.received = Vec::new();
        }
        (frames, understood)
    }

    pub(crate) fn report(&mut self, report: &Report) {
        self.outgoing.extend_from_slice(&report.encode());
    }

    /// Whether the outgoing buffer is small enough for more output.
    pub(crate) fn has_room(&self) -> bool {
        self.outgoing.len() - self.written < READ_SIZE
    }

    pub(crate) fn wants_to_write(&self) -> bool {
        self.written < self.outgoing.len()
    }

    /// Writes what fits. `false` when the peer is gone.
    pub(crate) fn send(&mut self) -> bool {
        while self.wants_to_write() {
            match self.stream.write(&self.outgoing[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(_) => return false,
            }
        }
        self.written = 0;
        self.outgoing.clear();
        if self.outgoing.capacity() > 2 * KEEP_CAPACITY {
            self.outgoing = Vec::new();
        }
        true
    }
}
