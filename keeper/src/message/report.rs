//! Reports: keeper to owner.

use super::{
    Containment, Emptiness, EndResult, Exit, InputState, LimitState, Process, RefusalCode, SetupStep, State, Stream,
};
use crate::ladder::Rung;
use crate::wire::{Fields, RawFrame, WireError, Writer};

/// What a keeper tells its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Report {
    /// The version both sides speak from now on.
    Welcome {
        /// The version.
        version: u64,
        /// The keeper's process id.
        pid: i32,
    },
    /// An order had no effect.
    Refused {
        /// The kind of the order.
        kind: u16,
        /// Why.
        code: RefusalCode,
        /// Why, in words.
        text: String,
    },
    /// The agent's `exec` succeeded.
    Opened {
        /// The leader's process id.
        pid: i32,
        /// Its start time.
        start: u64,
        /// What holds the tree.
        containment: Containment,
        /// What became of each limit of the order.
        limits: Vec<LimitState>,
    },
    /// The agent could not be started; nothing of it is left and the keeper exits.
    OpenFailed {
        /// The step that failed.
        step: SetupStep,
        /// The kernel's error number.
        errno: i32,
        /// What it was about: the program, the path looked through, the directory.
        text: String,
    },
    /// Output bytes.
    Output {
        /// The stream.
        stream: Stream,
        /// The offset of the first byte.
        offset: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// The stream was read to its end and everything before was sent.
    OutputEnd {
        /// The stream.
        stream: Stream,
        /// Its length.
        offset: u64,
    },
    /// What became of the input.
    InputState(InputState),
    /// The leader ended.
    Exited(Exit),
    /// The ladder reached this rung.
    Rung(Rung),
    /// The kernel confirmed that nothing is left.
    Emptied(Emptiness),
    /// The ladder's last deadline passed and these live; the keeper keeps watching.
    Leaked(Vec<Process>),
    /// The answer to `End`.
    Ended {
        /// The order's number.
        number: u64,
        /// What became of it.
        result: EndResult,
    },
    /// The answer to `List`.
    Listing {
        /// The order's number.
        number: u64,
        /// The tree, the leader first, at most 4,096 entries.
        processes: Vec<Process>,
        /// Whether there were more.
        truncated: bool,
    },
    /// Everything the keeper knows.
    State(Box<State>),
    /// Another owner attached; this connection is closed.
    Superseded,
}

impl Report {
    /// The kind word.
    pub fn kind(&self) -> u16 {
        match self {
            Self::Welcome { .. } => 1,
            Self::Refused { .. } => 2,
            Self::Opened { .. } => 3,
            Self::OpenFailed { .. } => 4,
            Self::Output { .. } => 5,
            Self::OutputEnd { .. } => 6,
            Self::InputState(_) => 7,
            Self::Exited(_) => 8,
            Self::Rung(_) => 9,
            Self::Emptied(_) => 10,
            Self::Leaked(_) => 11,
            Self::Ended { .. } => 12,
            Self::Listing { .. } => 13,
            Self::State(_) => 14,
            Self::Superseded => 15,
        }
    }

    /// The frame's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let writer = Writer::frame(self.kind());
        match self {
            Self::Welcome { version, pid } => writer.number(1, *version).number(2, *pid as u64),
            Self::Refused { kind, code, text } => {
                writer.number(1, (*kind).into()).number(2, code.number()).text(3, text)
            }
            Self::Opened { pid, start, containment, limits } => {
                let writer = writer.number(1, *pid as u64).number(2, *start).number(3, containment.number());
                LimitState::write_all(limits, writer, 4)
            }
            Self::OpenFailed { step, errno, text } => {
                writer.number(1, step.number()).number(2, *errno as u64).text(3, text)
            }
            Self::Output { stream, offset, bytes } => {
                writer.number(1, stream.number()).number(2, *offset).bytes(3, bytes)
            }
            Self::OutputEnd { stream, offset } => writer.number(1, stream.number()).number(2, *offset),
            Self::InputState(state) => writer.bytes(1, &state.record()),
            Self::Exited(exit) => writer.bytes(1, &exit.record()),
            Self::Rung(rung) => writer.number(1, rung.number()),
            Self::Emptied(emptiness) => writer.bytes(1, &emptiness.record()),
            Self::Leaked(processes) => list(writer, 1, processes),
            Self::Ended { number, result } => writer.number(1, *number).number(2, result.number()),
            Self::Listing { number, processes, truncated } => {
                list(writer.number(1, *number).number(2, (*truncated).into()), 3, processes)
            }
            Self::State(state) => state.write(writer),
            Self::Superseded => writer,
        }
        .into_frame()
    }

    /// Reads a frame.
    ///
    /// # Errors
    ///
    /// [`WireError::Kind`] for a kind of another version, which an owner skips; the other variants for
    /// malformed fields.
    pub fn decode(frame: &RawFrame<'_>) -> Result<Self, WireError> {
        let fields = Fields::parse(frame.body)?;
        let stream = || Stream::from_number(fields.number(1)?).ok_or(WireError::Value(1));
        let processes = |tag| fields.all(tag).map(Process::from_record).collect::<Result<Vec<_>, _>>();
        Ok(match frame.kind {
            1 => Self::Welcome { version: fields.number(1)?, pid: fields.number(2)? as i32 },
            2 => Self::Refused {
                kind: fields.number(1)? as u16,
                code: RefusalCode::from_number(fields.number(2)?).ok_or(WireError::Value(2))?,
                text: fields.text(3)?,
            },
            3 => Self::Opened {
                pid: fields.number(1)? as i32,
                start: fields.number(2)?,
                containment: Containment::from_number(fields.number(3)?).ok_or(WireError::Value(3))?,
                limits: LimitState::read_all(&fields, 4)?,
            },
            4 => Self::OpenFailed {
                step: SetupStep::from_number(fields.number(1)?).ok_or(WireError::Value(1))?,
                errno: fields.number(2)? as i32,
                text: fields.text(3)?,
            },
            5 => Self::Output { stream: stream()?, offset: fields.number(2)?, bytes: fields.bytes(3)?.to_vec() },
            6 => Self::OutputEnd { stream: stream()?, offset: fields.number(2)? },
            7 => Self::InputState(InputState::from_record(fields.bytes(1)?)?),
            8 => Self::Exited(Exit::from_record(fields.bytes(1)?)?),
            9 => Self::Rung(Rung::from_number(fields.number(1)?).ok_or(WireError::Value(1))?),
            10 => Self::Emptied(Emptiness::from_record(fields.bytes(1)?)?),
            11 => Self::Leaked(processes(1)?),
            12 => Self::Ended {
                number: fields.number(1)?,
                result: EndResult::from_number(fields.number(2)?).ok_or(WireError::Value(2))?,
            },
            13 => {
                Self::Listing { number: fields.number(1)?, processes: processes(3)?, truncated: fields.number(2)? != 0 }
            }
            14 => Self::State(Box::new(State::read(&fields)?)),
            15 => Self::Superseded,
            kind => return Err(WireError::Kind(kind)),
        })
    }
}

fn list(writer: Writer, tag: u16, processes: &[Process]) -> Writer {
    let records: Vec<_> = processes.iter().map(Process::record).collect();
    writer.list(tag, records.iter().map(Vec::as_slice))
}
