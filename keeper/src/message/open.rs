//! What an agent is started with.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use super::{Limit, WindowSize};
use crate::ladder::Ladder;
use crate::wire::{Fields, WireError, Writer};

/// What happens when nobody owns the connection any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrphanPolicy {
    /// How long the keeper waits for an owner before it climbs, in milliseconds.
    pub grace_ms: u64,
    /// The ladder it then climbs.
    pub ladder: Ladder,
}

/// The order that makes a keeper the owner of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Open {
    /// The runtime's folder; its parent exists, it does not.
    pub folder: PathBuf,
    /// The runtime's id, as the registry and the marker show it.
    pub runtime: String,
    /// The owner's id, for the registry.
    pub owner: String,
    /// What an owner must show to attach.
    pub secret: Vec<u8>,
    /// Program and arguments; the program is looked up in the `PATH` of `environment`.
    pub command: Vec<OsString>,
    /// The whole environment of the agent, as `NAME=value`.
    pub environment: Vec<OsString>,
    /// The working directory.
    pub directory: PathBuf,
    /// Where to make a control group leaf; it is tried, and done without where it fails.
    pub leaf_parent: Option<PathBuf>,
    /// How many bytes of standard output are kept unacknowledged before reading stops.
    pub stdout_retention: u64,
    /// How many of the newest bytes of standard error are kept.
    pub stderr_retention: u64,
    /// How many bytes of input may wait to be written.
    pub input_capacity: u64,
    /// `oom_score_adj` of the agent, so that it dies before its keeper.
    pub oom_score_adj: i32,
    /// The file mode mask of the agent.
    pub umask: u32,
    /// What happens when the owner is gone.
    pub orphan: OrphanPolicy,
    /// The ladder climbed when the leader ends and leaves descendants; `None` keeps them.
    pub on_leader_exit: Option<Ladder>,
    /// The size of the terminal that the agent gets as its standard streams; `None` gives it pipes. With one, the order
    /// is of another kind, so that a keeper which knows none refuses it and starts nothing.
    pub terminal: Option<WindowSize>,
    /// Limits; the agent starts whether they can be put in force or not, and each is told.
    pub limits: Vec<Limit>,
}

impl Open {
    pub(crate) fn write(&self, writer: Writer) -> Writer {
        let mut writer = writer
            .bytes(1, self.folder.as_os_str().as_bytes())
            .text(2, &self.runtime)
            .text(3, &self.owner)
            .bytes(4, &self.secret)
            .list(5, self.command.iter().map(|a| a.as_bytes()))
            .list(6, self.environment.iter().map(|a| a.as_bytes()))
            .bytes(7, self.directory.as_os_str().as_bytes())
            .number(9, self.stdout_retention)
            .number(10, self.stderr_retention)
            .number(11, self.input_capacity)
            .number(12, i64::from(self.oom_score_adj) as u64)
            .number(13, self.umask.into())
            .number(14, self.orphan.grace_ms)
            .bytes(15, &self.orphan.ladder.record());
        if let Some(leaf) = &self.leaf_parent {
            writer = writer.bytes(8, leaf.as_os_str().as_bytes());
        }
        let limits: Vec<_> = self.limits.iter().map(|limit| limit.record()).collect();
        writer = writer.list(18, limits.iter().map(Vec::as_slice));
        if let Some(size) = self.terminal {
            writer = writer.bytes(17, &size.record());
        }
        match &self.on_leader_exit {
            Some(ladder) => writer.bytes(16, &ladder.record()),
            None => writer,
        }
    }

    pub(crate) fn read(fields: &Fields<'_>) -> Result<Self, WireError> {
        let os = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        Ok(Self {
            folder: os(fields.bytes(1)?).into(),
            runtime: fields.text(2)?,
            owner: fields.text(3)?,
            secret: fields.bytes(4)?.to_vec(),
            command: fields.all(5).map(os).collect(),
            environment: fields.all(6).map(os).collect(),
            directory: os(fields.bytes(7)?).into(),
            leaf_parent: fields.get(8).map(|leaf| os(leaf).into()),
            stdout_retention: fields.number(9)?,
            stderr_retention: fields.number(10)?,
            input_capacity: fields.number(11)?,
            oom_score_adj: fields.number(12)? as i64 as i32,
            umask: fields.number(13)? as u32,
            orphan: OrphanPolicy { grace_ms: fields.number(14)?, ladder: Ladder::from_record(fields.bytes(15)?)? },
            on_leader_exit: fields.get(16).map(Ladder::from_record).transpose()?,
            terminal: None,
            limits: fields.all(18).filter_map(|l| Limit::from_record(l).transpose()).collect::<Result<_, _>>()?,
        })
    }

    pub(crate) fn read_on_terminal(fields: &Fields<'_>) -> Result<Self, WireError> {
        let size = WindowSize::from_record(fields.bytes(17)?)?;
        Ok(Self { terminal: Some(size), ..Self::read(fields)? })
    }
}
