//! Output bytes with offsets, kept until they are acknowledged. Pure: no descriptor, no clock.

use std::collections::VecDeque;

use crate::message::StreamState;

/// What a relay does when its retention is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenFull {
    /// It has no room: the reader stops reading, and the agent waits.
    Hold,
    /// It forgets the oldest bytes; a reader sees the gap in the offsets.
    DropOldest,
}

/// One stream's bytes between the agent and the owner.
#[derive(Debug)]
pub struct Relay {
    bytes: VecDeque<u8>,
    base: u64,
    sent: u64,
    ended: bool,
    end_sent: bool,
    retention: usize,
    when_full: WhenFull,
    flow: Flow,
}

/// Whether the owner has asked for the bytes. Nothing is sent before it said from where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    Held,
    Flowing,
}

/// How many bytes are read ahead of an owner who reads.
const AHEAD: usize = 256 * 1024;
/// Above this, a buffer that is mostly empty gives its memory back.
const KEEP_CAPACITY: usize = 16 * 1024;

impl Relay {
    /// An empty relay that keeps at most `retention` bytes.
    pub fn new(retention: usize, when_full: WhenFull) -> Self {
        Self {
            bytes: VecDeque::new(),
            base: 0,
            sent: 0,
            ended: false,
            end_sent: false,
            retention: retention.max(1),
            when_full,
            flow: Flow::Held,
        }
    }

    /// How many bytes may be read from the agent now. While the owner reads, the agent waits for him rather than fill
    /// the retention: what it has written when it is stopped has to be read before its verdict.
    pub fn room(&self) -> usize {
        match (self.when_full, self.flow) {
            (WhenFull::Hold, Flow::Held) => self.free(),
            (WhenFull::Hold, Flow::Flowing) => self.free().min(AHEAD.saturating_sub(self.unsent())),
            (WhenFull::DropOldest, _) => self.retention,
        }
    }

    fn free(&self) -> usize {
        self.retention.saturating_sub(self.bytes.len())
    }

