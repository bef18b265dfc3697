//! What became of a harness's limits, said once per runtime.

use ostler_keeper::{Limit, LimitState};
use serde_json::{Value, json};

use super::super::journal::Draft;
use super::super::render;
use super::Runtime;
use crate::contract::event::kinds;

impl Runtime {
    /// An event that says of each limit whether it is in force; nothing where none is configured.
    pub(super) fn limits_told(&self, told: &[LimitState]) -> Draft {
        if self.harness.limits.is_empty() {
            return Draft::default();
        }
        let limits: Vec<Value> = self.harness.limits.iter().map(|limit| describe(*limit, told)).collect();
        let data = json!({ "runtime_id": self.row.id, "limits": limits });
        Draft { events: vec![render::outside(kinds::RUNTIME_LIMITED, data)], ..Draft::default() }
    }
}

/// A keeper that says nothing of a limit knows it not, and holds nobody to it.
fn describe(limit: Limit, told: &[LimitState]) -> Value {
    match told.iter().find(|state| state.kind == limit.kind) {
        None => json!({ "limit": limit.kind.word(), "value": limit.value, "standing": "unsupported" }),
        Some(state) => {
            json!({
                "limit": state.kind.word(), "value": state.value, "standing": state.standing.word(),
                "reason": state.reason(),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use ostler_keeper::{LimitKind, LimitStanding};

    use super::*;

    #[test]
    fn a_limit_that_an_older_keeper_does_not_know_is_not_taken_for_one_in_force() {
        let memory = Limit { kind: LimitKind::Memory, value: 5 };
        let core = LimitState { kind: LimitKind::CoreSize, value: 0, standing: LimitStanding::InForce, errno: 0 };
        assert_eq!(describe(memory, &[core])["standing"], "unsupported");
    }

    #[test]
    fn what_the_kernel_said_is_the_reason() {
        let memory = Limit { kind: LimitKind::Memory, value: 5 };
        let busy = LimitState { kind: LimitKind::Memory, value: 5, standing: LimitStanding::Refused, errno: 16 };
        let said = describe(memory, &[busy]);
        assert_eq!((said["standing"].as_str(), said["value"].as_u64()), (Some("refused"), Some(5)));
        assert!(said["reason"].as_str().is_some_and(|reason| reason.contains("busy")), "{said}");
    }
}
