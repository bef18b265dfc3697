//! Control group leaves (cgroup v2): tried, never asked for.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::libc;
use thiserror::Error;

use crate::message::{LimitKind, LimitStanding};

/// Why a leaf could not be removed.
#[derive(Debug, Error)]
#[error("control group {path} could not be removed")]
pub struct LeafError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// Why a limit does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotInForce {
    pub(crate) standing: LimitStanding,
    pub(crate) errno: i32,
}

impl NotInForce {
    pub(crate) fn because(standing: LimitStanding) -> Self {
        Self { standing, errno: 0 }
    }

    pub(crate) fn by(errno: Errno) -> Self {
        Self { standing: LimitStanding::Refused, errno: errno as i32 }
    }

    fn refused(error: &io::Error) -> Self {
        Self { standing: LimitStanding::Refused, errno: error.raw_os_error().unwrap_or(libc::EIO) }
    }
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

    /// Limits everything in it, and says to how much: the kernel rounds.
    pub(crate) fn limit(&self, kind: LimitKind, value: u64) -> Result<u64, NotInForce> {
        let (controller, file) = match kind {
            LimitKind::Memory => ("memory", "memory.max"),
            LimitKind::Swap => ("memory", "memory.swap.max"),
            LimitKind::Processes => ("pids", "pids.max"),
            _ => return Err(NotInForce::by(Errno::EINVAL)),
        };
        let path = self.directory.join(file);
        if !path.exists() {
            self.enable(controller)?;
        }
        write_existing(&path, &value.to_string()).map_err(|error| NotInForce::refused(&error))?;
        let held = fs::read_to_string(&path).map_err(|error| NotInForce::refused(&error))?;
        // A value above all that there is reads `max`.
        Ok(held.trim().parse().unwrap_or(value))
    }

    /// Asks the group above for a controller: leaves get none by themselves.
    fn enable(&self, controller: &str) -> Result<(), NotInForce> {
        let above = self.directory.parent().unwrap_or(&self.directory);
        let given = fs::read_to_string(above.join("cgroup.controllers")).unwrap_or_default();
        if !given.split_ascii_whitespace().any(|name| name == controller) {
            return Err(NotInForce::because(LimitStanding::NotDelegated));
        }
        let enabled = write_existing(&above.join("cgroup.subtree_control"), &format!("+{controller}"));
        enabled.map_err(|error| NotInForce::refused(&error))
    }

    /// How many processes in it or below were killed for lack of memory, its own or the machine's.
    pub(crate) fn oom_kills(&self) -> Option<u64> {
        let events = fs::read_to_string(self.directory.join("memory.events")).ok()?;
        events.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
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

fn write_existing(path: &Path, text: &str) -> io::Result<()> {
    File::options().write(true).open(path)?.write_all(text.as_bytes())
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
///
/// It is this process's own group, or the one above where that was delegated and has given its processes this group to
/// be in: only a group without processes of its own can hand the memory controller on.
pub fn usable_leaf_parent() -> Option<PathBuf> {
    let own = own_group()?;
    let above = own.parent().filter(|above| is_delegated(above)).map(Path::to_owned);
    above.into_iter().chain([own]).find(|parent| can_have_leaves(parent))
}

fn can_have_leaves(parent: &Path) -> bool {
    let probe = Leaf::make(parent, &format!("ostler-probe-{}", std::process::id()));
    probe.is_some_and(|probe| probe.remove().is_ok())
}

/// Whether the manager of the groups has given this one away, by the mark it puts on such.
fn is_delegated(group: &Path) -> bool {
    let Ok(path) = CString::new(group.as_os_str().as_bytes()) else { return false };
    [c"user.delegate", c"trusted.delegate"].iter().any(|name| {
        let mut value = [0_u8; 1];
        // SAFETY: both names end in a zero byte, and the kernel writes at most as many bytes as the buffer has.
        let length = unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), value.as_mut_ptr().cast(), value.len()) };
        length == 1 && value == *b"1"
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with the files of a group: what the kernel answers is put there, and what is written can be read.
    struct Group {
        root: tempfile::TempDir,
        leaf: Leaf,
    }

    fn group(controllers: &str) -> Group {
        let root = tempfile::tempdir().expect("a folder");
        let leaf = Leaf { directory: root.path().join("leaf") };
        fs::create_dir(&leaf.directory).expect("made");
        fs::write(root.path().join("cgroup.controllers"), controllers).expect("written");
        Group { root, leaf }
    }

    #[test]
    fn a_controller_that_is_not_given_is_named_so() {
        let group = group("cpu io\n");
        let refused = group.leaf.limit(LimitKind::Memory, 1 << 20);
        assert_eq!(refused, Err(NotInForce::because(LimitStanding::NotDelegated)));
    }

    #[test]
    fn a_group_that_cannot_hand_a_controller_on_is_refused_by_the_kernels_number() {
        let group = group("memory\n");
        assert_eq!(group.leaf.limit(LimitKind::Swap, 0), Err(NotInForce::by(Errno::ENOENT)));
    }

    #[test]
    fn a_controller_is_asked_for_before_its_limit_is_set() {
        let group = group("memory pids\n");
        fs::write(group.root.path().join("cgroup.subtree_control"), "").expect("written");
        // The kernel would make the file now; this folder does not.
        assert_eq!(group.leaf.limit(LimitKind::Processes, 7), Err(NotInForce::by(Errno::ENOENT)));
        let asked = fs::read_to_string(group.root.path().join("cgroup.subtree_control")).expect("there");
        assert_eq!(asked, "+pids");
    }

    #[test]
    fn a_limit_is_what_the_kernel_made_of_it() {
        let group = group("");
        fs::write(group.leaf.directory.join("memory.max"), "").expect("written");
        assert_eq!(group.leaf.limit(LimitKind::Memory, 4096), Ok(4096));
        assert_eq!(fs::read_to_string(group.leaf.directory.join("memory.max")).expect("there"), "4096");
    }

    #[test]
    fn killed_for_lack_of_memory_is_counted_where_the_kernel_counts() {
        let group = group("");
        assert_eq!(group.leaf.oom_kills(), None);
        let events = "low 0\nhigh 0\nmax 31\noom 4\noom_kill 2\noom_group_kill 0\n";
        fs::write(group.leaf.directory.join("memory.events"), events).expect("written");
        assert_eq!(group.leaf.oom_kills(), Some(2));
    }
}
