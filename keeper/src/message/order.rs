//! Orders: owner to keeper.

use super::{Open, Stream, WindowSize};
use crate::ladder::Ladder;
use crate::wire::{Fields, RawFrame, WireError, Writer};

/// The versions an owner speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Auth {
    /// The oldest version.
    pub oldest: u64,
    /// The newest version.
    pub newest: u64,
}

impl Auth {
    /// What this build speaks.
    pub const CURRENT: Self = Self { oldest: 1, newest: crate::VERSION };
}

/// What an owner tells a keeper. The table in the crate's documentation says what each one does.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Order {
    /// First frame on descriptor 0.
    Hello(Auth),
    /// First frame on a connection to the socket in the folder.
    Attach {
        /// The versions.
        auth: Auth,
        /// The runtime's secret.
        secret: Vec<u8>,
    },
    /// Registers and starts the agent.
    Open(Box<Open>),
    /// Sends this stream's output from the offset on.
    Read {
        /// The stream.
        stream: Stream,
        /// The first offset wanted.
        from: u64,
    },
    /// Output before the offset may be forgotten.
    Ack {
        /// The stream.
        stream: Stream,
        /// The offset after the last byte that is safe.
        offset: u64,
    },
    /// One whole message for the agent's standard input.
    Input {
        /// Its number, from 1 without gaps.
        number: u64,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// End of input, after everything accepted was written.
    CloseInput,
    /// Climbs this ladder, or joins the climb that is on.
    Stop(Ladder),
    /// Ends one process, its descendants and the session it leads.
    End {
        /// A number for the answer.
        number: u64,
        /// The process.
        pid: i32,
        /// Its start time, without which nothing is signalled.
        start: u64,
        /// The time between SIGTERM and SIGKILL, in milliseconds.
        grace_ms: u64,
    },
    /// Lists the tree.
    List {
        /// A number for the answer.
        number: u64,
    },
    /// Forgets the runtime and exits; only of an empty tree.
    Release,
    /// Asks for everything the keeper knows.
    Status,
    /// Gives the terminal another size; its foreground group is told by SIGWINCH.
    Resize(WindowSize),
    /// Hangs the terminal up, and ends nothing else.
    HangUp,
}

impl Order {
    /// The kind word.
    pub fn kind(&self) -> u16 {
        match self {
            Self::Hello(_) => 1,
            Self::Attach { .. } => 2,
            Self::Open(open) if open.terminal.is_some() => 32,
            Self::Open(_) => 3,
            Self::Read { .. } => 4,
            Self::Ack { .. } => 5,
            Self::Input { .. } => 6,
            Self::CloseInput => 7,
            Self::Stop(_) => 8,
            Self::End { .. } => 9,
            Self::List { .. } => 10,
            Self::Release => 11,
            Self::Status => 12,
            Self::Resize(_) => 33,
            Self::HangUp => 36,
        }
    }

    /// The frame's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let writer = Writer::frame(self.kind());
        match self {
            Self::Hello(auth) => writer.number(1, auth.oldest).number(2, auth.newest),
            Self::Attach { auth, secret } => writer.number(1, auth.oldest).number(2, auth.newest).bytes(3, secret),
            Self::Open(open) => open.write(writer),
            Self::Read { stream, from } => writer.number(1, stream.number()).number(2, *from),
            Self::Ack { stream, offset } => writer.number(1, stream.number()).number(2, *offset),
            Self::Input { number, bytes } => writer.number(1, *number).bytes(2, bytes),
            Self::Stop(ladder) => writer.bytes(1, &ladder.record()),
            Self::End { number, pid, start, grace_ms } => {
                writer.number(1, *number).number(2, *pid as u64).number(3, *start).number(4, *grace_ms)
            }
            Self::List { number } => writer.number(1, *number),
            Self::Resize(size) => size.write(writer),
            Self::CloseInput | Self::Release | Self::Status | Self::HangUp => writer,
        }
        .into_frame()
    }

    /// Reads a frame.
    ///
    /// # Errors
    ///
    /// [`WireError::Kind`] for a kind of another version; the other variants for malformed fields.
    pub fn decode(frame: &RawFrame<'_>) -> Result<Self, WireError> {
        let fields = Fields::parse(frame.body)?;
        let stream = || Stream::from_number(fields.number(1)?).ok_or(WireError::Value(1));
        let auth = || Ok::<_, WireError>(Auth { oldest: fields.number(1)?, newest: fields.number(2)? });
        Ok(match frame.kind {
            1 => Self::Hello(auth()?),
            2 => Self::Attach { auth: auth()?, secret: fields.bytes(3)?.to_vec() },
            3 => Self::Open(Box::new(Open::read(&fields)?)),
            4 => Self::Read { stream: stream()?, from: fields.number(2)? },
            5 => Self::Ack { stream: stream()?, offset: fields.number(2)? },
            6 => Self::Input { number: fields.number(1)?, bytes: fields.bytes(2)?.to_vec() },
            7 => Self::CloseInput,
            8 => Self::Stop(Ladder::from_record(fields.bytes(1)?)?),
            9 => Self::End {
                number: fields.number(1)?,
                pid: fields.number(2)? as i32,
                start: fields.number(3)?,
                grace_ms: fields.number(4)?,
            },
            10 => Self::List { number: fields.number(1)? },
            11 => Self::Release,
            12 => Self::Status,
            32 => Self::Open(Box::new(Open::read_on_terminal(&fields)?)),
            33 => Self::Resize(WindowSize::read(&fields)?),
            36 => Self::HangUp,
            kind => return Err(WireError::Kind(kind)),
        })
    }
}
