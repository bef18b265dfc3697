//! Codex, through its native app-server: JSON-RPC shaped lines without a `jsonrpc` member.
//!
//! Facts it is built on, of version 0.171.0: a second `turn/start` steers the running turn, so only one is ever under
//! way; `turn/interrupt` ends the turn in milliseconds and leaves its command running, so the command is cleaned up
//! here and by the strays rule; one process may hold a thread at a time; unknown methods are answered with -32600.

mod approval;
mod item;
mod notification;
mod options;
mod response;
mod usage;

use std::collections::BTreeMap;

use ostler_supervisors::adapter::{
    Adapter, AdapterKind, Answer, Fact, Frame, FrameCounts, Lifetime, OpenContext, SnapshotError, Start, Told,
};
use ostler_supervisors::capability::Capabilities;
use ostler_supervisors::contract::{
    AgentUsage, ApprovalPolicy, Delegation, InteractionId, InteractionResponse, NativeId,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{frames, snapshot};

pub use options::{CodexApproval, CodexOptions, CodexSandbox};

/// The version of its machine's shape, between two daemons.
const SNAPSHOT: u32 = 1;

/// Codex app-servers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Codex {
    /// What is configured.
    pub options: CodexOptions,
}

impl AdapterKind for Codex {
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
        let setup = Setup {
            directory: context.spec.directory.to_string_lossy().into_owned(),
            model: context.spec.model.clone(),
            approval_policy: self.options.approval_policy.to_string(),
            sandbox: self.options.sandbox.to_string(),
        };
        Box::new(Machine::new(setup, context.resume.cloned()))
    }

    fn restore(&self, bytes: &[u8]) -> Result<Box<dyn Adapter>, SnapshotError> {
        Ok(Box::new(snapshot::restore::<Machine>(SNAPSHOT, bytes)?))
    }
}

/// What a thread is opened with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Setup {
    directory: String,
    model: Option<String>,
    approval_policy: String,
    sandbox: String,
}

/// What a request of ours was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Asked {
    Initialize,
    StartThread,
    ResumeThread,
    StartTurn,
    Interrupt,
    CleanTerminals,
}

/// The turn under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Turn {
    /// Its id, once it is known.
    id: Option<String>,
    /// Whether an interrupt was asked for before the id was known.
    interrupt_when_known: bool,
    policy: ApprovalPolicy,
    /// The session's usage before the turn.
    baseline: Option<AgentUsage>,
}

/// A turn that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct LastTurn {
    id: String,
    end: End,
}

/// How a turn ended, as far as two reports of it can contradict each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum End {
    Completed,
    Failed,
    Interrupted,
    Unknown,
}

/// An approval that is open at the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct OpenApproval {
    request: Value,
    answered: bool,
}

/// One app-server's machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Machine {
    setup: Setup,
    resume: Option<NativeId>,
    thread: Option<String>,
    turn: Option<Turn>,
    /// The turn before, whose end may be told again.
    #[serde(default)]
    last: Option<LastTurn>,
    next_id: u64,
    asked: BTreeMap<u64, Asked>,
    approvals: BTreeMap<InteractionId, OpenApproval>,
    session_usage: Option<AgentUsage>,
    stored: bool,
    #[serde(skip)]
    counts: FrameCounts,
}

impl Machine {
    fn new(setup: Setup, resume: Option<NativeId>) -> Self {
        Self {
            setup,
            resume,
            thread: None,
            turn: None,
            last: None,
            next_id: 1,
            asked: BTreeMap::new(),
            approvals: BTreeMap::new(),
            session_usage: None,
            stored: false,
            counts: FrameCounts::default(),
        }
    }

    fn request(&mut self, what: Asked, method: &str, params: Value, answer: &mut Answer) {
        let id = self.next_id;
        self.next_id += 1;
        self.asked.insert(id, what);
        answer.json(&json!({ "id": id, "method": method, "params": params }));
    }

    fn started(&mut self, answer: &mut Answer) {
        let params = json!({
            "clientInfo": { "name": "ostler", "title": "Ostler", "version": env!("CARGO_PKG_VERSION") },
            "capabilities": { "experimentalApi": true },
        });
        self.request(Asked::Initialize, "initialize", params, answer);
    }

    fn open_thread(&mut self, answer: &mut Answer) {
        answer.json(&json!({ "method": "initialized" }));
        let mut params = json!({
            "cwd": self.setup.directory,
            "approvalPolicy": self.setup.approval_policy,
            "sandbox": self.setup.sandbox,
        });
        if let Some(model) = &self.setup.model {
            params["model"] = json!(model);
        }
        match self.resume.clone() {
            Some(thread) => {
                params["threadId"] = json!(thread);
                self.request(Asked::ResumeThread, "thread/resume", params, answer);
            }
            None => self.request(Asked::StartThread, "thread/start", params, answer),
        }
    }

    fn submit(&mut self, delegation: &Delegation, answer: &mut Answer) {
        let input = json!([{ "type": "text", "text": delegation.prompt }]);
        let params = json!({ "threadId": self.thread, "input": input });
        self.turn = Some(Turn {
            id: None,
            interrupt_when_known: false,
            policy: delegation.approval,
            baseline: self.session_usage,
        });
        self.request(Asked::StartTurn, "turn/start", params, answer);
    }

    fn interrupt(&mut self, answer: &mut Answer) {
        let Some(turn) = &mut self.turn else { return };
        match turn.id.clone() {
            Some(turn) => {
                let params = json!({ "threadId": self.thread, "turnId": turn });
                self.request(Asked::Interrupt, "turn/interrupt", params, answer);
            }
            None => turn.interrupt_when_known = true,
        }
    }

    fn frame(&mut self, frame: Frame<'_>, answer: &mut Answer) {
        match frames::line(frame) {
            Ok(line) => self.line(line, answer),
            Err(what) => self.noise(what, answer),
        }
    }

    fn noise(&mut self, what: String, answer: &mut Answer) {
        self.counts.noted += 1;
        answer.fact(Fact::Noise { what });
    }

    fn line(&mut self, line: &str, answer: &mut Answer) {
        let Ok(message) = serde_json::from_str::<Value>(line) else {
            return self.noise(format!("a line of {} bytes that is no JSON", line.len()), answer);
        };
        let id = message.get("id").filter(|id| !id.is_null());
        match (message.get("method").and_then(Value::as_str), id) {
            (Some(method), Some(id)) => self.asked_by_agent(method, id, &message["params"], answer),
            (Some(method), None) => self.notified(method, &message["params"], answer),
            (None, Some(id)) => self.answered(id.as_u64(), &message, answer),
            (None, None) => self.noise("an object that is no message".to_owned(), answer),
        }
    }

    fn respond(&mut self, interaction: &InteractionId, response: &InteractionResponse, answer: &mut Answer) {
        if let Some(open) = self.approvals.get_mut(interaction).filter(|open| !open.answered) {
            open.answered = true;
            let result = json!({ "decision": approval::decision(response) });
            answer.json(&json!({ "id": open.request, "result": result }));
        }
    }
}

impl Adapter for Machine {
    fn tell(&mut self, told: Told<'_>, answer: &mut Answer) {
        match told {
            Told::Started => self.started(answer),
            Told::Frame(frame) => self.frame(frame, answer),
            Told::Submit { delegation, .. } => self.submit(delegation, answer),
            Told::Interrupt => self.interrupt(answer),
            Told::Respond { interaction, response } => self.respond(interaction, response, answer),
            Told::OutputEnded => {}
        }
    }

    fn is_ready(&self) -> bool {
        self.thread.is_some()
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
