//! A lock on a file, between processes: waited for as long as is said, and no longer.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thiserror::Error;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

/// Why a lock was not taken.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LockError {
    /// Somebody else has it for longer than was waited.
    #[error("another process has had the lock for a while")]
    Held,
    /// It cannot be taken at all.
    #[error("the lock cannot be taken: {0}")]
    Io(#[from] io::Error),
}

/// A file that is there to be locked. Those who want it in one process wait for each other first.
#[derive(Debug)]
pub struct FileLock {
    path: PathBuf,
    turn: tokio::sync::Mutex<()>,
    wait: Arc<Mutex<Wait>>,
}

/// Nothing ends a wait for a lock but the lock. So it has a thread of its own, which no process waits for at its end;
/// one, however often somebody gives up and comes again.
#[derive(Debug, Default)]
struct Wait {
    thread: Thread,
    wanted: Option<oneshot::Sender<io::Result<File>>>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Thread {
    #[default]
    None,
    Waits,
}

impl FileLock {
    /// A lock on the file of this path, which is made if it is not there.
    pub fn new(path: PathBuf) -> Self {
        Self { path, turn: tokio::sync::Mutex::new(()), wait: Arc::default() }
    }

    /// Takes it, until what is returned is dropped.
    ///
    /// # Errors
    ///
    /// [`LockError::Held`] if it is not free within this time.
    ///
    /// # Cancel safety
    ///
    /// A dropped future has not taken it, or gives it back at once.
    pub async fn lock(&self, within: Duration) -> Result<File, LockError> {
        let until = Instant::now() + within;
        let _turn = timeout_at(until, self.turn.lock()).await.map_err(|_| LockError::Held)?;
        let locked = self.wanted()?;
        let locked = timeout_at(until, locked).await.map_err(|_| LockError::Held)?;
        Ok(locked.unwrap_or_else(|gone| Err(io::Error::other(gone)))?)
    }

    fn wanted(&self) -> io::Result<oneshot::Receiver<io::Result<File>>> {
        let (sender, locked) = oneshot::channel();
        let mut wait = guard(&self.wait);
        wait.wanted = Some(sender);
        if wait.thread == Thread::None {
            let (path, wait) = (self.path.clone(), self.wait.clone());
            std::thread::Builder::new().name("file-lock".to_owned()).spawn(move || hand_over(take(path), &wait))?;
        }
        wait.thread = Thread::Waits;
        Ok(locked)
    }
}

fn take(path: PathBuf) -> io::Result<File> {
    let file = File::options().create(true).write(true).truncate(false).open(path)?;
    file.lock()?;
    Ok(file)
}

/// What nobody wants any more is given back.
fn hand_over(locked: io::Result<File>, wait: &Mutex<Wait>) {
    let wanted = std::mem::take(&mut *guard(wait)).wanted;
    if let Some(wanted) = wanted {
        drop(wanted.send(locked));
    }
}

fn guard(wait: &Mutex<Wait>) -> MutexGuard<'_, Wait> {
    wait.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(50);
    const LATE: Duration = Duration::from_secs(60);

    fn place() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.lock");
        (folder, path)
    }

    /// Threads that wait for it: each shares the record of who wants it.
    fn threads(lock: &FileLock) -> usize {
        Arc::strong_count(&lock.wait) - 1
    }

    #[tokio::test]
    async fn a_free_one_is_taken_and_given_back() {
        let (_folder, path) = place();
        let (one, other) = (FileLock::new(path.clone()), FileLock::new(path));
        let held = one.lock(LATE).await.expect("free");
        assert!(matches!(other.lock(SOON).await, Err(LockError::Held)));
        drop(held);
        other.lock(LATE).await.expect("free again");
    }

    #[tokio::test]
    async fn who_comes_again_gets_it_from_the_wait_that_was_given_up() {
        let (_folder, path) = place();
        let (holder, lock) = (FileLock::new(path.clone()), FileLock::new(path));
        let held = holder.lock(LATE).await.expect("free");
        for _ in 0..20 {
            assert!(matches!(lock.lock(Duration::from_millis(5)).await, Err(LockError::Held)));
            assert_eq!(threads(&lock), 1);
        }
        let release = async {
            assert_eq!(threads(&lock), 1);
            drop(held);
        };
        let (taken, ()) = tokio::join!(lock.lock(LATE), release);
        let _taken = taken.expect("free again");
        assert!(matches!(holder.lock(SOON).await, Err(LockError::Held)), "it is really taken");
    }

    #[tokio::test]
    async fn what_nobody_waits_for_any_more_is_given_back() {
        let (_folder, path) = place();
        let (holder, lock) = (FileLock::new(path.clone()), FileLock::new(path));
        let held = holder.lock(LATE).await.expect("free");
        assert!(matches!(lock.lock(SOON).await, Err(LockError::Held)));
        drop(held);
        holder.lock(LATE).await.expect("the wait that was given up does not keep it");
    }

    #[tokio::test]
    async fn those_of_one_process_wait_for_each_other_and_no_longer_than_said() {
        let (_folder, path) = place();
        let (holder, lock) = (FileLock::new(path.clone()), FileLock::new(path));
        let _held = holder.lock(LATE).await.expect("free");
        let (one, other) = tokio::join!(lock.lock(SOON), lock.lock(SOON));
        assert!(matches!((one, other), (Err(LockError::Held), Err(LockError::Held))));
    }

    #[tokio::test]
    async fn one_that_cannot_be_made_is_told() {
        let (folder, _) = place();
        let lock = FileLock::new(folder.path().join("no").join("x.lock"));
        assert!(matches!(lock.lock(LATE).await, Err(LockError::Io(_))));
    }
}
