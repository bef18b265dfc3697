//! Token usage: the session's total is reported, the task's is what lies above the total before it.

use ostler_supervisors::adapter::{Answer, Fact};
use ostler_supervisors::contract::AgentUsage;
use serde_json::Value;

use super::Machine;

impl Machine {
    pub(super) fn used(&mut self, usage: &Value, answer: &mut Answer) {
        if usage["total"].is_null() {
            return;
        }
        let (total, last) = (read(&usage["total"]), read(&usage["last"]));
        self.session_usage = Some(total);
        if let Some(turn) = &mut self.turn {
            let baseline = *turn.baseline.get_or_insert_with(|| total.minus(last));
            answer.fact(Fact::Usage { task: total.minus(baseline), session: Some(total) });
        }
    }
}

fn read(usage: &Value) -> AgentUsage {
    let number = |camel: &str, snake: &str| usage[camel].as_u64().or(usage[snake].as_u64());
    AgentUsage {
        input_tokens: number("inputTokens", "input_tokens"),
        cached_input_tokens: number("cachedInputTokens", "cached_input_tokens"),
        output_tokens: number("outputTokens", "output_tokens"),
        reasoning_tokens: number("reasoningOutputTokens", "reasoning_output_tokens"),
        total_tokens: number("totalTokens", "total_tokens"),
        cache_write_input_tokens: number("cacheWriteInputTokens", "cache_write_input_tokens"),
    }
}
