//! Frames of a protocol that speaks in lines, and what becomes of each.

use ostler_supervisors::adapter::{Answer, Fact, Frame, FrameCounts};

/// The frame as a line, or what it is instead.
pub(super) fn line(frame: Frame<'_>) -> Result<&str, String> {
    match frame {
        Frame::Line(line) => Ok(line),
        Frame::InvalidUtf8 { bytes } => Err(format!("a line of {bytes} bytes that is not UTF-8")),
        Frame::TooLong { bytes } => Err(format!("a line of {bytes} bytes, longer than allowed")),
        Frame::Incomplete { text } => Err(format!("an incomplete line of {} bytes", text.len())),
    }
}

/// What became of a frame (rules 13).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Became {
    Mapped,
    Noted,
    Redundant,
}

impl Became {
    /// Each frame is counted once.
    pub(super) fn count(self, counts: &mut FrameCounts) {
        match self {
            Self::Mapped => counts.mapped += 1,
            Self::Noted => counts.noted += 1,
            Self::Redundant => counts.redundant += 1,
        }
    }
}

/// A frame that is no message.
pub(super) fn noise(what: String, answer: &mut Answer) -> Became {
    answer.fact(Fact::Noise { what });
    Became::Noted
}
