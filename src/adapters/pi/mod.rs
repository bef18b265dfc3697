//! Pi, through its RPC mode: one JSON object a line both ways; commands are answered by id, events have none.
//!
//! Facts it is built on, of version 0.73.1: every fragment of a message repeats the whole of it, twice, so a fragment's
//! line is read for its few own words and for nothing else; the end of a run is not the end of its work, since a retry or
//! a compaction may follow, and is announced in the same breath, so Pi is asked for its state after each; an abort that
//! arrives before the run began is answered and has no effect, so it is given again; a session that is not there any more
//! is silently begun anew under its name, which the id in it gives away; a session's file is written once its model has
//! answered; Pi never asks before it acts.

mod message;
mod opening;
mod tool;
mod turn;
mod wire;

use ostler_supervisors::adapter::{
    Adapter, AdapterKind, Answer, Fact, Frame, FrameCounts, Lifetime, OpenContext, SnapshotError, Start, Told,
};
use ostler_supervisors::capability::{Capabilities, Capability};
use ostler_supervisors::contract::{NativeId, WarningKind};
use serde::{Deserialize, Serialize};

use super::frames::{self, Became, noise};
use super::snapshot;

use opening::Phase;
use tool::OpenTools;
use turn::Turn;
use wire::{Asked, Line, short, text};

/// The version of its machine's shape, between two daemons.
const SNAPSHOT: u32 = 1;

/// An extension's dialog whose id is longer than this is none; in bytes.
const LONGEST_DIALOG: usize = 128;

/// Pi's processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pi;

impl AdapterKind for Pi {
    fn lifetime(&self) -> Lifetime {
        Lifetime::Session
    }

    fn capabilities(&self) -> Capabilities {
        Capability::ALL.into_iter().filter(|capability| *capability != Capability::Approvals).collect()
    }

    /// The session is not among them: Pi asks a person where it does not find it in this directory.
    fn start(&self, context: OpenContext<'_>) -> Start {
        let pair = |name: &str, value: &str| [name.to_owned(), value.to_owned()];
        let mut arguments = pair("--mode", "rpc").to_vec();
        arguments.extend(context.spec.model.iter().flat_map(|model| pair("--model", model)));
        Start { arguments }
    }

    fn open(&self, context: OpenContext<'_>) -> Box<dyn Adapter> {
        Box::new(Machine::new(context.resume.cloned()))
    }

    fn restore(&self, bytes: &[u8]) -> Result<Box<dyn Adapter>, SnapshotError> {
        Ok(Box::new(snapshot::restore::<Machine>(SNAPSHOT, bytes)?))
    }
}

/// What is known of the session's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
enum Storage {
    /// Nothing is in it.
    #[default]
    Empty,
    /// The model answered: it is written before anything else is said.
    Due,
    /// It was written, or read.
    Shown,
}

/// One process's machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Machine {
    resume: Option<NativeId>,
    phase: Phase,
    session: Option<NativeId>,
    storage: Storage,
    turn: Option<Turn>,
    tools: OpenTools,
    next_id: u64,
    /// Commands without an answer, oldest first.
    asked: Vec<(u64, Asked)>,
    #[serde(skip)]
    counts: FrameCounts,
}

impl Machine {
    fn new(resume: Option<NativeId>) -> Self {
        Self { resume, next_id: 1, ..Self::default() }
    }

    fn frame(&mut self, frame: Frame<'_>, answer: &mut Answer) {
        let became = match frames::line(frame) {
            Ok(line) => self.line(line, answer),
            Err(what) => noise(what, answer),
        };
        became.count(&mut self.counts);
    }

