//! A runtime's folder: the registry entry, the socket, the last word.
//!
//! ```text
//! <state>/run/<boot id>/<runtime id>/
//!     identity     frames: Identity, then Started once the agent was forked
//!     s            the socket a later owner connects to
//!     last-word    frames: the final State; written last, by rename
//!     stdout       output from State.stdout.base on that no owner had acknowledged
//!     stderr       the newest bytes of standard error
//! ```
//!
//! It appears whole, by a rename: whoever sees it can read the identity. While it is being made it is called
//! `.<runtime id>`; a keeper killed at that has never forked. A folder with a last word needs no keeper. One with an
//! identity, no last word and no living keeper belongs to a keeper that was killed: its leaf, its marker and the
//! recorded process serve a sweep. One without an identity is a fence ([`fence`]).

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use thiserror::Error;

use crate::message::{Report, State};
use crate::wire::{self, Fields, WireError, Writer};

/// The socket's name; short, since a socket's path has at most 107 bytes.
pub const SOCKET: &str = "s";
/// The registry entry.
pub const IDENTITY: &str = "identity";
/// The final state.
pub const LAST_WORD: &str = "last-word";
/// Unacknowledged standard output.
pub const STDOUT: &str = "stdout";
/// The tail of standard error.
pub const STDERR: &str = "stderr";
/// The environment variable every process of a tree inherits; its value is the runtime's id.
pub const MARKER: &str = "OSTLER_RUNTIME";

/// What a fence has in it instead of an identity.
const FENCED: &str = "fenced";

const KIND_IDENTITY: u16 = 101;
const KIND_STARTED: u16 = 102;

/// Who a keeper is and what it was made for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The runtime.
    pub runtime: String,
    /// The owner it was made by.
    pub owner: String,
    /// What an owner must show to attach.
    pub secret: Vec<u8>,
    /// The keeper's process id and start time.
    pub keeper: (i32, u64),
    /// The control group leaf, where there is one.
    pub leaf: Option<PathBuf>,
    /// The leader's process id and start time, once forked.
    pub leader: Option<(i32, u64)>,
}

/// Why a folder cannot be read.
#[derive(Debug, Error)]
pub enum FolderError {
    /// The file could not be read.
    #[error("{path} could not be read")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The file's bytes are not frames of a known version.
    #[error("{path} is malformed")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: WireError,
    },
}

impl Identity {
    /// Reads a folder's identity; `None` if its keeper has not written one.
    ///
    /// # Errors
    ///
    /// [`FolderError`] if there is one that cannot be understood.
    pub fn read(folder: &Path) -> Result<Option<Self>, FolderError> {
        let path = folder.join(IDENTITY);
        let Some(bytes) = read_if_there(&path)? else { return Ok(None) };
        Self::parse(&bytes).map(Some).map_err(|source| FolderError::Malformed { path, source })
    }

    fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        let frame = wire::cut(bytes)?.ok_or(WireError::Field)?;
        let fields = Fields::parse(frame.body)?;
        let mut identity = Self {
            runtime: fields.text(1)?,
            owner: fields.text(2)?,
            secret: fields.bytes(3)?.to_vec(),
            keeper: (fields.number(4)? as i32, fields.number(5)?),
            leaf: fields.get(6).map(path_from_bytes),
            leader: None,
        };
        // A keeper killed while it appended the second frame leaves half of it; the first one still stands.
        if let Ok(Some(started)) = wire::cut(&bytes[frame.size..]) {
            let fields = Fields::parse(started.body)?;
            identity.leader = Some((fields.number(1)? as i32, fields.number(2)?));
        }
        Ok(identity)
    }

    pub(crate) fn write(&self, folder: &Path) -> io::Result<()> {
        let writer = Writer::frame(KIND_IDENTITY)
            .text(1, &self.runtime)
            .text(2, &self.owner)
            .bytes(3, &self.secret)
            .number(4, self.keeper.0 as u64)
            .number(5, self.keeper.1);
        let writer = match &self.leaf {
            Some(leaf) => writer.bytes(6, leaf.as_os_str().as_encoded_bytes()),
            None => writer,
        };
        write_by_rename(folder, IDENTITY, &[&writer.into_frame()])
    }

    pub(crate) fn append_leader(folder: &Path, pid: i32, start: u64) -> io::Result<()> {
        let frame = Writer::frame(KIND_STARTED).number(1, pid as u64).number(2, start).into_frame();
        File::options().append(true).open(folder.join(IDENTITY))?.write_all(&frame)
    }
}

/// What a keeper left when nobody came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastWord {
    /// The final state.
    pub state: State,
    /// Standard output from `state.stdout.base` on.
    pub stdout: Vec<u8>,
    /// Standard error from `state.stderr.base` on.
    pub stderr: Vec<u8>,
}

