//! The small types that orders and reports are made of.

use std::fmt;

use crate::wire::{Fields, WireError, Writer};

/// A fieldless enum with a number on the wire and a word for people.
macro_rules! wire_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $number:literal, $word:literal;)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum $name { $($(#[$vdoc])* $variant = $number,)+ }

        impl $name {
            /// Every value, in wire order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The number on the wire.
            pub fn number(self) -> u64 {
                self as u64
            }

            /// The value of a number on the wire; `None` for one of a later version.
            pub fn from_number(number: u64) -> Option<Self> {
                match number { $($number => Some(Self::$variant),)+ _ => None }
            }

            /// The word for it.
            pub fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.word())
            }
        }
    };
}

pub(super) use wire_enum;

wire_enum! {
    /// An output stream of the agent.
    Stream {
        /// Its standard output. Kept until acknowledged; when the retention is full, or an owner who reads is behind,
        /// reading stops.
        Stdout = 1, "stdout";
        /// Its standard error. Always drained; only the newest bytes are kept.
        Stderr = 2, "stderr";
    }
}

wire_enum! {
    /// What holds the tree together beside descent.
    Containment {
        /// Descent only: no control group leaf could be made.
        Descent = 1, "descent";
        /// Descent and a control group leaf.
        DescentAndLeaf = 2, "descent_and_leaf";
    }
}

wire_enum! {
    /// Where a runtime stands.
    Phase {
        /// No `Open` yet.
        Spare = 1, "spare";
        /// Forked, `exec` not yet confirmed.
        Starting = 2, "starting";
        /// The agent runs.
        Running = 3, "running";
        /// The leader is gone, descendants live.
        LeaderGone = 4, "leader_gone";
        /// The kernel confirmed that nothing is left.
        Empty = 5, "empty";
    }
}

wire_enum! {
    /// A step between `fork` and the agent's first instruction; the failure of each is named.
    SetupStep {
        /// Making the runtime's folder and its identity file.
        Folder = 1, "folder";
        /// Listening in the folder.
        Socket = 2, "socket";
        /// Making the pipes.
        Pipes = 3, "pipes";
        /// `fork`.
        Fork = 4, "fork";
        /// Death together with the keeper.
        ParentDeath = 5, "parent_death";
        /// A session of its own.
        Session = 6, "session";
        /// Standard streams.
        Stdio = 7, "stdio";
        /// Joining the control group leaf.
        Leaf = 8, "leaf";
        /// `oom_score_adj`.
        OomScore = 9, "oom_score";
        /// Signal mask and dispositions.
        Signals = 10, "signals";
        /// The working directory.
        Directory = 11, "directory";
        /// Closing every other descriptor at `exec`.
        Descriptors = 12, "descriptors";
        /// `exec` itself.
        Exec = 13, "exec";
        /// The pseudo-terminal.
        Terminal = 14, "terminal";
        /// Limits; a start never fails for one.
        Limits = 15, "limits";
    }
}

wire_enum! {
    /// Why an order was refused.
    RefusalCode {
        /// The order's kind or a value in it is not of this version.
        Unsupported = 1, "unsupported";
        /// The order makes no sense in this phase.
        State = 2, "state";
        /// A message number that leaves a gap.
        Gap = 3, "gap";
        /// No room beside what is not yet written; try again after the next `InputState`.
        Full = 4, "full";
        /// The agent's standard input is closed.
        Closed = 5, "closed";
        /// The secret or the peer is wrong.
        Denied = 6, "denied";
        /// The order's bytes are malformed.
        Malformed = 7, "malformed";
    }
}

wire_enum! {
    /// What became of an [`crate::Order::End`].
    EndResult {
        /// It and all that belonged to it are gone. What it forked away into the agent's own group counts as the
        /// agent's, not as its: a stray is in a session of its own.
        Gone = 1, "gone";
        /// No process of this tree has that id and start time.
        NotFound = 2, "not_found";
        /// Something of it outlived SIGKILL's deadline.
        Alive = 3, "alive";
    }
}

wire_enum! {
    /// Who made the keeper climb the ladder.
    StopCause {
        /// An order of the owner.
        Ordered = 1, "ordered";
        /// Nobody came back within the grace.
        Orphaned = 2, "orphaned";
        /// The leader ended and left descendants.
        LeaderGone = 3, "leader_gone";
    }
}

/// How a process ended, as `wait` told it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Exit {
    /// It exited with this code.
    Code(i32),
    /// A signal ended it.
    Signal {
        /// The signal's number.
        signal: i32,
        /// Whether a core was dumped.
        core: bool,
    },
}