    fn line(&mut self, line: &str, answer: &mut Answer) -> Became {
        let Ok(line) = serde_json::from_str::<Line<'_>>(line) else {
            return noise(format!("a line of {} bytes that is no message", line.len()), answer);
        };
        self.show_stored(answer);
        match text(line.kind).as_deref() {
            Some("response") => self.answered(&line, answer),
            Some("message_update") => self.streamed(&line, answer),
            Some("message_start") => self.message_started(&line),
            Some("message_end") => self.message_ended(&line, answer),
            Some("tool_execution_start") => self.tool_started(&line, answer),
            Some("tool_execution_end") => self.tool_ended(&line, answer),
            // Each repeats all that a tool has printed so far, and its end does so again.
            Some("tool_execution_update" | "turn_start" | "turn_end") => Became::Redundant,
            Some("agent_start") => self.began(answer),
            Some("agent_end") => self.run_ended(&line, answer),
            Some("auto_retry_start") => self.retries(&line, answer),
            Some("auto_retry_end") => self.retried(&line, answer),
            Some("compaction_start") => self.compacts(&line, answer),
            Some("compaction_end") => self.compacted(&line, answer),
            Some("extension_ui_request") => asked_by_extension(&line, answer),
            Some("extension_error") => warned(&line, answer),
            Some(_) => Became::Noted,
            None => noise("an object that is no message".to_owned(), answer),
        }
    }

    fn answered(&mut self, line: &Line<'_>, answer: &mut Answer) -> Became {
        let Some(what) = wire::number_of(line.id).and_then(|id| self.taken(id)) else {
            return noise("an answer to nothing that was asked".to_owned(), answer);
        };
        match what {
            Asked::Prompt => self.prompt_answered(line, answer),
            Asked::Abort => self.probe(answer),
            Asked::Rest => self.settle_if_over(line, answer),
            Asked::Session | Asked::Switch | Asked::Switched => self.opening_answered(what, line, answer),
        }
        Became::Mapped
    }

    /// What has been said since shows that it was written.
    fn show_stored(&mut self, answer: &mut Answer) {
        if self.storage == Storage::Due {
            self.storage = Storage::Shown;
            self.tell_session(answer);
        }
    }

    fn tell_session(&self, answer: &mut Answer) {
        if let Some(id) = self.session.clone() {
            answer.fact(Fact::NativeSession { id, stored: self.storage == Storage::Shown });
        }
    }
}

fn warn(kind: WarningKind, message: String, answer: &mut Answer) {
    answer.fact(Fact::Warning { kind, message });
}

/// Nobody is there to answer an extension's dialog, and Pi would wait for it for ever; an abort as well.
fn asked_by_extension(line: &Line<'_>, answer: &mut Answer) -> Became {
    let title = short(&text(line.title).unwrap_or_default());
    let id = line.id.filter(|id| id.get().len() <= LONGEST_DIALOG);
    match (text(line.method).as_deref(), id) {
        (Some("select" | "confirm" | "input" | "editor"), Some(id)) => {
            answer.json(&wire::Dismissal::of(id));
            warn(WarningKind::Other, format!("an extension of pi asked {title:?}, which was declined"), answer);
        }
        (Some("notify"), _) if text(line.notify_type).is_some_and(|kind| kind != "info") => {
            let said = short(&text(line.message).unwrap_or_default());
            warn(WarningKind::Other, format!("an extension of pi says: {said}"), answer);
        }
        _ => return Became::Noted,
    }
    Became::Mapped
}

fn warned(line: &Line<'_>, answer: &mut Answer) -> Became {
    let said = short(&text(line.error).unwrap_or_default());
    warn(WarningKind::Other, format!("an extension of pi failed: {said}"), answer);
    Became::Mapped
}

impl Adapter for Machine {
    fn tell(&mut self, told: Told<'_>, answer: &mut Answer) {
        match told {
            Told::Started => self.ask_session(answer),
            Told::Frame(frame) => self.frame(frame, answer),
            Told::Submit { delegation, .. } => self.submit(delegation, answer),
            Told::Interrupt => self.interrupt(answer),
            // It never asks, so nothing is open that could be answered.
            Told::Respond { .. } | Told::OutputEnded => {}
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
