//! What a keeper does to itself before it takes orders.

use std::ffi::CStr;
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

/// The name that process lists show.
pub(crate) const KEEPER_NAME: &CStr = c"ostler-keeper";

/// The polite signals, those of a terminal, and that of a file size limit, which then shows as an error of the write.
const DEAF_TO: [Signal; 10] = [
    Signal::SIGINT,
    Signal::SIGHUP,
    Signal::SIGTERM,
    Signal::SIGPIPE,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGTSTP,
    Signal::SIGXFSZ,
];

/// Leaves the owner's session, ignores its signals, becomes the subreaper and hides from debuggers.
pub(crate) fn detach() -> Result<(), Errno> {
    // Fails only for the leader of a group. A plain spawn makes none; whoever starts us so keeps us in his session.
    let _group_leader = setsid();
    umask(Mode::from_bits_truncate(0o077));
    // Inherited as ignored, it would make the kernel reap our children for us, and their ends would never be known.
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // SAFETY: the default disposition: no handler of ours runs.
    unsafe { sigaction(Signal::SIGCHLD, &default) }?;
    for signal in DEAF_TO {
        let ignore = SigAction::new(SigHandler::SigIgn, SaFlags::empty(), SigSet::empty());
        // SAFETY: the disposition is "ignore": no handler of ours runs.
        unsafe { sigaction(signal, &ignore) }?;
    }
    prctl::set_child_subreaper(true)?;
    prctl::set_dumpable(false)?;
    prctl::set_name(KEEPER_NAME)
}

/// A descriptor that is readable when a child changed; the signal itself is blocked.
pub(crate) fn child_events() -> Result<SignalFd, Errno> {
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGCHLD);
    mask.thread_block()?;
    SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
}
