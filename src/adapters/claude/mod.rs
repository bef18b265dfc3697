//! Claude Code, through its stream-json mode: one JSON object a line both ways, and a control protocol beside the
//! conversation.
//!
//! Facts it is built on, of version 2.1.332: a message sent while it is busy is queued, so each one carries an id of its
//! own, and the result that names it is the task's; a result may come while subagents and background commands still
//! work, and their end wakes it for a turn that names no message; an interrupt ends the turn and its tool, and leaves
//! background commands alive, so each is stopped by name; what was said is in its store when the result is.

mod control;
mod message;
mod outcome;
mod permission;
mod system;
mod tool;
mod track;
mod usage;

use std::collections::BTreeMap;

use ostler_supervisors::adapter::{
    Adapter, AdapterKind, Answer, EndReport, Fact, Frame, FrameCounts, Lifetime, OpenContext, SnapshotError, Start,
    Told,
};
use ostler_supervisors::capability::Capabilities;
use ostler_supervisors::contract::{AgentUsage, ApprovalPolicy, Delegation, NativeId, TaskId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{frames, snapshot};

use control::Asked;
use message::Block;
use track::{Background, OpenApprovals, OpenTools, Waking};

/// The version of its machine's shape, between two daemons.
const SNAPSHOT: u32 = 1;

/// What its stream-json mode is started with. Automatic answers to its own questions are switched off.
const ARGUMENTS: [&str; 11] = [
    "-p",
    "--input-format",
    "stream-json",
    "--output-format",
    "stream-json",
    "--verbose",
    "--include-partial-messages",
    "--permission-prompt-tool",
    "stdio",
    "--permission-mode",
    "default",
];

/// Claude Code processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Claude;

impl AdapterKind for Claude {
    fn lifetime(&self) -> Lifetime {
        Lifetime::Session
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::all()
    }

    fn start(&self, context: OpenContext<'_>) -> Start {
        let pair = |name: &str, value: &str| [name.to_owned(), value.to_owned()];
        let mut arguments = ARGUMENTS.map(str::to_owned).to_vec();
        arguments.extend(context.spec.model.iter().flat_map(|model| pair("--model", model)));
        arguments.extend(context.resume.iter().flat_map(|id| pair("--resume", id.as_str())));
        Start { arguments }
    }

    fn open(&self, context: OpenContext<'_>) -> Box<dyn Adapter> {
        Box::new(Machine::new(context.resume.cloned()))
    }

    fn restore(&self, bytes: &[u8]) -> Result<Box<dyn Adapter>, SnapshotError> {
        Ok(Box::new(snapshot::restore::<Machine>(SNAPSHOT, bytes)?))
    }
}

/// How far a message of ours has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Phase {
    /// It was sent.
    Sent,
    /// It is in the agent's queue.
    Queued,
    /// Its turn runs, or a later one that it caused.
    Running,
}

/// Whether somebody asked for the end of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Stop {
    /// Nobody asked.
    Unasked,
    /// We did: by an interrupt, or by an answer that ends the turn.
    Ours,
    /// The same, and work in the background was cut off by it: whatever the turn says, the task did not complete.
    Cut,
}

/// The task under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Turn {
    /// The id its message carries.
    message: Uuid,
    phase: Phase,
    policy: ApprovalPolicy,
    stop: Stop,
    /// What was reported, while work of the task is still open.
    held: Option<EndReport>,
    /// How long it last waited because its provider took no more.
    #[serde(default)]
    limited_ms: Option<u64>,
    /// What its results have counted so far.
    usage: Option<AgentUsage>,
}

/// Whether the agent is at work, where it says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
enum Activity {
    /// It has not said, and perhaps never does.
    #[default]
    Untold,
    Running,
    Idle,
}

/// Whether it names the message that each turn answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
enum Correlation {
    #[default]
    Untold,
    ByMessage,
}

/// One process's machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Machine {
    resume: Option<NativeId>,
    ready: bool,
    session: Option<NativeId>,
    stored: bool,
    turn: Option<Turn>,
    next_request: u64,
    asked: BTreeMap<String, Asked>,
    block: Option<Block>,
    tools: OpenTools,
    approvals: OpenApprovals,
    background: Background,
    activity: Activity,
    correlation: Correlation,
    #[serde(skip)]
    counts: FrameCounts,
}

