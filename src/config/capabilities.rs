//! `[harness.NAME.capabilities]`: what an agent can do.

use ostler_supervisors::capability::{Capabilities, Capability};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a harness can do. What is not set is as its adapter has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct CapabilitiesFile {
    /// Its answer arrives in fragments while it works.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streaming: Option<bool>,
    /// It goes on with a session in a new process, from its own store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resume: Option<bool>,
    /// It ends a task without ending itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancel: Option<bool>,
    /// It asks before it does what it does not know to be harmless.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approvals: Option<bool>,
    /// It says which tools it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<bool>,
    /// It says what a task used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<bool>,
    /// Its caller chooses the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<bool>,
}

impl CapabilitiesFile {
    /// These, and no others.
    pub fn declare(has: &Capabilities) -> Self {
        let mut file = Self::default();
        for capability in Capability::ALL {
            *file.slot(capability) = Some(has.has(capability));
        }
        file
    }

    /// What is declared of what the adapter can do at most.
    ///
    /// # Errors
    ///
    /// What is claimed beyond that.
    pub fn within(&self, most: &Capabilities) -> Result<Capabilities, Capability> {
        let mut file = self.clone();
        let mut declared = |capability| file.slot(capability).unwrap_or_else(|| most.has(capability));
        let declared: Capabilities = Capability::ALL.into_iter().filter(|each| declared(*each)).collect();
        match Capability::ALL.into_iter().find(|each| declared.has(*each) && !most.has(*each)) {
            Some(beyond) => Err(beyond),
            None => Ok(declared),
        }
    }

    fn slot(&mut self, capability: Capability) -> &mut Option<bool> {
        match capability {
            Capability::Streaming => &mut self.streaming,
            Capability::Resume => &mut self.resume,
            Capability::Cancel => &mut self.cancel,
            Capability::Approvals => &mut self.approvals,
            Capability::Tools => &mut self.tools,
            Capability::Usage => &mut self.usage,
            Capability::Model => &mut self.model,
        }
    }
}
