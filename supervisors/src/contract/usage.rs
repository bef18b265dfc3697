//! Token usage: measured, or unknown (AHP 1.9).

use serde::{Deserialize, Serialize};

/// Usage of a task or of a session. `None` means not reliably measured; `Some(0)` is a reported zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentUsage {
    /// Tokens the model read.
    pub input_tokens: Option<u64>,
    /// Of these, tokens read from a cache.
    pub cached_input_tokens: Option<u64>,
    /// Tokens the model wrote.
    pub output_tokens: Option<u64>,
    /// Of these, tokens of reasoning.
    pub reasoning_tokens: Option<u64>,
    /// The provider's own total; not assumed to be a sum.
    pub total_tokens: Option<u64>,
    /// Tokens written to a cache.
    pub cache_write_input_tokens: Option<u64>,
}

impl AgentUsage {
    /// Nothing was measured.
    pub const UNKNOWN: Self = Self {
        input_tokens: None,
        cached_input_tokens: None,
        output_tokens: None,
        reasoning_tokens: None,
        total_tokens: None,
        cache_write_input_tokens: None,
    };

    /// What lies between an earlier cumulative snapshot and this one; a field that is unknown on either side, or was
    /// reset, is unknown.
    pub fn minus(self, earlier: Self) -> Self {
        self.zip(earlier, |a, b| a.checked_sub(b))
    }

    /// The sum of two segments that do not overlap; a field that is unknown on either side is unknown.
    pub fn plus(self, other: Self) -> Self {
        self.zip(other, |a, b| a.checked_add(b))
    }

    fn zip(self, other: Self, f: impl Fn(u64, u64) -> Option<u64>) -> Self {
        let both = |a: Option<u64>, b: Option<u64>| f(a?, b?);
        Self {
            input_tokens: both(self.input_tokens, other.input_tokens),
            cached_input_tokens: both(self.cached_input_tokens, other.cached_input_tokens),
            output_tokens: both(self.output_tokens, other.output_tokens),
            reasoning_tokens: both(self.reasoning_tokens, other.reasoning_tokens),
            total_tokens: both(self.total_tokens, other.total_tokens),
            cache_write_input_tokens: both(self.cache_write_input_tokens, other.cache_write_input_tokens),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_and_reset_fields_stay_unknown() {
        let some = |input, output| AgentUsage { input_tokens: input, output_tokens: output, ..AgentUsage::UNKNOWN };
        assert_eq!(some(Some(5), Some(1)).minus(some(Some(3), Some(2))), some(Some(2), None));
        assert_eq!(some(Some(5), None).plus(some(Some(3), Some(2))), some(Some(8), None));
    }
}
