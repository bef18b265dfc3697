//! Control group leaves (cgroup v2): tried, never asked for.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why a leaf could not be removed.
#[derive(Debug, Error)]
#[error("control group {path} could not be removed")]
pub struct LeafError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// One runtime's control group.
#[derive(Debug)]
pub(crate) struct Leaf {
    directory: PathBuf,
}

impl Leaf {
    /// Makes the leaf; `None` where the kernel or the permissions do not allow one that can be killed as a whole.
    pub(crate) fn make(parent: &Path, name: &str) -> Option<Self> {
        let leaf = Self { directory: parent.join(name) };
        fs::create_dir(&leaf.directory).ok()?;
        if leaf.directory.join("cgroup.kill").exists() && leaf.procs().is_ok() {
            return Some(leaf);
        }
        // The probe's own directory; if even this fails, the caller goes without a leaf all the same.
        let _unused = fs::remove_dir(&leaf.directory);
        None
    }

    /// The file through which a process joins by writing `0`.
    pub(crate) fn procs(&self) -> io::Result<File> {
        File::options().write(true).open(self.directory.join("cgroup.procs"))
    }

    /// Kills every process in it, atomically.
    pub(crate) fn kill(&self) -> io::Result<()> {
        fs::write(self.directory.join("cgroup.kill"), "1")
    }

    /// The kernel's own word on whether any process is in it or below; a leaf that is gone holds none.
    pub(crate) fn is_populated(&self) -> bool {
        match fs::read_to_string(self.directory.join("cgroup.events")) {
            Ok(text) => !text.lines().any(|line| line == "populated 0"),
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        }
    }

    /// Removes the empty leaf with whatever groups the agent made below it.
    pub(crate) fn remove(&self) -> Result<(), LeafError> {
        remove_leaf(&self.directory)
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }
}

/// Removes an empty control group and the empty groups below it. One that is gone already is no error.
///
/// # Errors
///
/// [`LeafError`] while a process is in it.
pub fn remove_leaf(directory: &Path) -> Result<(), LeafError> {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_leaf(&entry.path())?;
        }
    }
    match fs::remove_dir(directory) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(LeafError { path: directory.to_owned(), source })
        }
        _ => Ok(()),
    }
}

/// The directory below which leaves can really be made, found by making and removing one.
pub fn usable_leaf_parent() -> Option<PathBuf> {
    let parent = own_group()?;
    let probe = Leaf::make(&parent, &format!("ostler-probe-{}", std::process::id()))?;
    probe.remove().ok()?;
    Some(parent)
}

/// This process's own group in the cgroup v2 hierarchy, wherever that is mounted.
fn own_group() -> Option<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mount = mounts.lines().find_map(cgroup2_mount)?;
    Some(mount.join(path.trim_start_matches('/')))
}

fn cgroup2_mount(line: &str) -> Option<PathBuf> {
    let (mount, kind) = line.split_once(" - ")?;
    kind.starts_with("cgroup2 ").then(|| mount.split(' ').nth(4).map(PathBuf::from))?
}
