//! Lines cut from an agent's output: bounded, lossless for what is whole, and honest about what is not.
//!
//! Bytes are cut at line ends first and decoded afterwards, so a character that arrives in pieces is one character. An
//! over-long line, one that is not UTF-8 and one cut by the end of the output are reported as what they are. Their
//! memory is bounded by the cap, and that of all framers together by one budget.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use memchr::memchr;

use crate::adapter::Frame;

/// Bytes of lines under assembly, over all framers that share it.
#[derive(Debug)]
pub struct Budget {
    left: AtomicUsize,
}

impl Budget {
    /// A budget of this many bytes.
    pub fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self { left: AtomicUsize::new(bytes) })
    }

    fn take(&self, bytes: usize) -> bool {
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }

    fn give(&self, bytes: usize) {
        self.left.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Cuts one stream into lines.
#[derive(Debug)]
pub struct Framer {
    cap: usize,
    budget: Arc<Budget>,
    partial: Vec<u8>,
    /// The offset after the last byte taken.
    offset: u64,
    /// How much of an over-long line was dropped so far; 0 when none is being dropped.
    dropped: u64,
    discarding: bool,
}

impl Framer {
    /// A framer that starts at this offset; inside an over-long line if it is discarding.
    pub fn new(cap: usize, budget: Arc<Budget>, offset: u64, discarding: bool) -> Self {
        Self { cap, budget, partial: Vec::new(), offset, dropped: 0, discarding }
    }

    /// The offset a later framer would have to start at to see what this one has not yet given out, and whether that
    /// place lies in an over-long line.
    pub fn committed(&self) -> (u64, bool) {
        (self.offset - self.partial.len() as u64, self.discarding)
    }

    /// The offset after the last byte taken.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Takes bytes, and gives out each frame that ended in them.
    pub fn push(&mut self, mut bytes: &[u8], mut out: impl FnMut(Frame<'_>)) {
        self.offset += bytes.len() as u64;
        while let Some(end) = memchr(b'\n', bytes) {
            let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
            self.line(line, &mut out);
            bytes = rest;
        }
        self.keep(bytes);
    }

    /// The stream is at its end: what is left is an incomplete line.
    pub fn finish(&mut self, mut out: impl FnMut(Frame<'_>)) {
        if self.discarding {
            out(Frame::TooLong { bytes: self.dropped });
        } else if !self.partial.is_empty() {
            match std::str::from_utf8(&self.partial) {
                Ok(text) => out(Frame::Incomplete { text }),
                Err(_) => out(Frame::InvalidUtf8 { bytes: self.partial.len() as u64 }),
            }
        }
        self.forget();
    }

    fn line(&mut self, line: &[u8], out: &mut impl FnMut(Frame<'_>)) {
        if self.discarding || self.partial.len() + line.len() > self.cap {
            out(Frame::TooLong { bytes: self.dropped + (self.partial.len() + line.len()) as u64 });
        } else if self.partial.is_empty() {
            out(decoded(line));
        } else {
            let mut whole = std::mem::take(&mut self.partial);
            self.budget.give(whole.len());
            whole.extend_from_slice(line);
            out(decoded(&whole));
        }
        self.forget();
    }

    fn keep(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let fits = !self.discarding && self.partial.len() + bytes.len() <= self.cap && self.budget.take(bytes.len());
        if fits {
            self.partial.extend_from_slice(bytes);
        } else {
            self.dropped += (self.partial.len() + bytes.len()) as u64;
            self.budget.give(self.partial.len());
            self.partial = Vec::new();
            self.discarding = true;
        }
    }

    fn forget(&mut self) {
        self.budget.give(self.partial.len());
        self.partial = Vec::new();
        (self.dropped, self.discarding) = (0, false);
    }
}

impl Drop for Framer {
    fn drop(&mut self) {
        self.budget.give(self.partial.len());
    }
}

fn decoded(line: &[u8]) -> Frame<'_> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    match std::str::from_utf8(line) {
        Ok(text) => Frame::Line(text),
        Err(_) => Frame::InvalidUtf8 { bytes: line.len() as u64 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(framer: &mut Framer, bytes: &[u8], piece: usize) -> Vec<String> {
        let mut found = Vec::new();
        for bytes in bytes.chunks(piece) {
            framer.push(bytes, |frame| found.push(format!("{frame:?}")));
        }
        framer.finish(|frame| found.push(format!("{frame:?}")));
        found
    }

    const INPUT: &[u8] = "plain\n\u{1F600} é\n\n0123456789012345678901234\nbad \n\r\nhalf".as_bytes();

    #[test]
    fn every_cut_gives_the_same_frames() {
        let mut input = INPUT.to_vec();
        let bad = input.windows(4).position(|w| w == b"bad ").expect("there") + 3;
        input[bad] = 0xff;
        let expected = [
            "Line(\"plain\")",
            "Line(\"\u{1F600} é\")",
            "Line(\"\")",
            "TooLong { bytes: 25 }",
            "InvalidUtf8 { bytes: 4 }",
            "Line(\"\")",
            "Incomplete { text: \"half\" }",
        ];
        for piece in 1..=input.len() {
            let budget = Budget::new(1000);
            let mut framer = Framer::new(20, budget.clone(), 0, false);
            assert_eq!(frames(&mut framer, &input, piece), expected, "pieces of {piece}");
            assert_eq!(budget.left.load(Ordering::Relaxed), 1000, "pieces of {piece}");
        }
    }

    #[test]
    fn every_two_cuts_give_the_same_frames_whatever_they_split() {
        let input = "\u{1F600}\u{e9}\n{\"text\":\"\u{20ac}\u{10FFFF}\"}\r\n\u{1F600}\u{1F600}\u{1F600}\u{1F600}\u{1F600}x\n\u{20ac}".as_bytes();
        let given = |pieces: [&[u8]; 3]| {
            let mut framer = Framer::new(20, Budget::new(1000), 0, false);
            let mut found = Vec::new();
            pieces.iter().for_each(|piece| framer.push(piece, |frame| found.push(format!("{frame:?}"))));
            framer.finish(|frame| found.push(format!("{frame:?}")));
            found
        };
        let expected = [
            "Line(\"\u{1F600}\u{e9}\")".to_owned(),
            format!("Line({:?})", "{\"text\":\"\u{20ac}\u{10FFFF}\"}"),
            "TooLong { bytes: 21 }".to_owned(),
            "Incomplete { text: \"\u{20ac}\" }".to_owned(),
        ];
        for first in 0..=input.len() {
            for second in first..=input.len() {
                let pieces = [&input[..first], &input[first..second], &input[second..]];
                assert_eq!(given(pieces), expected, "cut at {first} and {second}");
            }
        }
    }

    #[test]
    fn a_framer_that_starts_where_another_was_committed_sees_the_rest_and_nothing_twice() {
        let input = INPUT;
        for cut in 0..=input.len() {
            let mut found = Vec::new();
            let mut first = Framer::new(20, Budget::new(1000), 0, false);
            first.push(&input[..cut], |frame| found.push(format!("{frame:?}")));
            let (offset, discarding) = first.committed();
            let mut second = Framer::new(20, Budget::new(1000), offset, discarding);
            found.extend(frames(&mut second, &input[offset as usize..], 7));
            let lines = found.iter().filter(|frame| frame.starts_with("Line")).count();
            let long = found.iter().filter(|frame| frame.starts_with("TooLong")).count();
            assert_eq!((lines, long), (5, 1), "cut at {cut}: {found:?}");
        }
    }

    #[test]
    fn a_spent_budget_drops_a_line_and_not_the_stream() {
        let budget = Budget::new(8);
        let mut framer = Framer::new(100, budget.clone(), 0, false);
        let found = frames(&mut framer, b"123456789012\nshort\n", 3);
        assert_eq!(found, ["TooLong { bytes: 12 }", "Line(\"short\")"]);
        assert_eq!(budget.left.load(Ordering::Relaxed), 8);
    }
}
