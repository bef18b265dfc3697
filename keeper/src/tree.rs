//! The process tree, as `/proc` shows it, and signals that cannot reach a stranger.
//!
//! A process is named by its id *and* its start time; a signal goes through a descriptor of the process, opened
//! first and checked afterwards, so that a recycled id is never hit.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::OnceLock;

use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::Signal;

use crate::message::Process;

/// The most processes one listing names.
pub const MAX_LISTED: usize = 4096;
/// The most bytes of a command line.
const MAX_COMMAND: usize = 256;
/// The most processes one walk visits: a fork loop must not keep it walking.
const MAX_WALKED: usize = 65_536;

/// The fields of `/proc/<pid>/stat` that a supervisor needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// The short name.
    pub name: String,
    /// The state letter.
    pub state: char,
    /// The parent.
    pub ppid: i32,
    /// The process group.
    pub pgid: i32,
    /// The session.
    pub sid: i32,
    /// Threads still alive.
    pub threads: u64,
    /// Start time in clock ticks since boot.
    pub start: u64,
}

impl Stat {
    /// Reads a process; `None` if there is none of that id, or if it cannot be read.
    pub fn read(pid: i32) -> Option<Self> {
        Self::look(pid).ok().flatten()
    }

    /// Reads a process; `None` if the kernel says that there is none of that id.
    ///
    /// # Errors
    ///
    /// Whatever else hinders it, such as a lack of descriptors: the process may well live.
    pub fn look(pid: i32) -> io::Result<Option<Self>> {
        let Some(text) = read_proc(&format!("/proc/{pid}/stat"))? else { return Ok(None) };
        Self::parse(&text)
            .map(Some)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a stat of no known form"))
    }

    fn parse(text: &str) -> Option<Self> {
        let (head, tail) = text.rsplit_once(')')?;
        let name = head.split_once('(')?.1.to_owned();
        let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
        Some(Self {
            name,
            state: fields.first()?.chars().next()?,
            ppid: fields.get(1)?.parse().ok()?,
            pgid: fields.get(2)?.parse().ok()?,
            sid: fields.get(3)?.parse().ok()?,
            threads: fields.get(17)?.parse().ok()?,
            start: fields.get(19)?.parse().ok()?,
        })
    }

    /// Whether it is only waiting to be reaped. A leader that ended its own thread shows `Z` too, but its thread
    /// count tells that it lives.
    pub fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X') && self.threads <= 1
    }
}

/// The kernel shows 100 ticks a second to programs, whatever it counts in itself.
pub const MILLIS_PER_TICK: u64 = 10;

/// Time since boot in the ticks of [`Stat::start`].
pub fn ticks(since_boot: std::time::Duration) -> u64 {
    since_boot.as_millis() as u64 / MILLIS_PER_TICK
}

/// A file of a process; `None` if the kernel says that the process is gone.
fn read_proc(path: &str) -> io::Result<Option<String>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether this is the kernel's way to say that a process has ended.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

/// The direct children of a process, over all its threads; empty where they cannot be read.
pub fn children(pid: i32) -> Vec<i32> {
    Table::new().and_then(|table| table.children(pid)).unwrap_or_default()
}

/// Every process id in `/proc`.
///
/// # Errors
///
/// If `/proc` cannot be read.
pub fn all_pids() -> io::Result<Vec<i32>> {
    let names = fs::read_dir("/proc")?.map(|entry| entry.map(|entry| entry.file_name()));
    let pid = |name: io::Result<std::ffi::OsString>| name.map(|name| name.to_str()?.parse().ok()).transpose();
    names.filter_map(pid).collect()
}

/// Where children are looked up: the kernel's own files, or, where it has none, one scan of all processes.
enum Table {
    Files,
    Scan(HashMap<i32, Vec<i32>>),
}

impl Table {
    fn new() -> io::Result<Self> {
        static FILES: OnceLock<bool> = OnceLock::new();
        if *FILES.get_or_init(|| fs::exists("/proc/thread-self/children").unwrap_or(false)) {
            return Ok(Self::Files);
        }
        let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
        for pid in all_pids()? {
            if let Some(stat) = Stat::look(pid)? {
                children.entry(stat.ppid).or_default().push(pid);
            }
        }
        Ok(Self::Scan(children))
    }

    fn children(&self, pid: i32) -> io::Result<Vec<i32>> {
        match self {
            Self::Files => children_of_threads(pid),
            Self::Scan(children) => Ok(children.get(&pid).cloned().unwrap_or_default()),
        }
    }
}