    /// Takes bytes that were read.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        if self.when_full == WhenFull::DropOldest {
            let excess = self.bytes.len().saturating_sub(self.retention);
            self.forget(excess);
        }
    }

    /// The stream was read to its end.
    pub fn finish(&mut self) {
        self.ended = true;
    }

    /// Whether the stream was read to its end.
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// The offset after the newest byte.
    pub fn end(&self) -> u64 {
        self.base + self.bytes.len() as u64
    }

    /// Sends from this offset on; before the oldest byte kept means from there, beyond the newest means from its end.
    pub fn rewind(&mut self, from: u64) {
        self.sent = from.clamp(self.base, self.end());
        self.end_sent = false;
        self.flow = Flow::Flowing;
    }

    /// Sends nothing until the next [`Self::rewind`].
    pub fn hold(&mut self) {
        self.flow = Flow::Held;
    }

    /// Bytes before the offset are safe with the owner.
    pub fn acknowledge(&mut self, offset: u64) {
        let count = offset.min(self.sent).saturating_sub(self.base);
        self.forget(count as usize);
    }

    /// How many bytes wait to be sent.
    pub fn unsent(&self) -> usize {
        match self.flow {
            Flow::Held => 0,
            Flow::Flowing => (self.end() - self.sent) as usize,
        }
    }

    /// The next at most `limit` unsent bytes with their offset; they count as sent.
    pub fn take(&mut self, limit: usize) -> Option<(u64, Vec<u8>)> {
        let count = self.unsent().min(limit);
        if count == 0 {
            return None;
        }
        let (offset, start) = (self.sent, (self.sent - self.base) as usize);
        self.sent += count as u64;
        Some((offset, self.copy(start, count)))
    }

    /// The stream's length, once, when it has ended and everything was sent.
    pub fn take_end(&mut self) -> Option<u64> {
        let due = self.flow == Flow::Flowing && self.ended && !self.end_sent && self.unsent() == 0;
        self.end_sent |= due;
        due.then(|| self.end())
    }

    /// Everything kept, in two runs, for the last word.
    pub fn kept(&self) -> (&[u8], &[u8]) {
        self.bytes.as_slices()
    }

    /// The summary for a state report.
    pub fn state(&self) -> StreamState {
        StreamState { base: self.base, end: self.end(), ended: self.ended }
    }

    fn copy(&self, start: usize, count: usize) -> Vec<u8> {
        let (front, back) = self.bytes.as_slices();
        let mut out = Vec::with_capacity(count);
        let in_front = front.len().saturating_sub(start).min(count);
        out.extend_from_slice(&front[start.min(front.len())..][..in_front]);
        let back_start = start.saturating_sub(front.len());
        out.extend_from_slice(&back[back_start..][..count - in_front]);
        out
    }

    fn forget(&mut self, count: usize) {
        self.bytes.drain(..count);
        self.base += count as u64;
        self.sent = self.sent.max(self.base);
        let (length, capacity) = (self.bytes.len(), self.bytes.capacity());
        if capacity > KEEP_CAPACITY && capacity / 4 > length {
            self.bytes.shrink_to(2 * length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flowing(retention: usize, when_full: WhenFull) -> Relay {
        let mut relay = Relay::new(retention, when_full);
        relay.rewind(0);
        relay
    }

    #[test]
    fn nothing_is_sent_before_it_is_asked_for() {
        let mut relay = Relay::new(10, WhenFull::Hold);
        relay.push(b"abc");
        relay.finish();
        assert_eq!((relay.take(9), relay.take_end()), (None, None));
        relay.rewind(1);
        assert_eq!(relay.take(9), Some((1, b"bc".to_vec())));
        relay.hold();
        assert_eq!(relay.take_end(), None);
    }

    #[test]
    fn output_is_kept_until_acknowledged_and_can_be_read_again() {
        let mut relay = flowing(10, WhenFull::Hold);
        relay.push(b"abcdef");
        assert_eq!(relay.take(4), Some((0, b"abcd".to_vec())));
        relay.acknowledge(2);
        relay.rewind(0);
        assert_eq!(relay.take(100), Some((2, b"cdef".to_vec())));
        assert_eq!(relay.state(), StreamState { base: 2, end: 6, ended: false });
    }

    #[test]
    fn an_acknowledgement_of_what_was_never_sent_forgets_nothing() {
        let mut relay = flowing(10, WhenFull::Hold);
        relay.push(b"abc");
        relay.acknowledge(3);
        assert_eq!(relay.take(10), Some((0, b"abc".to_vec())));
    }

    #[test]
    fn a_full_relay_holds_or_drops() {
        let mut hold = flowing(3, WhenFull::Hold);
        hold.push(b"abc");
        assert_eq!(hold.room(), 0);
        let mut drop = flowing(3, WhenFull::DropOldest);
        drop.push(b"abcdef");
        assert_eq!((drop.room(), drop.take(9)), (3, Some((3, b"def".to_vec()))));
    }

    #[test]
    fn little_is_read_ahead_of_an_owner_and_all_that_fits_without_one() {
        let mut relay = flowing(1 << 20, WhenFull::Hold);
        relay.push(&[b'x'; AHEAD]);
        assert_eq!(relay.room(), 0);
        assert!(relay.take(1000).is_some());
        assert_eq!(relay.room(), 1000);
        relay.hold();
        assert_eq!(relay.room(), (1 << 20) - AHEAD);
        relay.push(&[b'x'; AHEAD]);
        relay.rewind(0);
        assert_eq!(relay.room(), 0);
    }

    #[test]
    fn the_end_is_told_once_and_again_after_a_rewind() {
        let mut relay = flowing(9, WhenFull::Hold);
        relay.push(b"x");
        relay.finish();
        assert_eq!(relay.take_end(), None);
        relay.take(9);
        assert_eq!((relay.take_end(), relay.take_end()), (Some(1), None));
        relay.rewind(1);
        assert_eq!(relay.take_end(), Some(1));
    }

    #[test]
    fn copies_across_the_ring_s_seam() {
        let mut relay = flowing(1 << 20, WhenFull::Hold);
        let mut expected = Vec::new();
        for round in 0..200u32 {
            let bytes: Vec<u8> = (0..97u32).map(|i| (i * 7 + round) as u8).collect();
            expected.extend_from_slice(&bytes);
            relay.push(&bytes);
            let (offset, got) = relay.take(61).expect("unsent bytes");
            assert_eq!(got, expected[offset as usize..][..got.len()]);
            relay.acknowledge(offset + 30);
        }
    }
}
