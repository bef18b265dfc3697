//! The pause before a restart: doubling, bounded, jittered.

use std::time::Duration;

/// How long to wait before the next restart of one child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The first pause.
    pub first: Duration,
    /// The longest one.
    pub longest: Duration,
}

impl Backoff {
    /// The pause after so many others. `jitter` lies in 0 to 1 and takes away up to half, so that many children of one
    /// cause do not come back at once.
    pub fn pause(self, earlier: u32, jitter: f64) -> Duration {
        let doubled = self.first.saturating_mul(1u32.checked_shl(earlier).unwrap_or(u32::MAX));
        doubled.min(self.longest).mul_f64(1.0 - jitter.clamp(0.0, 1.0) / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;
    const BACKOFF: Backoff = Backoff { first: Duration::from_millis(100), longest: Duration::from_millis(1000) };

    #[test]
    fn it_doubles_to_its_bound() {
        let pauses = [0, 1, 2, 3, 4, 31, 32, u32::MAX].map(|earlier| BACKOFF.pause(earlier, 0.0).as_millis());
        assert_eq!(pauses, [100, 200, 400, 800, 1000, 1000, 1000, 1000]);
    }

    #[test]
    fn jitter_takes_away_at_most_half() {
        let pause = |jitter| BACKOFF.pause(0, jitter);
        assert_eq!((pause(0.0), pause(1.0), pause(9.0), pause(-1.0)), (MS(100), MS(50), MS(50), MS(100)));
    }
}
