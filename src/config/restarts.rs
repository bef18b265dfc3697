//! `[harness.NAME.restarts]`: what of an agent's failures is borne before it is left alone for a while.

use std::num::NonZeroU32;
use std::time::Duration;

use ostler_supervisors::machines::health::RestartPolicy;
use ostler_supervisors::tree::Backoff;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Span;

/// Where nothing else is configured.
pub(super) const DEFAULT: RestartPolicy = RestartPolicy {
    failures: 5,
    backoff: Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(60) },
    healthy: Duration::from_secs(60),
};

/// The breaker of one harness.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct RestartsFile {
    /// Starts in a row that may come to nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failures: Option<NonZeroU32>,
    /// How long it is left alone then, before one is let through to see; doubled each time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_pause: Option<Span>,
    /// The longest it is left alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_pause: Option<Span>,
    /// How long one has to live to count as healthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub healthy: Option<Span>,
}

impl RestartsFile {
    /// The policy, with the defaults where nothing is set.
    pub fn policy(&self) -> RestartPolicy {
        let pick = |given: Option<Span>, default: Duration| given.map_or(default, |span| span.0);
        RestartPolicy {
            failures: self.failures.map_or(DEFAULT.failures, NonZeroU32::get),
            backoff: Backoff {
                first: pick(self.first_pause, DEFAULT.backoff.first),
                longest: pick(self.longest_pause, DEFAULT.backoff.longest),
            },
            healthy: pick(self.healthy, DEFAULT.healthy),
        }
    }

    /// Everything set, as it is by default.
    pub(super) fn defaults() -> Self {
        Self {
            failures: NonZeroU32::new(DEFAULT.failures),
            first_pause: Some(Span(DEFAULT.backoff.first)),
            longest_pause: Some(Span(DEFAULT.backoff.longest)),
            healthy: Some(Span(DEFAULT.healthy)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_is_heeded_and_has_its_default() {
        let text = "failures = 2\nfirst_pause = \"3s\"\nlongest_pause = \"4m\"\nhealthy = \"5m\"\n";
        let all: RestartsFile = toml::from_str(text).expect("TOML");
        let minutes = |count: u64| Duration::from_secs(count * 60);
        let backoff = Backoff { first: Duration::from_secs(3), longest: minutes(4) };
        assert_eq!(all.policy(), RestartPolicy { failures: 2, backoff, healthy: minutes(5) });
        assert_eq!(RestartsFile::default().policy(), DEFAULT);
        assert_eq!(RestartsFile::defaults().policy(), DEFAULT);
        assert!(toml::from_str::<RestartsFile>("failures = 0").is_err());
    }
}
