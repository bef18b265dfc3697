//! Whether the machine has room for another runtime: by the memory that is left, and by how long others wait for it.
//!
//! A number of runtimes says little: one of them may hold ten times the memory of another.

use std::fmt;
use std::time::Duration;

use thiserror::Error;

/// A share of time, in hundredths of a percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Share(pub u32);

impl Share {
    /// So many percent.
    pub const fn percent(percent: u8) -> Self {
        Self(percent as u32 * 100)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02} %", self.0 / 100, self.0 % 100)
    }
}

/// What the kernel says of a machine's memory, as far as it says anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Reading {
    /// What can be had without swapping, in bytes.
    pub available: Option<u64>,
    /// How much of the last ten seconds nothing went on for want of memory.
    pub stalled: Option<Share>,
}

/// What a machine has to have left for a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MemoryBounds {
    /// So much memory stays free, in bytes.
    pub floor: u64,
    /// Everything waits for memory no more than this.
    pub pressure: Share,
}

/// Why nothing is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Error)]
pub enum Shortage {
    /// Too little is left.
    #[error("{} MiB of memory are left, and {} MiB are kept free", .available >> 20, .floor >> 20)]
    Floor {
        /// What is left, in bytes.
        available: u64,
        /// What has to be, in bytes.
        floor: u64,
    },
    /// Everything waits for memory already.
    #[error("everything waited for memory during {stalled} of the last ten seconds, and {most} are the most")]
    Pressure {
        /// How long they did.
        stalled: Share,
        /// How long they may.
        most: Share,
    },
}

impl Shortage {
    /// When it is worth asking again.
    pub fn retry(&self) -> Duration {
        match self {
            Self::Floor { .. } => Duration::from_secs(5),
            // The time over which the kernel takes its mean.
            Self::Pressure { .. } => Duration::from_secs(10),
        }
    }
}

/// Whether a runtime may start. What cannot be read refuses nothing.
///
/// # Errors
///
/// [`Shortage`]; the floor comes first, since it is the harder fact.
pub fn admit(bounds: MemoryBounds, reading: Reading) -> Result<(), Shortage> {
    let MemoryBounds { floor, pressure: most } = bounds;
    match (reading.available, reading.stalled) {
        (Some(available), _) if available < floor => Err(Shortage::Floor { available, floor }),
        (_, Some(stalled)) if stalled > most => Err(Shortage::Pressure { stalled, most }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: MemoryBounds = MemoryBounds { floor: 100 << 20, pressure: Share::percent(40) };

    #[test]
    fn each_measure_refuses_by_itself_and_only_past_its_bound() {
        let (enough, less) = (Some(100 << 20), Some((100 << 20) - 1));
        let (calm, busy) = (Some(Share(4000)), Some(Share(4001)));
        let floor = Err(Shortage::Floor { available: (100 << 20) - 1, floor: 100 << 20 });
        let pressure = Err(Shortage::Pressure { stalled: Share(4001), most: Share(4000) });
        for (available, stalled, expected) in [
            (None, None, Ok(())),
            (enough, calm, Ok(())),
            (enough, None, Ok(())),
            (None, calm, Ok(())),
            (less, calm, floor),
            (less, None, floor),
            (less, busy, floor),
            (enough, busy, pressure),
            (None, busy, pressure),
        ] {
            assert_eq!(admit(BOUNDS, Reading { available, stalled }), expected, "{available:?}, {stalled:?}");
        }
    }

    #[test]
    fn bounds_of_nothing_and_of_everything_refuse_nothing() {
        let open = MemoryBounds { floor: 0, pressure: Share::percent(100) };
        let worst = Reading { available: Some(0), stalled: Some(Share::percent(100)) };
        assert_eq!(admit(open, worst), Ok(()));
    }

    #[test]
    fn a_shortage_says_what_is_and_what_should_be() {
        let said = |reading| admit(BOUNDS, reading).expect_err("refused").to_string();
        let floor = said(Reading { available: Some(7 << 20), stalled: None });
        assert!(floor.contains("7 MiB") && floor.contains("100 MiB"), "{floor}");
        let pressure = said(Reading { available: None, stalled: Some(Share(5607)) });
        assert!(pressure.contains("56.07 %") && pressure.contains("40.00 %"), "{pressure}");
    }
}