impl LastWord {
    /// Reads a folder's last word; `None` if there is none.
    ///
    /// # Errors
    ///
    /// [`FolderError`] if there is one that cannot be understood.
    pub fn read(folder: &Path) -> Result<Option<Self>, FolderError> {
        let path = folder.join(LAST_WORD);
        let Some(bytes) = read_if_there(&path)? else { return Ok(None) };
        let state = parse_state(&bytes).map_err(|source| FolderError::Malformed { path, source })?;
        let stdout = read_if_there(&folder.join(STDOUT))?.unwrap_or_default();
        let stderr = read_if_there(&folder.join(STDERR))?.unwrap_or_default();
        Ok(Some(Self { state, stdout, stderr }))
    }
}

fn parse_state(bytes: &[u8]) -> Result<State, WireError> {
    let frame = wire::cut(bytes)?.ok_or(WireError::Field)?;
    match Report::decode(&frame)? {
        Report::State(state) => Ok(*state),
        other => Err(WireError::Kind(other.kind())),
    }
}

/// A runtime's folder while it is being made, under a name that nobody looks for.
#[derive(Debug)]
pub(crate) struct Registration {
    making: PathBuf,
    folder: PathBuf,
}

impl Registration {
    /// Makes it, private to the user; its parent must exist.
    pub(crate) fn begin(folder: &Path) -> io::Result<Self> {
        let making = hidden(folder, "");
        DirBuilder::new().mode(0o700).create(&making)?;
        Ok(Self { making, folder: folder.to_owned() })
    }

    /// Where to put things meanwhile.
    pub(crate) fn path(&self) -> &Path {
        &self.making
    }

    /// Gives it its name, with everything in it. `AlreadyExists` if that is taken: by a fence, or another keeper.
    pub(crate) fn finish(self) -> io::Result<()> {
        rename_new(&self.making, &self.folder)
    }
}

impl Drop for Registration {
    /// What did not get its name is taken back.
    fn drop(&mut self) {
        let _left_to_the_next_start = remove(&self.making);
    }
}

/// Takes the place of a runtime's folder, so that a keeper which has not registered by now never does, and never
/// starts anything. Also `true` if an earlier fence stands there; `false` if a keeper has registered.
///
/// # Errors
///
/// Those of the file system; then nothing is known.
pub fn fence(folder: &Path) -> io::Result<bool> {
    let making = hidden(folder, ".fence");
    fs::create_dir_all(&making)?;
    // With something in it, no rename can replace it.
    File::create(making.join(FENCED))?;
    match rename_new(&making, folder) {
        Ok(()) => Ok(true),
        Err(error) => {
            remove(&making)?;
            if error.kind() == io::ErrorKind::AlreadyExists { Ok(folder.join(FENCED).exists()) } else { Err(error) }
        }
    }
}

/// The runtime whose folder this is, by its name: also while it is being made.
pub fn runtime_of(folder: &Path) -> Option<&str> {
    let name = folder.file_name()?.to_str()?;
    let shown = name.strip_prefix('.').unwrap_or(name);
    Some(shown.strip_suffix(".fence").unwrap_or(shown))
}

fn hidden(folder: &Path, suffix: &str) -> PathBuf {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    folder.with_file_name(format!(".{name}{suffix}"))
}

/// Renames a folder to a name that must be free.
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    let renamed = match renameat2(AT_FDCWD, from, AT_FDCWD, to, RenameFlags::RENAME_NOREPLACE) {
        // A file system without that flag still refuses to replace a folder that has something in it.
        Err(Errno::EINVAL | Errno::ENOSYS) => return not_empty_exists(fs::rename(from, to)),
        other => other,
    };
    not_empty_exists(renamed.map_err(io::Error::from))
}

fn not_empty_exists(renamed: io::Result<()>) -> io::Result<()> {
    renamed.map_err(|error| match error.kind() {
        io::ErrorKind::DirectoryNotEmpty => Errno::EEXIST.into(),
        _ => error,
    })
}

/// Removes a runtime's folder and what the keeper put into it. A folder that is gone already is no error.
///
/// # Errors
///
/// The first error of the file system.
pub fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// A stream's kept bytes, in the two runs of their ring.
pub(crate) type Kept<'a> = (&'a [u8], &'a [u8]);

/// Writes the outputs first and the last word after them: its presence says that all is there.
pub(crate) fn write_last_word(folder: &Path, state: State, stdout: Kept<'_>, stderr: Kept<'_>) -> io::Result<()> {
    write_by_rename(folder, STDOUT, &[stdout.0, stdout.1])?;
    write_by_rename(folder, STDERR, &[stderr.0, stderr.1])?;
    write_by_rename(folder, LAST_WORD, &[&Report::State(Box::new(state)).encode()])
}

fn write_by_rename(folder: &Path, name: &str, parts: &[&[u8]]) -> io::Result<()> {
    let (path, temporary) = (folder.join(name), folder.join(format!(".{name}")));
    let mut file = File::create(&temporary)?;
    for part in parts {
        file.write_all(part)?;
    }
    drop(file);
    fs::rename(temporary, path)
}

fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, FolderError> {
    let read = |path| {
        let mut bytes = Vec::new();
        File::open(path)?.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    match read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if io::Error::kind(&error) == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(FolderError::Read { path: path.to_owned(), source }),
    }
}

fn path_from_bytes(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    std::ffi::OsString::from_vec(bytes.to_vec()).into()
}
