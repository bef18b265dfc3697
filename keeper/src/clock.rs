//! The clock of all deadlines: time since boot, suspend included.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// Time since the machine booted, suspend included (`CLOCK_BOOTTIME`).
///
/// Deadlines in this clock survive a restart of any process and a suspend of the machine; together with the boot
/// id they name one instant.
pub fn now() -> Duration {
    clock_gettime(ClockId::CLOCK_BOOTTIME).map(Duration::from).unwrap_or_default()
}
