//! The pause before a restart: doubling, bounded, jittered, and reset only by a healthy while.

use std::time::Duration;

use crate::machines::Millis;

/// The pause before the next restart of one child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    most: Duration,
    healthy: Duration,
    failures: u32,
    started: Option<Millis>,
}

impl Backoff {
    /// Pauses from `first`, doubling up to `most`; a run of at least `healthy` starts over.
    pub fn new(first: Duration, most: Duration, healthy: Duration) -> Self {
        Self { first, most, healthy, failures: 0, started: None }
    }

    /// The child was started.
    pub fn started(&mut self, now: Millis) {
        self.started = Some(now);
    }

    /// The child ended: how long to wait before it is started again. `jitter` lies in 0 to 1 and takes away up to half,
    /// so that many children of one cause do not come back at once.
    pub fn failed(&mut self, now: Millis, jitter: f64) -> Duration {
        if self.started.take().is_some_and(|started| started + self.healthy <= now) {
            self.failures = 0;
        }
        let doubled = self.first.saturating_mul(1u32.checked_shl(self.failures).unwrap_or(u32::MAX));
        self.failures = (self.failures + 1).min(31);
        doubled.min(self.most).mul_f64(1.0 - jitter.clamp(0.0, 1.0) / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn it_doubles_to_its_bound_and_starts_over_after_a_healthy_while() {
        let mut backoff = Backoff::new(MS(100), MS(1000), MS(5000));
        let mut pauses = Vec::new();
        for round in 0..6 {
            backoff.started(Millis(round * 1000));
            pauses.push(backoff.failed(Millis(round * 1000 + 999), 0.0).as_millis());
        }
        assert_eq!(pauses, vec![100, 200, 400, 800, 1000, 1000]);
        backoff.started(Millis(10_000));
        assert_eq!(backoff.failed(Millis(15_000), 0.0), MS(100));
    }

    #[test]
    fn a_start_that_succeeds_does_not_reset_it() {
        let mut backoff = Backoff::new(MS(100), MS(1000), MS(5000));
        backoff.started(Millis(0));
        backoff.failed(Millis(4999), 0.0);
        backoff.started(Millis(5000));
        assert_eq!(backoff.failed(Millis(5001), 0.0), MS(200));
    }

    #[test]
    fn jitter_takes_away_at_most_half() {
        let pause = |jitter| Backoff::new(MS(100), MS(1000), MS(1)).failed(Millis(0), jitter);
        assert_eq!((pause(0.0), pause(1.0), pause(9.0)), (MS(100), MS(50), MS(50)));
    }
}
