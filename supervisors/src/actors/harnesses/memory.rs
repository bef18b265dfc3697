//! How the harnesses of a daemon stand, in a file that the next daemon of this boot reads.
//!
//! It is of this machine alone, and nothing is lost with it but the count of failures: so it is no part of the ledger. A
//! file that cannot be read counts as none, and is said.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::clock;
use crate::contract::HarnessId;
use crate::machines::health::Standing;

/// The largest file that is read.
const LARGEST: u64 = 1 << 20;

/// The file's shape. Times are those of one boot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    boot: String,
    harnesses: BTreeMap<HarnessId, Standing>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum File {
    UpToDate,
    Behind,
    BeingWritten,
    /// It is being written, and behind again.
    BehindAgain,
}

#[derive(Debug)]
pub(super) struct Memory {
    path: Option<PathBuf>,
    known: BTreeMap<HarnessId, Standing>,
    file: File,
}

impl Memory {
    /// What an earlier process of this boot left there.
    pub(super) fn read(path: Option<PathBuf>) -> Self {
        let known = path.as_deref().map(known).unwrap_or_default();
        Self { path, known, file: File::UpToDate }
    }

    pub(super) fn of(&self, id: &HarnessId) -> Standing {
        self.known.get(id).copied().unwrap_or_default()
    }

    pub(super) fn set(&mut self, id: HarnessId, standing: Standing) {
        self.known.insert(id, standing);
        self.file = match self.file {
            File::UpToDate | File::Behind => File::Behind,
            File::BeingWritten | File::BehindAgain => File::BehindAgain,
        };
    }

    /// Writes what is known now, if that is due.
    pub(super) fn write(&mut self) -> Option<impl Future<Output = ()> + use<>> {
        let path = self.path.clone().filter(|_| self.file == File::Behind)?;
        self.file = File::BeingWritten;
        let harnesses = self.known.iter().filter(|(_, standing)| **standing != Standing::default());
        let harnesses = harnesses.map(|(id, standing)| (id.clone(), *standing)).collect();
        let kept = Kept { boot: clock::boot_id().to_owned(), harnesses };
        Some(async move {
            let written = tokio::task::spawn_blocking(move || write(&path, &kept)).await;
            if let Err(error) = written.unwrap_or_else(|error| Err(io::Error::other(error))) {
                tracing::warn!(%error, "how the harnesses stand is not kept for the next daemon");
            }
        })
    }

    pub(super) fn written(&mut self) {
        self.file = if self.file == File::BehindAgain { File::Behind } else { File::UpToDate };
    }
}

fn known(path: &Path) -> BTreeMap<HarnessId, Standing> {
    let read = || {
        if path.metadata()?.len() > LARGEST {
            return Err(io::Error::new(ErrorKind::FileTooLarge, "it is too large"));
        }
        Ok(serde_json::from_slice::<Kept>(&std::fs::read(path)?)?)
    };
    match read() {
        Ok(kept) if kept.boot == clock::boot_id() => kept.harnesses,
        Ok(_) => BTreeMap::new(),
        Err(error) if error.kind() == ErrorKind::NotFound => BTreeMap::new(),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "how the harnesses stood is not known");
            BTreeMap::new()
        }
    }
}

/// Whoever is killed on the way leaves the file as it was.
fn write(path: &Path, kept: &Kept) -> io::Result<()> {
    let unfinished = path.with_extension("new");
    std::fs::write(&unfinished, serde_json::to_vec(kept)?)?;
    std::fs::rename(unfinished, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machines::Millis;

    fn id(name: &str) -> HarnessId {
        name.parse().expect("id")
    }

    const SHUT: Standing = Standing { failures: 5, until: Some(Millis(7)) };

    #[test]
    fn what_was_written_is_read_in_the_same_boot_alone() {
        let folder = tempfile::tempdir().expect("made");
        let path = folder.path().join("harnesses.json");
        let harnesses = BTreeMap::from([(id("a"), SHUT)]);
        for (boot, expected) in [(clock::boot_id(), SHUT), ("another", Standing::default())] {
            write(&path, &Kept { boot: boot.to_owned(), harnesses: harnesses.clone() }).expect("written");
            assert_eq!(Memory::read(Some(path.clone())).of(&id("a")), expected, "{boot}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_is_none() {
        let folder = tempfile::tempdir().expect("made");
        let path = folder.path().join("harnesses.json");
        for bytes in [&b"{"[..], &[0; (LARGEST + 1) as usize]] {
            std::fs::write(&path, bytes).expect("written");
            assert_eq!(Memory::read(Some(path.clone())).of(&id("a")), Standing::default());
        }
    }

    #[test]
    fn what_changes_during_a_write_is_in_the_next() {
        let mut memory = Memory::read(Some(PathBuf::from("/nowhere/harnesses.json")));
        assert!(memory.write().is_none());
        memory.set(id("a"), SHUT);
        assert!(memory.write().is_some());
        memory.set(id("b"), SHUT);
        assert!(memory.write().is_none(), "one at a time");
        memory.written();
        assert!(memory.write().is_some());
        memory.written();
        assert!(memory.write().is_none());
    }
}
