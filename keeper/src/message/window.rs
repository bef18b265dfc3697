//! The size of a terminal.

use crate::wire::{Fields, WireError, Writer};

/// A terminal's size in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowSize {
    /// How many lines it shows.
    pub rows: u16,
    /// How many characters a line has.
    pub columns: u16,
}

impl WindowSize {
    pub(crate) fn write(self, writer: Writer) -> Writer {
        writer.number(1, self.rows.into()).number(2, self.columns.into())
    }

    pub(crate) fn read(fields: &Fields<'_>) -> Result<Self, WireError> {
        let side = |tag| u16::try_from(fields.number(tag)?).map_err(|_| WireError::Value(tag));
        Ok(Self { rows: side(1)?, columns: side(2)? })
    }

    pub(crate) fn record(self) -> Vec<u8> {
        self.write(Writer::record()).into_record()
    }

    pub(crate) fn from_record(bytes: &[u8]) -> Result<Self, WireError> {
        Self::read(&Fields::parse(bytes)?)
    }
}
