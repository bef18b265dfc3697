//! Any agent that speaks the Agent Client Protocol, version 1: JSON-RPC 2.0, one object a line.
//!
//! Facts it is built on, of the agents named in `known::Known`: a second prompt cancels, joins or loses the one under
//! way, so only one is ever sent; a cancel waits in some of them for the answer to an open permission, so that is given
//! with it; the history of a loaded session is said again, and by one agent after its answer; announced capabilities
//! are no contract, so what is not offered here is refused politely when it is asked for all the same.

mod call;
mod known;
mod opening;
mod permission;
mod turn;
mod update;
mod wire;

use std::collections::BTreeMap;

use ostler_supervisors::adapter::{
    Adapter, AdapterKind, Answer, Frame, FrameCounts, Lifetime, OpenContext, SnapshotError, Start, Told,
};
use ostler_supervisors::capability::Capabilities;
use ostler_supervisors::contract::{AgentUsage, InteractionId, NativeId};
use serde::{Deserialize, Serialize};

use super::frames::{self, Became, noise};
use super::snapshot;

use call::Calls;
use known::Known;
use opening::Setup;
use permission::OpenPermission;
use turn::Turn;
use wire::{Incoming, Kind};

/// The version of its machine's shape, between two daemons.
const SNAPSHOT: u32 = 1;

/// What is configured of an ACP agent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AcpOptions {
    /// The session mode to work in, by the agent's own id; where it is set, an agent that has no such mode is refused.
    pub mode: Option<String>,
}

/// Agents that speak ACP.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Acp {
    /// What is configured.
    pub options: AcpOptions,
}

impl AdapterKind for Acp {
    fn lifetime(&self) -> Lifetime {
        Lifetime::Session
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::all()
    }

    fn start(&self, _: OpenContext<'_>) -> Start {
        Start { arguments: Vec::new() }
    }

    fn open(&self, context: OpenContext<'_>) -> Box<dyn Adapter> {
        Box::new(Machine::new(Setup::new(context, self.options.mode.clone())))
    }

    fn restore(&self, bytes: &[u8]) -> Result<Box<dyn Adapter>, SnapshotError> {
        Ok(Box::new(snapshot::restore::<Machine>(SNAPSHOT, bytes)?))
    }
}

/// What a request of ours was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Asked {
    Initialize,
    NewSession,
    LoadSession,
    ResumeSession,
    /// Nothing but an answer: the history of a loaded session has been said again before it.
    Replayed,
    SetMode,
    SetModel,
    Prompt,
}

/// How far the way to tasks has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Phase {
    Opening(Box<Setup>),
    Ready,
    /// It will take no task.
    Refused,
}

/// One agent's machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Machine {
    phase: Phase,
    known: Known,
    session: Option<NativeId>,
    /// What the session is called on the wire.
    spoken: Option<String>,
    /// Whether the agent offers to load sessions that it stored.
    storage: Storage,
    turn: Option<Turn>,
    calls: Calls,
    permissions: BTreeMap<InteractionId, OpenPermission>,
    next_id: u64,
    asked: BTreeMap<u64, Asked>,
    usage: turn::Total,
    #[serde(skip)]
    counts: FrameCounts,
}

/// What is known of the session's place on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Storage {
    /// It cannot be loaded again.
    None,
    /// It can, once there is something in it.
    Offered,
    /// It was loaded from there, or a turn of it has ended.
    Shown,
}

impl Machine {
    fn new(setup: Setup) -> Self {
        Self {
            phase: Phase::Opening(Box::new(setup)),
            known: Known::Other,
            session: None,
            spoken: None,
            storage: Storage::None,
            turn: None,
            calls: Calls::default(),
            permissions: BTreeMap::new(),
            next_id: 1,
            asked: BTreeMap::new(),
            usage: turn::Total::Known(AgentUsage::UNKNOWN),
            counts: FrameCounts::default(),
        }
    }

    fn request(&mut self, what: Asked, method: &str, params: &impl Serialize, answer: &mut Answer) {
        let id = self.next_id;
        self.next_id += 1;
        self.asked.insert(id, what);
        wire::request(id, method, params, answer);
    }

    fn frame(&mut self, frame: Frame<'_>, answer: &mut Answer) {
        let became = match frames::line(frame) {
            Ok(line) => self.line(line, answer),
            Err(what) => noise(what, answer),
        };
        became.count(&mut self.counts);
    }

    fn line(&mut self, line: &str, answer: &mut Answer) -> Became {
        let Ok(incoming) = serde_json::from_str::<Incoming<'_>>(line) else {
            return noise(format!("a line of {} bytes that is no message", line.len()), answer);
        };
        match incoming.kind() {
            Some(Kind::Request { id, method }) => self.asked_by_agent(method, id, incoming.params, answer),
            Some(Kind::Notification { method }) => self.notified(method, incoming.params, answer),
            Some(Kind::Answer { id }) => self.answered(id.as_u64(), &incoming, answer),
            None => noise("an object that is no message".to_owned(), answer),
        }
    }

    fn answered(&mut self, id: Option<u64>, incoming: &Incoming<'_>, answer: &mut Answer) -> Became {
        let Some(what) = id.and_then(|id| self.asked.remove(&id)) else {
            return noise("an answer to nothing that was asked".to_owned(), answer);
        };
        match what {
            Asked::Prompt => self.prompt_answered(incoming.outcome(), answer),
            _ => self.opening_answered(what, incoming.outcome(), answer),
        }
        Became::Mapped
    }

    /// Whether a session that an agent speaks of is ours.
    fn is_own(&self, session: &str) -> bool {
        self.spoken.as_deref() == Some(session)
    }
}

impl Adapter for Machine {
    fn tell(&mut self, told: Told<'_>, answer: &mut Answer) {
        match told {
            Told::Started => self.initialize(answer),
            Told::Frame(frame) => self.frame(frame, answer),
            Told::Submit { delegation, .. } => self.submit(delegation, answer),
            Told::Interrupt => self.interrupt(answer),
            Told::Respond { interaction, response } => self.respond(interaction, response, answer),
            Told::OutputEnded => {}
        }
    }

    fn is_ready(&self) -> bool {
        self.phase == Phase::Ready
    }

    fn snapshot(&self) -> Vec<u8> {
        snapshot::take(SNAPSHOT, self)
    }

    fn counts(&self) -> FrameCounts {
        self.counts
    }
}

#[cfg(test)]
mod tests;
