//! What is left of a runtime: what its folder says of its keeper, and what a killed keeper left.
//!
//! "Cannot be read" is never "gone": an error says that nothing is known, and the caller looks again.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use ostler_keeper::folder::{self, FolderError, Identity, LastWord, SOCKET};
use ostler_keeper::tree::Stat;
use thiserror::Error;

use super::sweep::{Swept, sweep};
use crate::clock;
use crate::ledger::RuntimeRow;

/// Why nothing is known of a runtime. It may well live.
#[derive(Debug, Error)]
pub(in crate::actors) enum LookError {
    /// Its folder cannot be read.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// Its folder could not be taken, so that its keeper may still start.
    #[error("its folder could not be taken: {0}")]
    Fence(#[source] io::Error),
    /// The kernel does not say who lives.
    #[error("the processes of this machine could not be read: {0}")]
    Processes(#[source] io::Error),
    /// Somebody listens there whose identity this program does not understand.
    #[error("its keeper lives, and what it wrote of itself cannot be understood")]
    NotUnderstood,
}

/// What a folder says.
#[derive(Debug)]
pub(in crate::actors) enum Look {
    /// A keeper lives; this secret makes an owner of who shows it.
    Living(Vec<u8>),
    /// It has ended as it should, and left this.
    LastWord(Box<LastWord>),
    /// It was killed.
    Gone(Option<Identity>),
}

/// What is left of a runtime.
#[derive(Debug)]
pub(in crate::actors) enum Standing {
    /// Its keeper never registered, and can no longer.
    NeverStarted,
    /// Its keeper lives.
    Living(Vec<u8>),
    /// Its keeper has ended as it should.
    LastWord(Box<LastWord>),
    /// Its keeper was killed, and nothing of it is found any more.
    Swept,
    /// Its keeper was killed, and processes of it outlive every signal.
    Leaked,
    /// It was of an earlier boot.
    Rebooted,
}

/// Whether its keeper may still be about to register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::actors) enum Start {
    /// It may, so its place is taken first.
    Open,
    /// It has registered.
    Over,
}

/// Looks for what is left of a runtime, and ends it where its keeper cannot any more.
///
/// # Errors
///
/// [`LookError`]: nothing is known of what is left.
pub(in crate::actors) async fn stands(row: &RuntimeRow, start: Start) -> Result<Standing, LookError> {
    let of_this_boot = row.boot == clock::boot_id();
    let folder = row.folder.clone();
    let looked = off_the_loop(move || {
        if of_this_boot && start == Start::Open && folder::fence(&folder).map_err(LookError::Fence)? {
            return Ok(None);
        }
        look(&folder).map(Some)
    });
    Ok(match looked.await? {
        None => Standing::NeverStarted,
        Some(Look::LastWord(word)) => Standing::LastWord(word),
        Some(_) if !of_this_boot => Standing::Rebooted,
        Some(Look::Living(secret)) => Standing::Living(secret),
        Some(Look::Gone(identity)) => {
            match sweep(identity.as_ref(), row.id.as_str()).await.map_err(LookError::Processes)? {
                Swept::Empty => Standing::Swept,
                Swept::Left => Standing::Leaked,
            }
        }
    })
}

/// Whether a folder says that its keeper lives, or does not say that it has ended.
pub(super) async fn may_live(folder: &Path) -> bool {
    let folder = folder.to_owned();
    !matches!(off_the_loop(move || look(&folder)).await, Ok(Look::LastWord(_) | Look::Gone(_)))
}

async fn off_the_loop<T: Send + 'static>(
    look: impl FnOnce() -> Result<T, LookError> + Send + 'static,
) -> Result<T, LookError> {
    let interrupted = |error| Err(LookError::Processes(io::Error::other(error)));
    tokio::task::spawn_blocking(look).await.unwrap_or_else(interrupted)
}

/// One look at a folder.
fn look(folder: &Path) -> Result<Look, LookError> {
    // In this order: a keeper writes its last word before it ends, so one that is dead by now has written it, or never
    // does.
    let (identity, living) = match Identity::read(folder) {
        Ok(None) => (None, false),
        Ok(Some(identity)) => {
            let living = is_alive(identity.keeper).map_err(LookError::Processes)?;
            (Some(identity), living)
        }
        Err(FolderError::Malformed { .. }) if !listens(folder).map_err(LookError::Processes)? => (None, false),
        Err(FolderError::Malformed { .. }) => return Err(LookError::NotUnderstood),
        Err(error) => return Err(error.into()),
    };
    match (LastWord::read(folder), identity) {
        (Ok(Some(word)), _) => Ok(Look::LastWord(Box::new(word))),
        (Err(error @ FolderError::Read { .. }), _) => Err(error.into()),
        (_, Some(identity)) if living => Ok(Look::Living(identity.secret)),
        (_, identity) => Ok(Look::Gone(identity)),
    }
}

/// Whether the process of this id and start time lives.
fn is_alive((pid, start): (i32, u64)) -> io::Result<bool> {
    Ok(Stat::look(pid)?.is_some_and(|stat| stat.start == start && !stat.is_dead()))
}

/// Whether somebody listens in a folder: the kernel's own word, where the folder's cannot be understood.
fn listens(folder: &Path) -> io::Result<bool> {
    // By a short name, since a path of a state folder may be longer than a socket's can be.
    let directory = File::open(folder)?;
    let address = UnixAddr::new(format!("/proc/self/fd/{}/{SOCKET}", directory.as_raw_fd()).as_str())?;
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let own = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    match connect(own.as_raw_fd(), &address) {
        // So many wait already that there is no room for one more.
        Ok(()) | Err(Errno::EAGAIN) => Ok(true),
        Err(Errno::ECONNREFUSED | Errno::ENOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener;

    use super::*;

    /// A file that nobody can read, also not the first user: it is a directory.
    fn unreadable(folder: &Path, name: &str) {
        std::fs::create_dir(folder.join(name)).expect("made");
        std::fs::set_permissions(folder.join(name), std::fs::Permissions::from_mode(0o000)).expect("set");
    }

    #[test]
    fn what_cannot_be_read_is_not_gone() {
        for name in [folder::IDENTITY, folder::LAST_WORD] {
            let folder = tempfile::tempdir().expect("made");
            unreadable(folder.path(), name);
            assert!(matches!(look(folder.path()), Err(LookError::Folder(FolderError::Read { .. }))), "{name}");
        }
    }

    #[test]
    fn what_cannot_be_understood_is_gone_when_nobody_listens() {
        let folder = tempfile::tempdir().expect("made");
        std::fs::write(folder.path().join(folder::IDENTITY), b"of another time").expect("written");
        assert!(matches!(look(folder.path()), Ok(Look::Gone(None))));
        let listener = UnixListener::bind(folder.path().join(SOCKET)).expect("bound");
        assert!(matches!(look(folder.path()), Err(LookError::NotUnderstood)));
        drop(listener);
        assert!(matches!(look(folder.path()), Ok(Look::Gone(None))));
    }
}
