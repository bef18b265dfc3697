//! Limits of what an agent and its tree may use.

use std::fmt;

use super::record::wire_enum;
use crate::wire::{Fields, WireError, Writer};

wire_enum! {
    /// What is limited.
    LimitKind {
        /// The address space of each process, in bytes (`RLIMIT_AS`).
        AddressSpace = 1, "address_space";
        /// One more than the highest descriptor of each process (`RLIMIT_NOFILE`).
        OpenFiles = 2, "open_files";
        /// The processes and threads of the agent's user, of whatever tree (`RLIMIT_NPROC`).
        UserProcesses = 3, "user_processes";
        /// The size of each file written, in bytes (`RLIMIT_FSIZE`).
        FileSize = 4, "file_size";
        /// The size of a core dump, in bytes (`RLIMIT_CORE`).
        CoreSize = 5, "core_size";
        /// The processor time of each process, in seconds (`RLIMIT_CPU`).
        CpuSeconds = 6, "cpu_seconds";
        /// The memory of the whole tree, in bytes (`memory.max`).
        Memory = 16, "memory";
        /// The swap of the whole tree, in bytes (`memory.swap.max`).
        Swap = 17, "swap";
        /// The processes and threads of the whole tree (`pids.max`).
        Processes = 18, "processes";
    }
}

wire_enum! {
    /// Whether a limit holds, and why not.
    LimitStanding {
        /// The kernel holds the agent to it.
        InForce = 1, "in_force";
        /// It needs a control group leaf, and the tree has none.
        NoLeaf = 2, "no_leaf";
        /// Its controller is not given to the group in which leaves are made.
        NotDelegated = 3, "not_delegated";
        /// The kernel refused it, with an error number.
        Refused = 4, "refused";
        /// It is set, and the kernel does not hold this user to it.
        Exempt = 5, "exempt";
    }
}

/// A limit that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// What is limited.
    pub kind: LimitKind,
    /// To how much.
    pub value: u64,
}

impl Limit {
    pub(crate) fn record(self) -> Vec<u8> {
        Writer::record().number(1, self.kind.number()).number(2, self.value).into_record()
    }

    /// None for a kind of a later version: nothing is said of it, which says that it is not in force.
    pub(crate) fn from_record(bytes: &[u8]) -> Result<Option<Self>, WireError> {
        let fields = Fields::parse(bytes)?;
        let (number, value) = (fields.number(1)?, fields.number(2)?);
        Ok(LimitKind::from_number(number).map(|kind| Self { kind, value }))
    }
}

/// What became of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitState {
    /// What is limited.
    pub kind: LimitKind,
    /// To how much; less than was asked for where it was less before.
    pub value: u64,
    /// Whether it holds.
    pub standing: LimitStanding,
    /// The kernel's error number, if it refused.
    pub errno: i32,
}

impl LimitState {
    pub(crate) fn record(self) -> Vec<u8> {
        Writer::record()
            .number(1, self.kind.number())
            .number(2, self.value)
            .number(3, self.standing.number())
            .number(4, self.errno as u64)
            .into_record()
    }

    fn from_record(bytes: &[u8]) -> Result<Option<Self>, WireError> {
        let fields = Fields::parse(bytes)?;
        let (value, errno) = (fields.number(2)?, fields.number(4)? as i32);
        let (kind, standing) =
            (LimitKind::from_number(fields.number(1)?), LimitStanding::from_number(fields.number(3)?));
        Ok(kind.zip(standing).map(|(kind, standing)| Self { kind, value, standing, errno }))
    }

    pub(crate) fn write_all(states: &[Self], writer: Writer, tag: u16) -> Writer {
        let records: Vec<_> = states.iter().map(|state| state.record()).collect();
        writer.list(tag, records.iter().map(Vec::as_slice))
    }

    /// Those of a later version are skipped.
    pub(crate) fn read_all(fields: &Fields<'_>, tag: u16) -> Result<Vec<Self>, WireError> {
        fields.all(tag).filter_map(|record| Self::from_record(record).transpose()).collect()
    }
}

impl LimitState {
    /// Why it does not hold, for a person; `None` for one that does.
    pub fn reason(&self) -> Option<String> {
        let refused = || nix::errno::Errno::from_raw(self.errno).desc().to_lowercase();
        match self.standing {
            LimitStanding::InForce => None,
            LimitStanding::NoLeaf => Some("no control group leaf".to_owned()),
            LimitStanding::NotDelegated => Some("its controller is not given to the group of the leaves".to_owned()),
            // A group with processes of its own hands no such controller on.
            LimitStanding::Refused if self.errno == nix::errno::Errno::EBUSY as i32 => {
                Some(format!("{}: the group of the leaves has processes of its own", refused()))
            }
            LimitStanding::Refused => Some(refused()),
            LimitStanding::Exempt => Some("the kernel holds root to none".to_owned()),
        }
    }
}

impl fmt::Display for LimitState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason() {
            None => write!(f, "{}", self.kind),
            Some(reason) => write!(f, "{} ({reason})", self.kind),
        }
    }
}
