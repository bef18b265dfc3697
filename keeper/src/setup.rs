//! What a keeper does to itself before it takes orders.

use std::os::fd::{FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::libc;
use nix::sys::prctl;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::{AddressFamily, SockaddrLike, SockaddrStorage, getsockname};
use nix::sys::stat::{Mode, umask};
use nix::unistd::setsid;

/// Takes descriptor 0 if it is a Unix socket, and closes everything above the standard three.
pub(crate) fn take_owner() -> Option<OwnedFd> {
    let address: SockaddrStorage = getsockname(0).ok()?;
    if address.family() != Some(AddressFamily::Unix) {
        return None;
    }
    // SAFETY: closing a range of descriptors touches no memory; nothing of this process owns one above 2 yet.
    unsafe { libc::close_range(3, u32::MAX, 0) };
    // SAFETY: descriptor 0 is open (its address was just read) and nothing else of this process uses it.
    Some(unsafe { OwnedFd::from_raw_fd(0) })
}

/// Leaves the owner's session, ignores its signals, becomes the subreaper and hides from debuggers.
pub(crate) fn detach() -> Result<(), Errno> {
    // Fails only for a group leader, which is then the leader of its session's group already.
    let _already_leader = setsid();
    umask(Mode::from_bits_truncate(0o077));
    for signal in [Signal::SIGINT, Signal::SIGHUP, Signal::SIGTERM, Signal::SIGPIPE] {
        let ignore = SigAction::new(SigHandler::SigIgn, SaFlags::empty(), SigSet::empty());
        // SAFETY: the disposition is "ignore": no handler of ours runs.
        unsafe { sigaction(signal, &ignore) }?;
    }
    prctl::set_child_subreaper(true)?;
    prctl::set_dumpable(false)?;
    prctl::set_name(c"ostler-keeper")
}

/// A descriptor that is readable when a child changed; the signal itself is blocked.
pub(crate) fn child_events() -> Result<SignalFd, Errno> {
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGCHLD);
    mask.thread_block()?;
    SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
}