fn children_of_threads(pid: i32) -> io::Result<Vec<i32>> {
    let threads = match fs::read_dir(format!("/proc/{pid}/task")) {
        Err(error) if is_gone(&error) => return Ok(Vec::new()),
        other => other?,
    };
    let mut found = Vec::new();
    for thread in threads {
        let thread = match thread {
            Err(error) if is_gone(&error) => break,
            other => other?,
        };
        let text = read_proc(&thread.path().join("children").to_string_lossy())?.unwrap_or_default();
        found.extend(text.split_ascii_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
    }
    Ok(found)
}

/// Every descendant of a process that is not dead, parents before their children, in one bounded pass.
///
/// The walk is not atomic: a process that forks meanwhile may be missed, and is found by the next pass.
///
/// # Errors
///
/// If the process table cannot be read; never an empty tree in place of an unreadable one.
pub fn descendants(root: i32) -> io::Result<Vec<(i32, Stat)>> {
    let table = Table::new()?;
    let mut found: Vec<(i32, Stat)> = Vec::new();
    let mut queue = table.children(root)?;
    let mut next = 0;
    while let Some(&pid) = queue.get(next).filter(|_| next < MAX_WALKED) {
        next += 1;
        let Some(stat) = Stat::look(pid)? else { continue };
        queue.extend(table.children(pid)?);
        if !stat.is_dead() {
            found.push((pid, stat));
        }
    }
    Ok(found)
}

/// The process as a record for a report.
pub fn describe(pid: i32, stat: &Stat) -> Process {
    let mut line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.truncate(MAX_COMMAND);
    // A character that the cut went through is left out.
    let whole = line.utf8_chunks().map(|chunk| chunk.valid()).collect::<Vec<_>>().concat();
    let line = whole.trim_end_matches('\0').replace('\0', " ");
    let command = if line.is_empty() { format!("[{}]", stat.name) } else { line };
    Process { pid, start: stat.start, sid: stat.sid, ppid: stat.ppid, command }
}

/// A descriptor of a process, checked to be the one meant.
#[derive(Debug)]
pub struct Handle {
    fd: OwnedFd,
}

impl Handle {
    /// Opens the process of this id if its start time is this one; `None` if it is gone or another.
    pub fn open(pid: i32, start: u64) -> Option<Self> {
        // SAFETY: the call takes two integers and returns a new descriptor or -1.
        let raw = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        if raw < 0 {
            return None;
        }
        // SAFETY: the kernel just gave this descriptor to us alone; it is close-on-exec by definition.
        let fd = unsafe { OwnedFd::from_raw_fd(raw as i32) };
        (Stat::read(pid)?.start == start).then_some(Self { fd })
    }

    /// Sends a signal to exactly this process.
    ///
    /// # Errors
    ///
    /// `ESRCH` once it is gone, `EPERM` for a process of another user.
    pub fn signal(&self, signal: Signal) -> Result<(), Errno> {
        let no_info = std::ptr::null::<libc::siginfo_t>();
        // SAFETY: the descriptor is open for the whole call; a null siginfo is documented to be valid.
        let result =
            unsafe { libc::syscall(libc::SYS_pidfd_send_signal, self.fd.as_raw_fd(), signal as i32, no_info, 0) };
        Errno::result(result).map(drop)
    }

    /// The descriptor: readable once the process has ended.
    pub fn fd(&self) -> &OwnedFd {
        &self.fd
    }
}

/// Sends a signal to the process of this identity, if it still lives.
pub fn signal(pid: i32, start: u64, signal: Signal) {
    if let Some(handle) = Handle::open(pid, start) {
        // A process that ended meanwhile is what we want; one of another user is found by the next pass and
        // reported as leaked.
        let _gone_or_foreign = handle.signal(signal);
    }
}

/// Kills a whole process group at once: the kernel lets no fork of a member slip away from a signal to its group.
///
/// For groups in which a descendant was seen a moment ago. A session is made by one process and joined only by its
/// descendants, so all of such a group descends from it; the group's id cannot be taken by a stranger while it has a
/// member.
pub fn kill_group(pgid: i32) {
    // A child that has not made its own session yet is still in the keeper's group.
    if pgid > 1 && pgid != nix::unistd::getpgrp().as_raw() {
        // A group that is gone meanwhile is what we want.
        let _gone = nix::sys::signal::killpg(nix::unistd::Pid::from_raw(pgid), Signal::SIGKILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_is_read() {
        let text = "42 (a) b (c) S 1 42 43 0 -1 0 0 0 0 0 0 0 0 0 20 0 7 0 9876 0 0";
        let stat = Stat::parse(text).expect("parses");
        let expected = Stat { name: "a) b (c".into(), state: 'S', ppid: 1, pgid: 42, sid: 43, threads: 7, start: 9876 };
        assert_eq!(stat, expected);
    }

    #[test]
    fn the_own_process_has_an_identity() {
        let pid = std::process::id() as i32;
        let stat = Stat::read(pid).expect("lives");
        assert!(!stat.is_dead());
        assert!(Handle::open(pid, stat.start).is_some());
        assert!(Handle::open(pid, stat.start + 1).is_none());
    }
}
