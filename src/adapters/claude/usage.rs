//! Token usage: each result tells what was used since the one before, model by model.

use ostler_supervisors::adapter::{Answer, Fact};
use ostler_supervisors::contract::AgentUsage;
use serde_json::Value;

use super::Machine;

impl Machine {
    pub(super) fn used(&mut self, frame: &Value, answer: &mut Answer) {
        let Some(turn) = &mut self.turn else { return };
        let Some(now) = since_last(frame) else { return };
        let task = turn.usage.map_or(now, |before| before.plus(now));
        turn.usage = Some(task);
        // The session's total starts anew with some processes and not with others, so none is told.
        answer.fact(Fact::Usage { task, session: None });
    }
}

/// A turn that was interrupted reports zeros as its own usage; what each model counted is true for every turn.
fn since_last(frame: &Value) -> Option<AgentUsage> {
    match frame["model_usage_since_last_result"].as_object() {
        Some(models) => {
            let sum = models.values().map(of_model).reduce(AgentUsage::plus);
            Some(sum.unwrap_or_else(|| usage_of(0, 0, 0, 0, Some(0))))
        }
        None => frame["usage"].is_object().then(|| of_turn(&frame["usage"])),
    }
}

fn of_model(usage: &Value) -> AgentUsage {
    let number = |key: &str| usage[key].as_u64().unwrap_or_default();
    usage_of(
        number("inputTokens"),
        number("cacheReadInputTokens"),
        number("cacheCreationInputTokens"),
        number("outputTokens"),
        usage["thinkingTokens"].as_u64(),
    )
}

fn of_turn(usage: &Value) -> AgentUsage {
    let number = |key: &str| usage[key].as_u64().unwrap_or_default();
    usage_of(
        number("input_tokens"),
        number("cache_read_input_tokens"),
        number("cache_creation_input_tokens"),
        number("output_tokens"),
        usage["output_tokens_details"]["thinking_tokens"].as_u64(),
    )
}

/// Its input tokens are those that no cache had a part in; ours are all that the model read.
fn usage_of(fresh: u64, read: u64, written: u64, output: u64, reasoning: Option<u64>) -> AgentUsage {
    AgentUsage {
        input_tokens: Some(fresh.saturating_add(read).saturating_add(written)),
        cached_input_tokens: Some(read),
        output_tokens: Some(output),
        reasoning_tokens: reasoning,
        total_tokens: None,
        cache_write_input_tokens: Some(written),
    }
}
