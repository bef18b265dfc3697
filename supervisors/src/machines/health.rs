//! The health of a harness: so many starts in a row that came to nothing, and it is left alone for a while.
//!
//! A start comes to nothing if no process of the agent came to be, if it never took a task, or if it ended unasked before
//! it had been there for a healthy while or had reported the end of a task. A start that merely succeeds proves nothing:
//! only a healthy while, or work that was reported, sets the count back. After a pause one start is let through to see; it alone decides whether the others follow.
//!
//! An agent that ended at its provider's limit is no failure: it is left alone until the limit is over, and not counted.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Millis;
use crate::tree::Backoff;

/// A process's start is known to the kernel's tick only, so it may seem to be this much older.
const TICK: Duration = Duration::from_millis(10);

/// The longest that a provider's limit is waited for: a longer one is asked about again meanwhile.
const LONGEST_LIMIT: Duration = Duration::from_secs(60 * 60);

/// What of a harness's failures is borne.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestartPolicy {
    /// So many starts in a row that come to nothing, and no more.
    pub failures: u32,
    /// How long it is left alone then.
    pub backoff: Backoff,
    /// How long a runtime has to live to count as healthy.
    pub healthy: Duration,
}

/// What became of a runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// No process of the agent came to be, or it never took a task.
    NotStarted,
    /// A start that was granted was not made after all, or what was started was stopped by us.
    Unused {
        /// Since its start.
        age: Duration,
    },
    /// It reported the end of a task; so long it has lived.
    Worked {
        /// Since its start.
        age: Duration,
    },
    /// It ended unasked, and had reported no work.
    Ended {
        /// Since its start.
        age: Duration,
    },
    /// It ended unasked, at its provider's limit, which is over after this.
    Limited {
        /// From now.
        after: Duration,
    },
}

/// The answer to whoever wants to start a runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// It may be started.
    Granted,
    /// It failed too often.
    Broken {
        /// How often in a row.
        failures: u32,
        /// When to ask again.
        retry: Duration,
    },
    /// Its provider takes no more for now.
    Limited {
        /// When to ask again.
        retry: Duration,
    },
}

/// Whether it may be started now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    Open,
    /// Not before this, and then one alone.
    Shut(Millis),
    /// One was let through then, and shows whether the others may follow.
    Trial(Millis),
    /// Not before this, without any fault of its own.
    Limited(Millis),
}

/// What of it outlives the process that knew it. The count does, and how long it is to be left alone; who was let
/// through to see does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Standing {
    /// Failures in a row.
    pub failures: u32,
    /// It is left alone until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Millis>,
}

/// One harness's machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    failures: u32,
    gate: Gate,
}

impl Default for Health {
    fn default() -> Self {
        Self { failures: 0, gate: Gate::Open }
    }
}

impl Health {
    /// As an earlier process of this boot knew it. A time that no pause could reach is not believed.
    pub fn restored(standing: Standing, now: Millis) -> Self {
        let believed = standing.until.filter(|until| *until <= now + LONGEST_LIMIT);
        let gate = match believed {
            Some(until) if standing.failures > 0 => Gate::Shut(until),
            Some(until) => Gate::Limited(until),
            None => Gate::Open,
        };
        Self { failures: standing.failures, gate }
    }

    /// What of it outlives this process.
    pub fn standing(&self) -> Standing {
        let until = match self.gate {
            Gate::Open => None,
            Gate::Shut(until) | Gate::Trial(until) | Gate::Limited(until) => Some(until),
        };
        Standing { failures: self.failures, until }
    }

    /// Somebody wants to start a runtime.
    pub fn ask(&mut self, policy: &RestartPolicy, now: Millis) -> Permission {
        self.pass_time(policy, now);
        let left = |until: Millis| Duration::from_millis(until.0.saturating_sub(now.0));
        match self.gate {
            Gate::Open => Permission::Granted,
            Gate::Limited(until) => Permission::Limited { retry: left(until) },
            Gate::Shut(until) if now < until => Permission::Broken { failures: self.failures, retry: left(until) },
            Gate::Shut(_) => {
                self.gate = Gate::Trial(now);
                Permission::Granted
            }
            Gate::Trial(since) => {
                let retry = policy.backoff.first.min(left(since + policy.healthy));
                Permission::Broken { failures: self.failures, retry }
            }
        }
    }

    /// Something became of a runtime. `jitter` lies in 0 to 1.
    pub fn tell(&mut self, input: Input, policy: &RestartPolicy, now: Millis, jitter: f64) {
        self.pass_time(policy, now);
        match input {
            Input::NotStarted => self.failed(Duration::ZERO, policy, now, jitter),
            Input::Ended { age } => self.failed(age, policy, now, jitter),
            Input::Worked { age } if self.is_telling(age, now) => *self = Self::default(),
            Input::Limited { after } if self.gate == Gate::Open => {
                *self = Self { failures: 0, gate: Gate::Limited(now + after.min(LONGEST_LIMIT)) };
            }
            Input::Limited { after } => self.look_again(now + after.min(LONGEST_LIMIT)),
            Input::Unused { age } if self.is_telling(age, now) => self.look_again(now),
            Input::Worked { .. } | Input::Unused { .. } => {}
        }
    }

    fn failed(&mut self, age: Duration, policy: &RestartPolicy, now: Millis, jitter: f64) {
        if !self.is_telling(age, now) {
            return;
        }
        let before = if age < policy.healthy { self.failures } else { 0 };
        self.failures = before.saturating_add(1);
        if let Some(earlier) = self.failures.checked_sub(policy.failures) {
            self.gate = Gate::Shut(now + policy.backoff.pause(earlier, jitter));
        }
    }

    /// The one that was let through has shown nothing: another is, at this time.
    fn look_again(&mut self, at: Millis) {
        if let Gate::Trial(_) = self.gate {
            self.gate = Gate::Shut(at);
        }
    }

    /// While one is let through to see, it alone tells; what was started before it has nothing to say about the pause.
    fn is_telling(&self, age: Duration, now: Millis) -> bool {
        match self.gate {
            Gate::Open => true,
            Gate::Trial(since) => now.0.saturating_sub(age.as_millis() as u64) + TICK.as_millis() as u64 >= since.0,
            Gate::Shut(_) | Gate::Limited(_) => false,
        }
    }

    /// What the clock alone decides.
    fn pass_time(&mut self, policy: &RestartPolicy, now: Millis) {
        match self.gate {
            Gate::Trial(since) if since + policy.healthy <= now => *self = Self::default(),
            Gate::Limited(until) if until <= now => self.gate = Gate::Open,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