impl Exit {
    pub(crate) fn record(self) -> Vec<u8> {
        match self {
            Self::Code(code) => Writer::record().number(1, code as u32 as u64).into_record(),
            Self::Signal { signal, core } => {
                Writer::record().number(2, signal as u32 as u64).number(3, core.into()).into_record()
            }
        }
    }

    pub(crate) fn from_record(bytes: &[u8]) -> Result<Self, WireError> {
        let fields = Fields::parse(bytes)?;
        match fields.optional(1)? {
            Some(code) => Ok(Self::Code(code as i32)),
            None => Ok(Self::Signal { signal: fields.number(2)? as i32, core: fields.optional(3)?.unwrap_or(0) != 0 }),
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal { signal, .. } => match nix::sys::signal::Signal::try_from(*signal) {
                Ok(signal) => f.write_str(signal.as_str()),
                Err(_) => write!(f, "signal {signal}"),
            },
        }
    }
}

/// The kernel's own answers that a tree is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Emptiness {
    /// What was asked: descent alone, or descent and the leaf.
    pub containment: Containment,
    /// When, in [`crate::clock::now`] milliseconds.
    pub at_ms: u64,
    /// How many processes of the tree the kernel killed for lack of memory; `None` where it does not count them (without a
    /// leaf that has a memory controller).
    pub oom_kills: Option<u64>,
}

impl Emptiness {
    pub(crate) fn record(self) -> Vec<u8> {
        Writer::record()
            .number(1, self.containment.number())
            .number(2, self.at_ms)
            .optional(3, self.oom_kills)
            .into_record()
    }

    pub(crate) fn from_record(bytes: &[u8]) -> Result<Self, WireError> {
        let fields = Fields::parse(bytes)?;
        let containment = Containment::from_number(fields.number(1)?).ok_or(WireError::Value(1))?;
        Ok(Self { containment, at_ms: fields.number(2)?, oom_kills: fields.optional(3)? })
    }
}

/// What became of the input so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InputState {
    /// The highest message number accepted; 0 for none.
    pub accepted: u64,
    /// Bytes written to the agent's pipe, over all messages.
    pub written: u64,
    /// Bytes accepted and not yet written.
    pub pending: u64,
    /// Whether the agent's standard input is closed.
    pub closed: bool,
}

impl InputState {
    pub(crate) fn record(self) -> Vec<u8> {
        Writer::record()
            .number(1, self.accepted)
            .number(2, self.written)
            .number(3, self.pending)
            .number(4, self.closed.into())
            .into_record()
    }

    pub(crate) fn from_record(bytes: &[u8]) -> Result<Self, WireError> {
        let fields = Fields::parse(bytes)?;
        Ok(Self {
            accepted: fields.number(1)?,
            written: fields.number(2)?,
            pending: fields.number(3)?,
            closed: fields.number(4)? != 0,
        })
    }
}

/// What the keeper holds of one output stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamState {
    /// The offset of the oldest byte kept.
    pub base: u64,
    /// The offset after the newest byte read.
    pub end: u64,
    /// Whether the stream was read to its end.
    pub ended: bool,
}

impl StreamState {
    pub(crate) fn record(self) -> Vec<u8> {
        Writer::record().number(1, self.base).number(2, self.end).number(3, self.ended.into()).into_record()
    }

    pub(crate) fn from_record(bytes: &[u8]) -> Result<Self, WireError> {
        let fields = Fields::parse(bytes)?;
        Ok(Self { base: fields.number(1)?, end: fields.number(2)?, ended: fields.number(3)? != 0 })
    }
}

/// One process of a tree, as `/proc` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: i32,
    /// Its start time in clock ticks since boot; with the id and the boot id, its identity.
    pub start: u64,
    /// Its session.
    pub sid: i32,
    /// Its parent.
    pub ppid: i32,
    /// Its command line, at most 256 bytes; the short name where it has none.
    pub command: String,
}

impl Process {
    pub(crate) fn record(&self) -> Vec<u8> {
        Writer::record()
            .number(1, self.pid as u64)
            .number(2, self.start)
            .number(3, self.sid as u64)
            .number(4, self.ppid as u64)
            .text(5, &self.command)
            .into_record()
    }

    pub(crate) fn from_record(bytes: &[u8]) -> Result<Self, WireError> {
        let fields = Fields::parse(bytes)?;
        Ok(Self {
            pid: fields.number(1)? as i32,
            start: fields.number(2)?,
            sid: fields.number(3)? as i32,
            ppid: fields.number(4)? as i32,
            command: fields.text(5)?,
        })
    }
}
