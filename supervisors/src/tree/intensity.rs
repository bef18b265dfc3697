//! Restart intensity: so many restarts within a period, and not one more.

use std::collections::VecDeque;
use std::time::Duration;

use crate::machines::Millis;

/// How many restarts within which period are bearable. Past it, the failure goes one level up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intensity {
    most: usize,
    period: Duration,
    restarts: VecDeque<Millis>,
}

impl Intensity {
    /// At most `most` restarts in any `period`.
    pub fn new(most: usize, period: Duration) -> Self {
        Self { most, period, restarts: VecDeque::new() }
    }

    /// Counts a restart. `false` if it is one too many.
    pub fn allows(&mut self, now: Millis) -> bool {
        while self.restarts.front().is_some_and(|at| *at + self.period <= now) {
            self.restarts.pop_front();
        }
        self.restarts.push_back(now);
        self.restarts.len() <= self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_slides() {
        let mut intensity = Intensity::new(2, Duration::from_millis(100));
        let allowed: Vec<bool> = [0, 50, 99, 150, 151, 400].map(|at| intensity.allows(Millis(at))).to_vec();
        assert_eq!(allowed, vec![true, true, false, true, false, true]);
    }

    #[test]
    fn none_is_allowed_where_none_is_bearable() {
        assert!(!Intensity::new(0, Duration::from_secs(1)).allows(Millis(0)));
    }
}
