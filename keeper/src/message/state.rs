//! What a keeper knows, all at once.

use super::{Containment, Emptiness, Exit, InputState, LimitState, Phase, Process, StopCause, StreamState, WindowSize};
use crate::wire::{Fields, WireError, Writer};

/// Everything a keeper knows: the answer to `Status` and `Attach`, and its last word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// Where the runtime stands.
    pub phase: Phase,
    /// The leader's id and start time, once it was forked.
    pub leader: Option<(i32, u64)>,
    /// What holds the tree.
    pub containment: Containment,
    /// How the leader ended.
    pub exit: Option<Exit>,
    /// The proof that nothing is left.
    pub emptiness: Option<Emptiness>,
    /// Who made it climb, if it climbs or climbed.
    pub stop: Option<StopCause>,
    /// Standard output.
    pub stdout: StreamState,
    /// Standard error.
    pub stderr: StreamState,
    /// Standard input.
    pub input: InputState,
    /// Processes that outlived the ladder.
    pub leaked: Vec<Process>,
    /// The size of the terminal, where there is one: as it is, whoever changed it; the last one once it is hung up.
    pub window: Option<WindowSize>,
    /// What became of each limit of the order.
    pub limits: Vec<LimitState>,
}

impl State {
    pub(crate) fn write(&self, writer: Writer) -> Writer {
        let mut writer = writer
            .number(1, self.phase.number())
            .number(4, self.containment.number())
            .bytes(8, &self.stdout.record())
            .bytes(9, &self.stderr.record())
            .bytes(10, &self.input.record())
            .optional(7, self.stop.map(StopCause::number));
        if let Some((pid, start)) = self.leader {
            writer = writer.number(2, pid as u64).number(3, start);
        }
        if let Some(exit) = self.exit {
            writer = writer.bytes(5, &exit.record());
        }
        if let Some(emptiness) = self.emptiness {
            writer = writer.bytes(6, &emptiness.record());
        }
        if let Some(size) = self.window {
            writer = writer.bytes(12, &size.record());
        }
        writer = LimitState::write_all(&self.limits, writer, 13);
        let leaked: Vec<_> = self.leaked.iter().map(Process::record).collect();
        writer.list(11, leaked.iter().map(Vec::as_slice))
    }

    pub(crate) fn read(fields: &Fields<'_>) -> Result<Self, WireError> {
        let pid = fields.optional(2)?.map(|pid| pid as i32);
        Ok(Self {
            phase: Phase::from_number(fields.number(1)?).ok_or(WireError::Value(1))?,
            leader: pid.zip(fields.optional(3)?),
            containment: Containment::from_number(fields.number(4)?).ok_or(WireError::Value(4))?,
            exit: fields.get(5).map(Exit::from_record).transpose()?,
            emptiness: fields.get(6).map(Emptiness::from_record).transpose()?,
            stop: fields.optional(7)?.and_then(StopCause::from_number),
            stdout: StreamState::from_record(fields.bytes(8)?)?,
            stderr: StreamState::from_record(fields.bytes(9)?)?,
            input: InputState::from_record(fields.bytes(10)?)?,
            leaked: fields.all(11).map(Process::from_record).collect::<Result<_, _>>()?,
            limits: LimitState::read_all(fields, 13)?,
            window: fields.get(12).map(WindowSize::from_record).transpose()?,
        })
    }
}
