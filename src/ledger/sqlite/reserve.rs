//! A file that is only there to be removed: its room lets running tasks settle on a full disk.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use nix::fcntl::posix_fallocate;

/// Room kept beside the database.
#[derive(Debug)]
pub(super) struct Reserve {
    path: PathBuf,
    bytes: u64,
}

impl Reserve {
    /// Allocates the room; a disk without it gets none, and the next checkpoint tries again.
    pub(super) fn make(database: &Path, bytes: u64) -> Self {
        let reserve = Self { path: database.with_extension("reserve"), bytes };
        reserve.restore();
        reserve
    }

    /// Gives the room back to the disk. `false` if there was none.
    pub(super) fn release(&self) -> bool {
        fs::remove_file(&self.path).is_ok()
    }

    /// Allocates the room again if it was used.
    pub(super) fn restore(&self) {
        if self.bytes == 0 || self.path.exists() {
            return;
        }
        let allocate = |file: File| posix_fallocate(file, 0, self.bytes as i64).map_err(std::io::Error::from);
        if let Err(error) = File::create_new(&self.path).and_then(allocate) {
            tracing::debug!(%error, "no room for the ledger's reserve");
            self.release();
        }
    }
}
