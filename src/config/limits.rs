//! `[harness.NAME.limits]`: what an agent's processes, and its whole tree, may use.

use std::num::NonZeroU64;

use ostler_keeper::{Limit, LimitKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Limits of one harness. What is not set is not limited.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub struct HarnessLimitsFile {
    /// Memory of the whole tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<NonZeroU64>,
    /// Swap of the whole tree; none where the memory is limited and this is not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap_mib: Option<u64>,
    /// Processes and threads of the whole tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<NonZeroU64>,
    /// Processes and threads of the user, of whatever tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_processes: Option<NonZeroU64>,
    /// Open files of each process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_files: Option<NonZeroU64>,
    /// The size of each file written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_size_mib: Option<NonZeroU64>,
    /// The size of a core dump.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core_size_mib: Option<u64>,
    /// Processor time of each process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<NonZeroU64>,
    /// The address space of each process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address_space_mib: Option<NonZeroU64>,
}

impl HarnessLimitsFile {
    /// What a keeper is asked for.
    pub fn limits(&self) -> Vec<Limit> {
        let bytes = |mib: u64| mib.saturating_mul(1 << 20);
        // What may not be kept in memory would only move to the swap, and take the machine with it.
        let swap = self.swap_mib.or(self.memory_mib.map(|_| 0));
        let asked = [
            (LimitKind::Memory, self.memory_mib.map(|mib| bytes(mib.get()))),
            (LimitKind::Swap, swap.map(bytes)),
            (LimitKind::Processes, self.processes.map(NonZeroU64::get)),
            (LimitKind::UserProcesses, self.user_processes.map(NonZeroU64::get)),
            (LimitKind::OpenFiles, self.open_files.map(NonZeroU64::get)),
            (LimitKind::FileSize, self.file_size_mib.map(|mib| bytes(mib.get()))),
            (LimitKind::CoreSize, self.core_size_mib.map(bytes)),
            (LimitKind::CpuSeconds, self.cpu_seconds.map(NonZeroU64::get)),
            (LimitKind::AddressSpace, self.address_space_mib.map(|mib| bytes(mib.get()))),
        ];
        asked.into_iter().filter_map(|(kind, value)| Some(Limit { kind, value: value? })).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> HarnessLimitsFile {
        toml::from_str(text).expect("limits")
    }

    #[test]
    fn where_memory_is_limited_nothing_moves_to_the_swap_unless_it_may() {
        let swap = |text| read(text).limits().into_iter().find(|limit| limit.kind == LimitKind::Swap).map(|l| l.value);
        assert_eq!(
            [swap("memory_mib = 512"), swap("memory_mib = 512\nswap_mib = 2"), swap("")],
            [Some(0), Some(2 << 20), None]
        );
    }

    #[test]
    fn every_limit_there_is_can_be_configured() {
        let text = "memory_mib = 1\nprocesses = 2\nuser_processes = 3\nopen_files = 4\nfile_size_mib = 5\n\
                    core_size_mib = 0\ncpu_seconds = 6\naddress_space_mib = 7\n";
        let mut kinds: Vec<LimitKind> = read(text).limits().iter().map(|limit| limit.kind).collect();
        kinds.sort();
        assert_eq!(kinds, LimitKind::ALL);
    }

    #[test]
    fn a_limit_that_nothing_can_live_under_is_refused() {
        assert!(toml::from_str::<HarnessLimitsFile>("memory_mib = 0").is_err());
        assert!(toml::from_str::<HarnessLimitsFile>("memory = 1").is_err());
    }
}
