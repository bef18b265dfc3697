//! Frames and fields: the bytes of the protocol.

use thiserror::Error;

/// The longest frame either side accepts: one message of 64 MiB and its envelope.
pub const MAX_FRAME: usize = 64 * 1024 * 1024 + 64 * 1024;

/// Bytes of a frame before its fields: length and kind.
pub const FRAME_HEAD: usize = 6;
const FIELD_HEAD: usize = 6;

/// Why bytes are not a frame of this protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum WireError {
    /// The length word is above [`MAX_FRAME`] or too small to hold a kind.
    #[error("frame length {0} is out of range")]
    Length(usize),
    /// A field reaches beyond its frame.
    #[error("field reaches beyond its frame")]
    Field,
    /// A field that the kind needs is missing.
    #[error("field {0} is missing")]
    Missing(u16),
    /// A field has the wrong size or an unknown value.
    #[error("field {0} has a bad value")]
    Value(u16),
    /// The kind is not one of this version.
    #[error("unknown kind {0}")]
    Kind(u16),
}

/// Builds one frame.
#[derive(Debug)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// Starts a frame of this kind.
    pub fn frame(kind: u16) -> Self {
        let mut bytes = vec![0; 4];
        bytes.extend_from_slice(&kind.to_le_bytes());
        Self { bytes }
    }

    /// Starts a record: fields without a frame around them.
    pub fn record() -> Self {
        Self { bytes: Vec::new() }
    }

    /// Adds a field of raw bytes.
    pub fn bytes(mut self, tag: u16, value: &[u8]) -> Self {
        self.bytes.extend_from_slice(&tag.to_le_bytes());
        self.bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(value);
        self
    }

    /// Adds a number.
    pub fn number(self, tag: u16, value: u64) -> Self {
        self.bytes(tag, &value.to_le_bytes())
    }

    /// Adds a number if there is one.
    pub fn optional(self, tag: u16, value: Option<u64>) -> Self {
        match value {
            Some(value) => self.number(tag, value),
            None => self,
        }
    }

    /// Adds a text or path.
    pub fn text(self, tag: u16, value: &str) -> Self {
        self.bytes(tag, value.as_bytes())
    }

    /// Adds one field per item.
    pub fn list<'a>(mut self, tag: u16, items: impl IntoIterator<Item = &'a [u8]>) -> Self {
        for item in items {
            self = self.bytes(tag, item);
        }
        self
    }

    /// The finished record.
    pub fn into_record(self) -> Vec<u8> {
        self.bytes
    }

    /// The finished frame, its length filled in.
    pub fn into_frame(mut self) -> Vec<u8> {
        let length = (self.bytes.len() - 4) as u32;
        self.bytes[..4].copy_from_slice(&length.to_le_bytes());
        self.bytes
    }
}

/// The fields of one frame or record.
#[derive(Debug, Clone)]
pub struct Fields<'a> {
    fields: Vec<(u16, &'a [u8])>,
}

impl<'a> Fields<'a> {
    /// Splits bytes into fields.
    ///
    /// # Errors
    ///
    /// [`WireError::Field`] if a field reaches beyond the end.
    pub fn parse(mut bytes: &'a [u8]) -> Result<Self, WireError> {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let (head, rest) = bytes.split_at_checked(FIELD_HEAD).ok_or(WireError::Field)?;
            let tag = u16::from_le_bytes([head[0], head[1]]);
            let length = u32::from_le_bytes([head[2], head[3], head[4], head[5]]) as usize;
            let (value, rest) = rest.split_at_checked(length).ok_or(WireError::Field)?;
            fields.push((tag, value));
            bytes = rest;
        }
        Ok(Self { fields })
    }

    /// The first field of this tag.
    pub fn get(&self, tag: u16) -> Option<&'a [u8]> {
        self.fields.iter().find(|(t, _)| *t == tag).map(|(_, value)| *value)
    }

    /// Every field of this tag, in order.
    pub fn all(&self, tag: u16) -> impl Iterator<Item = &'a [u8]> + '_ {
        self.fields.iter().filter(move |(t, _)| *t == tag).map(|(_, value)| *value)
    }

    /// The bytes of a field that must be there.
    ///
    /// # Errors
    ///
    /// [`WireError::Missing`].
    pub fn bytes(&self, tag: u16) -> Result<&'a [u8], WireError> {
        self.get(tag).ok_or(WireError::Missing(tag))
    }

    /// A number that must be there.
    ///
    /// # Errors
    ///
    /// [`WireError::Missing`] or [`WireError::Value`].
    pub fn number(&self, tag: u16) -> Result<u64, WireError> {
        self.optional(tag)?.ok_or(WireError::Missing(tag))
    }

    /// A number that may be absent.
    ///
    /// # Errors
    ///
    /// [`WireError::Value`] if it is not 8 bytes.
    pub fn optional(&self, tag: u16) -> Result<Option<u64>, WireError> {
        let Some(bytes) = self.get(tag) else { return Ok(None) };
        let bytes: [u8; 8] = bytes.try_into().map_err(|_| WireError::Value(tag))?;
        Ok(Some(u64::from_le_bytes(bytes)))
    }

    /// A text that must be there; bytes that are not UTF-8 are replaced.
    ///
    /// # Errors
    ///
    /// [`WireError::Missing`].
    pub fn text(&self, tag: u16) -> Result<String, WireError> {
        Ok(String::from_utf8_lossy(self.bytes(tag)?).into_owned())
    }
}

/// One frame cut from a stream: its kind and the bytes of its fields.
#[derive(Debug, PartialEq, Eq)]
pub struct RawFrame<'a> {
    /// The kind word.
    pub kind: u16,
    /// The bytes of the fields.
    pub body: &'a [u8],
    /// How many bytes of the stream the frame took.
    pub size: usize,
}

/// Cuts the first frame from bytes; `None` while it is not whole yet.
///
/// # Errors
///
/// [`WireError::Length`] as soon as the length word is out of range, before anything is buffered for it.
pub fn cut(bytes: &[u8]) -> Result<Option<RawFrame<'_>>, WireError> {
    let Some(head) = bytes.first_chunk::<FRAME_HEAD>() else { return Ok(None) };
    let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
    if !(2..=MAX_FRAME).contains(&length) {
        return Err(WireError::Length(length));
    }
    let size = length + 4;
    let kind = u16::from_le_bytes([head[4], head[5]]);
    Ok(bytes.get(FRAME_HEAD..size).map(|body| RawFrame { kind, body, size }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_survives_every_cut() {
        let frame = Writer::frame(7).number(1, 42).text(2, "hello").into_frame();
        for end in 0..frame.len() {
            assert_eq!(cut(&frame[..end]), Ok(None));
        }
        let whole = cut(&frame).expect("valid").expect("whole");
        assert_eq!((whole.kind, whole.size), (7, frame.len()));
        let fields = Fields::parse(whole.body).expect("fields");
        assert_eq!((fields.number(1), fields.text(2).as_deref()), (Ok(42), Ok("hello")));
    }

    #[test]
    fn bad_lengths_are_refused_at_once() {
        assert_eq!(cut(&[255, 255, 255, 255, 1, 0]), Err(WireError::Length(u32::MAX as usize)));
        assert_eq!(cut(&[1, 0, 0, 0, 1, 0]), Err(WireError::Length(1)));
    }

    #[test]
    fn a_field_beyond_its_frame_is_refused() {
        assert!(matches!(Fields::parse(&[1, 0, 9, 0, 0, 0, 1]), Err(WireError::Field)));
        assert!(matches!(Fields::parse(&[1, 0, 9]), Err(WireError::Field)));
    }
}
