//! Whole numbered input messages, each taken exactly once. Pure: no descriptor, no clock.

use std::collections::VecDeque;

use crate::message::{InputState, RefusalCode};

/// Messages between the owner and the agent's standard input.
#[derive(Debug)]
pub struct Inbox {
    pending: VecDeque<u8>,
    accepted: u64,
    written: u64,
    capacity: usize,
    end: End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Open,
    AfterPending,
    Closed,
}

impl Inbox {
    /// An empty inbox for at most `capacity` unwritten bytes.
    pub fn new(capacity: usize) -> Self {
        Self { pending: VecDeque::new(), accepted: 0, written: 0, capacity, end: End::Open }
    }

    /// Takes a message whole, or says why not. A number already accepted changes nothing and is no error.
    ///
    /// A message larger than the capacity is taken when nothing else waits, so that no message is refused for ever.
    ///
    /// # Errors
    ///
    /// [`RefusalCode::Gap`], [`RefusalCode::Full`] or [`RefusalCode::Closed`].
    pub fn accept(&mut self, number: u64, bytes: &[u8]) -> Result<(), RefusalCode> {
        if number <= self.accepted {
            return Ok(());
        }
        if self.end != End::Open {
            return Err(RefusalCode::Closed);
        }
        if number != self.accepted + 1 {
            return Err(RefusalCode::Gap);
        }
        if !self.pending.is_empty() && self.pending.len() + bytes.len() > self.capacity {
            return Err(RefusalCode::Full);
        }
        self.pending.extend(bytes);
        self.accepted = number;
        Ok(())
    }

    /// Asks for the end of input after what is pending.
    pub fn finish(&mut self) {
        if self.end == End::Open {
            self.end = End::AfterPending;
        }
    }

    /// The pipe is closed, by the ladder or by the agent: what is pending is dropped.
    pub fn close(&mut self) {
        self.pending = VecDeque::new();
        self.end = End::Closed;
    }

    /// Whether the pipe is to be closed now.
    pub fn is_finished(&self) -> bool {
        self.end == End::AfterPending && self.pending.is_empty()
    }

    /// The next bytes to write; empty when there are none.
    pub fn front(&self) -> &[u8] {
        self.pending.as_slices().0
    }

    /// This many of them were written.
    pub fn wrote(&mut self, count: usize) {
        self.pending.drain(..count);
        self.written += count as u64;
        if self.pending.is_empty() {
            self.pending = VecDeque::new();
        }
    }

    /// The summary for a report.
    pub fn state(&self) -> InputState {
        InputState {
            accepted: self.accepted,
            written: self.written,
            pending: self.pending.len() as u64,
            closed: self.end == End::Closed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_taken_once_and_gaps_are_refused() {
        let mut inbox = Inbox::new(10);
        assert_eq!(inbox.accept(2, b"b"), Err(RefusalCode::Gap));
        assert_eq!(inbox.accept(1, b"a"), Ok(()));
        assert_eq!(inbox.accept(1, b"again"), Ok(()));
        assert_eq!(inbox.front(), b"a");
    }

    #[test]
    fn a_message_that_does_not_fit_is_refused_whole_until_there_is_room() {
        let mut inbox = Inbox::new(4);
        assert_eq!(inbox.accept(1, b"longer than all"), Ok(()));
        assert_eq!(inbox.accept(2, b"x"), Err(RefusalCode::Full));
        inbox.wrote(15);
        assert_eq!(inbox.accept(2, b"x"), Ok(()));
        assert_eq!(inbox.state(), InputState { accepted: 2, written: 15, pending: 1, closed: false });
    }

    #[test]
    fn the_end_waits_for_what_is_pending() {
        let mut inbox = Inbox::new(4);
        inbox.accept(1, b"ab").expect("fits");
        inbox.finish();
        assert_eq!((inbox.is_finished(), inbox.accept(2, b"c")), (false, Err(RefusalCode::Closed)));
        inbox.wrote(2);
        assert!(inbox.is_finished());
    }
}
