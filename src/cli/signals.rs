//! Signals as messages.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;
use tokio::sync::mpsc;

use crate::error::{Failure, Kind};

/// The exit code of a command that a signal ended, as of the shell's custom.
pub(super) const INTERRUPTED: u8 = 130;

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signal {
    /// INT: the person at the terminal.
    Interrupt,
    /// TERM.
    Terminate,
    /// HUP: the terminal is gone, or the configuration changed.
    HangUp,
    /// USR1: leave, but leave the agents running.
    Leave,
}

/// Every signal of these from now on. They no longer end the process by themselves.
pub(super) fn signals() -> Result<mpsc::Receiver<Signal>, Failure> {
    let failed = |error| Failure::new(Kind::Internal, format!("signals cannot be taken: {error}"));
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGUSR1]).map_err(failed)?;
    let (sender, receiver) = mpsc::channel(8);
    std::thread::spawn(move || {
        for signal in signals.forever() {
            let signal = match signal {
                SIGINT => Signal::Interrupt,
                SIGTERM => Signal::Terminate,
                SIGHUP => Signal::HangUp,
                _ => Signal::Leave,
            };
            // Eight impatient signals are enough; the process is ending already.
            let _full = sender.try_send(signal);
        }
    });
    Ok(receiver)
}
