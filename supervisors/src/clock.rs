//! The clocks: boot time for every deadline, wall time for stamps only.

use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::machines::Millis;

/// Milliseconds since boot, suspend included.
pub fn now() -> Millis {
    Millis(ostler_keeper::clock::now().as_millis() as u64)
}

/// How long it is until then; zero if it is past.
pub fn until(at: Millis) -> Duration {
    Duration::from_millis(at.0.saturating_sub(now().0))
}

/// Milliseconds since the Unix epoch. Stamps events; decides nothing.
pub fn wall_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map(|span| span.as_millis() as u64).unwrap_or_default()
}

/// The id of this boot: with it, a process id and a start time name one process for ever.
pub fn boot_id() -> &'static str {
    static BOOT: OnceLock<String> = OnceLock::new();
    BOOT.get_or_init(|| {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let id = id.trim().replace('-', "");
        if id.is_empty() { "unknown".to_owned() } else { id }
    })
}

/// An instant of one boot, for whoever comes later: the wall clock may be set meanwhile, and decides nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    boot: String,
    ms: u64,
}

impl Moment {
    /// This time of this boot.
    pub fn at(ms: Millis) -> Self {
        Self { boot: boot_id().to_owned(), ms: ms.0 }
    }

    /// Its time, if it was in this boot: that of another cannot be compared with anything.
    pub fn in_this_boot(&self) -> Option<Millis> {
        (self.boot == boot_id()).then_some(Millis(self.ms))
    }

    #[cfg(test)]
    pub(crate) fn of_another_boot(ms: u64) -> Self {
        Self { boot: "another".to_owned(), ms }
    }
}
