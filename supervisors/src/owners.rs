//! Owners: each Ostler process holds a lock on its owner file; what names a free owner may be taken over.
//!
//! ```text
//! <state>/owners/<owner id>        the lock, and what kind of owner it is
//! <state>/owners/<owner id>.sock   its control socket
//! ```

use std::collections::HashMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock;
use crate::contract::OwnerId;
use crate::file_lock::{FileLock, LockError};

/// What kind of process an owner is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OwnerKind {
    /// One command of a shell: nobody comes back for its work.
    Run,
    /// The daemon: the next one goes on with its work.
    Serve,
}

/// This process as an owner, and what it knows of others.
#[derive(Debug)]
pub struct Owners {
    folder: PathBuf,
    own: OwnerId,
    kind: OwnerKind,
    takeover: FileLock,
    _lock: File,
}

/// How long another process may be at taking over. It stores one row meanwhile.
const TAKEOVER: Duration = Duration::from_secs(5);

impl Owners {
    /// Takes a lock of its own, for as long as this process lives.
    ///
    /// # Errors
    ///
    /// If the folder cannot be written.
    pub fn register(folder: &Path, kind: OwnerKind) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let own = OwnerId::generate(clock::wall_ms());
        // Locked before it has its name: no other process ever sees it free while this one lives.
        let hidden = folder.join(format!(".{own}"));
        let mut file = File::create_new(&hidden)?;
        file.lock()?;
        file.write_all(serde_json::to_string(&kind).unwrap_or_default().as_bytes())?;
        fs::rename(hidden, folder.join(own.as_str()))?;
        let takeover = FileLock::new(folder.with_extension("lock"));
        Ok(Self { folder: folder.to_owned(), own, kind, takeover, _lock: file })
    }

    /// Its id.
    pub fn own(&self) -> &OwnerId {
        &self.own
    }

    /// Its kind.
    pub fn kind(&self) -> OwnerKind {
        self.kind
    }

    /// The place of an owner's control socket.
    pub fn socket(folder: &Path, owner: &OwnerId) -> PathBuf {
        folder.join(format!("{owner}.sock"))
    }

    /// Owners whose lock is free: they are gone.
    ///
    /// # Cancel safety
    ///
    /// A dropped future changes nothing.
    pub async fn free(&self) -> HashMap<OwnerId, OwnerKind> {
        let (folder, own) = (self.folder.clone(), self.own.clone());
        let look = move || {
            let owners = list(&folder).filter(|owner| *owner != own);
            owners
                .filter_map(|owner| Some((kind_if_free(&folder.join(owner.as_str()))?, owner)))
                .map(|(k, o)| (o, k))
                .collect()
        };
        tokio::task::spawn_blocking(look).await.unwrap_or_default()
    }

    /// Holds every other process off from taking over, until the returned lock is dropped.
    ///
    /// # Errors
    ///
    /// [`LockError::Held`] if another process has been at it for some seconds.
    ///
    /// # Cancel safety
    ///
    /// A dropped future gives the lock back as soon as it gets it.
    pub async fn takeover(&self) -> Result<File, LockError> {
        self.takeover.lock(TAKEOVER).await
    }

    /// Whether somebody who lives is this owner. One without a file is gone.
    pub fn is_held(&self, owner: &OwnerId, free: &HashMap<OwnerId, OwnerKind>) -> bool {
        // Where nobody can tell, it is.
        !free.contains_key(owner) && self.folder.join(owner.as_str()).try_exists().unwrap_or(true)
    }

    /// Removes what gone owners left here, once everything of theirs was taken over.
    pub async fn forget(&self, gone: &HashMap<OwnerId, OwnerKind>) {
        for owner in gone.keys() {
            for path in [self.folder.join(owner.as_str()), Self::socket(&self.folder, owner)] {
                // Another process may be doing the same.
                let _already_gone = fs::remove_file(path);
            }
        }
    }
}

/// Removes an owner's files: for one that leaves nothing behind, as the last thing it does.
pub fn leave(folder: &Path, owner: &OwnerId) {
    for path in [folder.join(owner.as_str()), Owners::socket(folder, owner)] {
        // What is not there needs no removal; what cannot be removed is forgotten by the next owner.
        let _already_gone = fs::remove_file(path);
    }
}

/// Every owner that has a file.
fn list(folder: &Path) -> impl Iterator<Item = OwnerId> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let name = |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().into_string().ok();
    entries
        .filter_map(name)
        .filter(|name| !name.ends_with(".sock") && !name.starts_with('.'))
        .filter_map(|name| name.parse().ok())
}

fn kind_if_free(path: &Path) -> Option<OwnerKind> {
    let mut file = File::open(path).ok()?;
    match file.try_lock_shared() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock | TryLockError::Error(_)) => return None,
    }
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    // A file that was locked before anything was written to it belongs to a process that died at once.
    Some(serde_json::from_str(&text).unwrap_or(OwnerKind::Run))
}

/// Owners that live, with what kind they are.
pub fn living(folder: &Path) -> Vec<OwnerId> {
    list(folder).filter(|owner| kind_if_free(&folder.join(owner.as_str())).is_none()).collect()
}
