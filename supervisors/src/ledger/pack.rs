//! Many events in one blob: the shape that decides the ledger's speed.
//!
//! ```text
//! blob  := version:u8(1)  crc32:u32  count:varint  event*        the checksum covers everything after itself
//! event := run:u8  [task:text]  sequence:varint  at:varint  kind:text  data:text
//! run   := 0 none | 1 the same as the event before | 2 named here
//! text  := length:varint  bytes
//! ```
//!
//! Positions are not stored: the blob's row says the first, and they rise by one. Varints are little-endian base 128.

use serde_json::value::RawValue;
use thiserror::Error;

use crate::contract::{Event, EventKind, Position, TaskId};

/// Bytes that are not a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PackError {
    /// A version of a later Ostler.
    #[error("blob version {0} is not known")]
    Version(u8),
    /// The checksum does not match.
    #[error("the checksum does not match")]
    Checksum,
    /// The bytes end too early or hold something impossible.
    #[error("the content is malformed")]
    Malformed,
}

const VERSION: u8 = 1;
const HEAD: usize = 5;

/// Packs events; their positions must rise by one.
pub fn pack(events: &[Event]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEAD + events.iter().map(|event| event.data.get().len() + 48).sum::<usize>());
    out.extend_from_slice(&[VERSION, 0, 0, 0, 0]);
    varint(&mut out, events.len() as u64);
    let mut run: Option<&TaskId> = None;
    for event in events {
        match &event.run {
            None => out.push(0),
            Some((task, _)) if Some(task) == run => out.push(1),
            Some((task, _)) => {
                out.push(2);
                text(&mut out, task.as_str());
                run = Some(task);
            }
        }
        varint(&mut out, event.run.as_ref().map_or(0, |(_, sequence)| *sequence));
        varint(&mut out, event.at_ms);
        text(&mut out, event.kind.as_str());
        text(&mut out, event.data.get());
    }
    let checksum = crc32fast::hash(&out[HEAD..]);
    out[1..HEAD].copy_from_slice(&checksum.to_le_bytes());
    out
}

/// Unpacks a blob whose first event has this position.
///
/// # Errors
///
/// [`PackError`]; nothing of a damaged blob is returned.
pub fn unpack(bytes: &[u8], first: Position) -> Result<Vec<Event>, PackError> {
    let (head, body) = bytes.split_at_checked(HEAD).ok_or(PackError::Malformed)?;
    if head[0] != VERSION {
        return Err(PackError::Version(head[0]));
    }
    if crc32fast::hash(body).to_le_bytes() != head[1..] {
        return Err(PackError::Checksum);
    }
    let mut reader = Reader { bytes: body };
    let count = reader.varint()?;
    let mut run: Option<TaskId> = None;
    (0..count).map(|index| reader.event(Position(first.0 + index), &mut run)).collect()
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn text(out: &mut Vec<u8>, value: &str) {
    varint(out, value.len() as u64);
    out.extend_from_slice(value.as_bytes());
}

struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Result<u8, PackError> {
        let (first, rest) = self.bytes.split_first().ok_or(PackError::Malformed)?;
        self.bytes = rest;
        Ok(*first)
    }

    fn varint(&mut self) -> Result<u64, PackError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(PackError::Malformed)
    }

    fn text(&mut self) -> Result<&'a str, PackError> {
        let length = self.varint()? as usize;
        let (text, rest) = self.bytes.split_at_checked(length).ok_or(PackError::Malformed)?;
        self.bytes = rest;
        std::str::from_utf8(text).map_err(|_| PackError::Malformed)
    }

    fn event(&mut self, position: Position, run: &mut Option<TaskId>) -> Result<Event, PackError> {
        let has_run = self.byte()?;
        if has_run == 2 {
            *run = Some(self.text()?.parse().map_err(|_| PackError::Malformed)?);
        }
        let sequence = self.varint()?;
        let run = match has_run {
            0 => None,
            1 | 2 => Some((run.clone().ok_or(PackError::Malformed)?, sequence)),
            _ => return Err(PackError::Malformed),
        };
        let at_ms = self.varint()?;
        let kind = EventKind::stored(self.text()?);
        let data = RawValue::from_string(self.text()?.to_owned()).map_err(|_| PackError::Malformed)?;
        Ok(Event { position, run, at_ms, kind, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::event::kinds;

    fn events() -> Vec<Event> {
        let run = |task: &str, sequence| Some((task.parse().expect("id"), sequence));
        let runs = [None, run("a", 1), run("a", 2), run("b", 1), None, run("b", 300)];
        let event = |(index, run)| Event {
            position: Position(7 + index as u64),
            run,
            at_ms: 1_700_000_000_000 + index as u64,
            kind: kinds::MESSAGE_DELTA,
            data: RawValue::from_string(format!(r#"{{"text":"{index} é"}}"#)).expect("JSON"),
        };
        runs.into_iter().enumerate().map(event).collect()
    }

    #[test]
    fn what_is_packed_is_unpacked() {
        assert_eq!(unpack(&pack(&events()), Position(7)), Ok(events()));
        assert_eq!(unpack(&pack(&[]), Position(1)), Ok(vec![]));
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_found() {
        let bytes = pack(&events());
        for index in 0..bytes.len() {
            assert!(unpack(&bytes[..index], Position(7)).is_err());
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[index] ^= 1 << bit;
                assert!(unpack(&damaged, Position(7)).is_err(), "byte {index} bit {bit}");
            }
        }
    }
}
