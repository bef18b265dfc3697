//! Waiting for children, in the kernel's own words: real-time signals included, which the wrappers refuse.

use nix::errno::Errno;
use nix::libc;

use crate::message::Exit;
use crate::tree;

/// What waiting for one child said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waited {
    /// It lives.
    Alive,
    /// It ended like this.
    Ended(Exit),
    /// The kernel knows no such child: somebody else took its status.
    Unknown,
}

/// Looks at a child without reaping it.
pub(crate) fn look(pid: i32) -> Waited {
    wait_id(libc::P_PID, pid as libc::id_t)
}

/// Whether there is any child at all, of any kind.
pub(crate) fn has_children() -> bool {
    wait_id(libc::P_ALL, 0) != Waited::Unknown
}

fn wait_id(kind: libc::idtype_t, id: libc::id_t) -> Waited {
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
    // SAFETY: siginfo_t is plain data for which all zeroes is a value.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live siginfo_t for the whole call.
    if let Err(error) = Errno::result(unsafe { libc::waitid(kind, id, &raw mut info, flags) }) {
        return if error == Errno::ECHILD { Waited::Unknown } else { Waited::Alive };
    }
    // SAFETY: waitid filled the child part of the structure, or left it zeroed.
    let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
    match (pid, info.si_code) {
        (0, _) => Waited::Alive,
        (_, libc::CLD_EXITED) => Waited::Ended(Exit::Code(status)),
        (_, code) => Waited::Ended(Exit::Signal { signal: status, core: code == libc::CLD_DUMPED }),
    }
}

/// Reaps a child if it has ended. `true` if it did.
pub(crate) fn reap(pid: i32) -> bool {
    let no_status = std::ptr::null_mut();
    // SAFETY: a null status pointer is documented to be valid.
    unsafe { libc::waitpid(pid, no_status, libc::WNOHANG | libc::__WALL) > 0 }
}

/// Reaps every child that has ended.
pub(crate) fn reap_all() {
    while reap(-1) {}
}

/// Reaps every child that has ended but the leader, each by its id.
pub(crate) fn reap_others(leader: i32) {
    for pid in tree::children(std::process::id() as i32).into_iter().filter(|pid| *pid != leader) {
        reap(pid);
    }
}