impl Machine {
    fn new(resume: Option<NativeId>) -> Self {
        Self { resume, next_request: 1, ..Self::default() }
    }

    /// An id that is the task's alone. A message that the agent has already seen is ignored by it.
    fn submit(&mut self, task: &TaskId, delegation: &Delegation, answer: &mut Answer) {
        let message = Uuid::new_v5(&Uuid::NAMESPACE_OID, task.as_str().as_bytes());
        let content = json!([{ "type": "text", "text": delegation.prompt }]);
        answer.json(&json!({
            "type": "user", "message": { "role": "user", "content": content }, "parent_tool_use_id": null, "uuid": message,
        }));
        self.background.waking = Waking::Follows;
        self.turn = Some(Turn {
            message,
            phase: Phase::Sent,
            policy: delegation.approval,
            stop: Stop::Unasked,
            held: None,
            limited_ms: None,
            usage: None,
        });
    }

    fn frame(&mut self, frame: Frame<'_>, answer: &mut Answer) {
        match frames::line(frame) {
            Ok(line) => self.line(line, answer),
            Err(what) => self.noise(what, answer),
        }
    }

    fn line(&mut self, line: &str, answer: &mut Answer) {
        let Ok(frame) = serde_json::from_str::<Value>(line) else {
            return self.noise(format!("a line of {} bytes that is no JSON", line.len()), answer);
        };
        self.counts.mapped += 1;
        self.named_session(&frame, answer);
        match frame["type"].as_str() {
            Some("stream_event") => self.streamed(&frame, answer),
            Some("assistant") => self.said(&frame, answer),
            Some("user") => self.returned(&frame, answer),
            Some("result") => self.result(&frame, answer),
            Some("system") => self.system(&frame, answer),
            Some("command_lifecycle") => self.lifecycle(&frame, answer),
            Some("control_request") => self.asked_by_agent(&frame, answer),
            Some("control_response") => self.answered(&frame["response"], answer),
            Some("control_cancel_request") => self.withdrawn(&frame, answer),
            Some(_) => self.noted(),
            None => {
                self.counts.mapped -= 1;
                self.noise("an object that is no message".to_owned(), answer);
            }
        }
    }

    fn named_session(&mut self, frame: &Value, answer: &mut Answer) {
        let named = frame["session_id"].as_str().and_then(|id| id.parse::<NativeId>().ok());
        if let Some(id) = named.filter(|id| self.ready && self.session.as_ref() != Some(id)) {
            self.stored = self.resume.as_ref() == Some(&id);
            self.session = Some(id.clone());
            answer.fact(Fact::NativeSession { id, stored: self.stored });
        }
    }

    /// A frame that is of no meaning here.
    fn noted(&mut self) {
        self.counts.mapped -= 1;
        self.counts.noted += 1;
    }

    /// A frame whose content is told by another.
    fn redundant(&mut self) {
        self.counts.mapped -= 1;
        self.counts.redundant += 1;
    }

    fn noise(&mut self, what: String, answer: &mut Answer) {
        self.counts.noted += 1;
        answer.fact(Fact::Noise { what });
    }

    /// The task whose turn runs; what is said outside of one is nobody's.
    fn running(&mut self) -> Option<&mut Turn> {
        self.turn.as_mut().filter(|turn| turn.phase == Phase::Running)
    }
}

impl Adapter for Machine {
    fn tell(&mut self, told: Told<'_>, answer: &mut Answer) {
        match told {
            Told::Started => self.request(Asked::Initialize, json!({ "subtype": "initialize" }), answer),
            Told::Frame(frame) => self.frame(frame, answer),
            Told::Submit { task, delegation } => self.submit(task, delegation, answer),
            Told::Interrupt => self.interrupt(answer),
            Told::Respond { interaction, response } => self.respond(interaction, response, answer),
            Told::OutputEnded => {}
        }
    }

    fn is_ready(&self) -> bool {
        self.ready
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
