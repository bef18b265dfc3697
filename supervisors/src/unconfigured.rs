//! What is left of a harness that is configured no more: enough to end what runs of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::adapter::{Adapter, AdapterKind, Answer, FrameCounts, Lifetime, OpenContext, SnapshotError, Start, Told};
use crate::capability::Capabilities;
use crate::contract::HarnessId;
use crate::harness::{Deadlines, Harness, OnLostSession};
use crate::machines::health::RestartPolicy;
use crate::machines::settlement::ReportMode;
use crate::tree::Backoff;

/// Generous for whatever it was.
const DEADLINES: Deadlines = Deadlines {
    interrupt: Duration::ZERO,
    end_of_input: Duration::from_secs(2),
    terminate: Duration::from_secs(2),
    kill: Duration::from_secs(5),
    stray: Duration::from_millis(500),
    ready: Duration::from_secs(30),
};
const FRAME_CAP: usize = 1 << 20;
const NEVER_STARTED: RestartPolicy = RestartPolicy {
    failures: 1,
    backoff: Backoff { first: Duration::ZERO, longest: Duration::ZERO },
    healthy: Duration::ZERO,
};

/// A harness of this id that starts nothing and understands nothing.
pub(crate) fn harness(id: HarnessId) -> Harness {
    Harness {
        id,
        command: Vec::new(),
        inherit: Vec::new(),
        environment: BTreeMap::new(),
        adapter: Arc::new(Deaf),
        capabilities: Capabilities::default(),
        report: ReportMode::Protocol,
        deadlines: DEADLINES,
        helpers: Vec::new(),
        engines: Vec::new(),
        frame_cap: FRAME_CAP,
        on_lost_session: OnLostSession::Fail,
        idle_timeout: Duration::ZERO,
        limits: Vec::new(),
        restarts: NEVER_STARTED,
    }
}

struct Deaf;

impl AdapterKind for Deaf {
    fn lifetime(&self) -> Lifetime {
        Lifetime::Session
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    fn start(&self, _: OpenContext<'_>) -> Start {
        Start { arguments: Vec::new() }
    }

    fn open(&self, _: OpenContext<'_>) -> Box<dyn Adapter> {
        Box::new(Self)
    }

    fn restore(&self, _: &[u8]) -> Result<Box<dyn Adapter>, SnapshotError> {
        Ok(Box::new(Self))
    }
}

impl Adapter for Deaf {
    fn tell(&mut self, _: Told<'_>, _: &mut Answer) {}

    fn is_ready(&self) -> bool {
        false
    }

    fn snapshot(&self) -> Vec<u8> {
        Vec::new()
    }

    fn counts(&self) -> FrameCounts {
        FrameCounts::default()
    }
}
