//! The pseudo-terminal between an agent and its keeper.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::libc;
use nix::pty::{OpenptyResult, Winsize, openpty};
use nix::sys::termios::{InputFlags, LocalFlags, SpecialCharacterIndices as Special, Termios, tcgetattr};

use crate::message::WindowSize;

/// Both ends, closed at `exec`.
pub(crate) fn open(size: WindowSize) -> Result<OpenptyResult, Errno> {
    let pair = openpty(&winsize(size), None)?;
    for end in [&pair.master, &pair.slave] {
        fcntl(end, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    }
    Ok(pair)
}

/// Makes it the controlling terminal of the calling session's leader.
pub(crate) fn control(slave: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: the descriptor is open for the whole call; the argument is a plain number.
    Errno::result(unsafe { libc::ioctl(slave.as_raw_fd(), libc::TIOCSCTTY, 0) }).map(drop)
}

/// Its size, as the kernel has it.
pub(crate) fn size(master: BorrowedFd<'_>) -> Result<WindowSize, Errno> {
    let mut found = winsize(WindowSize { rows: 0, columns: 0 });
    // SAFETY: the descriptor is open, and the pointer is to a live structure for the whole call.
    Errno::result(unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCGWINSZ, &raw mut found) })?;
    Ok(WindowSize { rows: found.ws_row, columns: found.ws_col })
}

/// Gives it another size; the kernel tells the foreground group.
pub(crate) fn resize(master: BorrowedFd<'_>, size: WindowSize) -> Result<(), Errno> {
    let wanted = winsize(size);
    // SAFETY: the descriptor is open, and the pointer is to a live structure for the whole call.
    Errno::result(unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCSWINSZ, &raw const wanted) }).map(drop)
}

fn winsize(size: WindowSize) -> Winsize {
    Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 }
}

/// The last two bytes typed: all that the end of input depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Typed {
    before: Option<u8>,
    last: Option<u8>,
}

impl Typed {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        for &byte in &bytes[bytes.len().saturating_sub(2)..] {
            *self = Self { before: self.last, last: Some(byte) };
        }
    }

    /// What to type so that whoever reads sees the end of input; nothing where no character means it.
    pub(crate) fn end_of_input(self, master: BorrowedFd<'_>) -> Vec<u8> {
        tcgetattr(master.as_fd()).map(|settings| self.end_by(&settings)).unwrap_or_default()
    }

    /// In the middle of a line, the character only hands the line over: it is the one after it that is the end. One too
    /// many hurts nobody, since nothing is typed any more.
    fn end_by(self, settings: &Termios) -> Vec<u8> {
        let end = settings.control_chars[Special::VEOF as usize];
        if !settings.local_flags.contains(LocalFlags::ICANON) || end == libc::_POSIX_VDISABLE {
            return Vec::new();
        }
        let quotes = |byte: u8| {
            settings.local_flags.contains(LocalFlags::IEXTEN)
                && byte == settings.control_chars[Special::VLNEXT as usize]
                && byte != libc::_POSIX_VDISABLE
        };
        let count = match self.last {
            None => 1,
            // It would take the first of them for a plain character.
            Some(last) if quotes(last) => 3,
            Some(last) if ends_line(settings, last) && !self.before.is_some_and(quotes) => 1,
            Some(_) => 2,
        };
        vec![end; count]
    }
}

fn ends_line(settings: &Termios, byte: u8) -> bool {
    let returns = settings.input_flags.contains(InputFlags::ICRNL) && !settings.input_flags.contains(InputFlags::IGNCR);
    let special = |index: Special| settings.control_chars[index as usize];
    let others = [Special::VEOF, Special::VEOL, Special::VEOL2].map(special);
    match byte {
        b'\n' => !settings.input_flags.contains(InputFlags::INLCR),
        b'\r' => returns,
        other => other != libc::_POSIX_VDISABLE && others.contains(&other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(bytes: &[u8]) -> Typed {
        let mut typed = Typed::default();
        typed.add(bytes);
        typed
    }

    #[test]
    fn the_end_of_input_is_typed_as_often_as_the_line_needs_it() {
        let pair = open(WindowSize { rows: 24, columns: 80 }).expect("a terminal");
        let end = |bytes: &[u8]| typed(bytes).end_of_input(pair.master.as_fd()).len();
        assert_eq!([end(b""), end(b"whole\n"), end(b"whole\r"), end(b"\x04")], [1; 4]);
        assert_eq!([end(b"half"), end(b"x")], [2; 2], "the first one hands the line over");
        assert_eq!([end(b"quoted\x16\n"), end(b"\x16")], [2, 3]);
    }

    #[test]
    fn where_no_character_means_the_end_none_is_typed() {
        use nix::sys::termios::{SetArg, cfmakeraw, tcsetattr};
        let pair = open(WindowSize { rows: 24, columns: 80 }).expect("a terminal");
        let cooked = tcgetattr(&pair.slave).expect("settings");
        let mut raw = cooked.clone();
        cfmakeraw(&mut raw);
        tcsetattr(&pair.slave, SetArg::TCSANOW, &raw).expect("set");
        assert_eq!(typed(b"x").end_of_input(pair.master.as_fd()), b"");
        let mut without = cooked;
        without.control_chars[Special::VEOF as usize] = libc::_POSIX_VDISABLE;
        tcsetattr(&pair.slave, SetArg::TCSANOW, &without).expect("set");
        assert_eq!(typed(b"x\n").end_of_input(pair.master.as_fd()), b"");
    }

    #[test]
    fn typing_byte_by_byte_is_typing_at_once() {
        let mut slowly = Typed::default();
        b"ab\n".iter().for_each(|byte| slowly.add(&[*byte]));
        assert_eq!(slowly, typed(b"ab\n"));
    }
}
