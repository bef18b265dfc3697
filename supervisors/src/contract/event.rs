//! The event envelope of the Harness Protocol, version 1 (HP 1), with a position per session (rules 4).

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::{HarnessId, SessionId, TaskId};

/// The place of an event in its session's stream: 1, 2, 3 … without gaps; 0 is before the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize)]
#[serde(transparent)]
pub struct Position(pub u64);

impl Position {
    /// Before the first event.
    pub const START: Self = Self(0);

    /// The place after this one.
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The type of an event: one of the canonical names of HP 1.2, or a dotted extension.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct EventKind(Cow<'static, str>);

impl EventKind {
    /// A canonical or extension name known at compile time.
    pub const fn known(name: &'static str) -> Self {
        Self(Cow::Borrowed(name))
    }

    /// A name from outside, normalised as HP 1.5 says: dotted names stay, others become `adapter.…`.
    pub fn from_adapter(name: &str) -> Self {
        let known = match name {
            "run_start" => "run.started",
            "model_request" => "model.requested",
            "model_result" => "model.completed",
            "model_delta" | "delta" => "message.delta",
            "thinking" => "model.thinking",
            "tool_call" => "tool.requested",
            "tool_result" => "tool.completed",
            "approval_required" => "approval.requested",
            "approval_decision" | "approval_resumed" => "approval.resolved",
            _ if name.contains('.') => return Self(Cow::Owned(name.to_owned())),
            _ => return Self(Cow::Owned(format!("adapter.{}", name.replace('_', ".")))),
        };
        Self::known(known)
    }

    /// A name as a store kept it.
    pub fn stored(name: &str) -> Self {
        Self(Cow::Owned(name.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a run ends with it (HP T-1).
    pub fn is_terminal(&self) -> bool {
        matches!(self.as_str(), "run.completed" | "run.failed" | "run.cancelled")
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The names that Ostler itself writes.
pub mod kinds {
    use super::EventKind;

    macro_rules! kinds {
        ($($name:ident = $text:literal;)+) => { $(
            #[doc = concat!("`", $text, "`")]
            pub const $name: EventKind = EventKind::known($text);
        )+ };
    }

    kinds! {
        RUN_STARTED = "run.started";
        RUN_COMPLETED = "run.completed";
        RUN_FAILED = "run.failed";
        RUN_CANCELLED = "run.cancelled";
        MESSAGE_CREATED = "message.created";
        MESSAGE_DELTA = "message.delta";
        MODEL_REQUESTED = "model.requested";
        MODEL_THINKING = "model.thinking";
        MODEL_COMPLETED = "model.completed";
        TOOL_REQUESTED = "tool.requested";
        TOOL_COMPLETED = "tool.completed";
        TOOL_PROGRESS = "adapter.tool.progress";
        APPROVAL_REQUESTED = "approval.requested";
        APPROVAL_RESOLVED = "approval.resolved";
        SESSION_OPENED = "ostler.session.opened";
        SESSION_CLOSED = "ostler.session.closed";
        NATIVE_LOST = "ostler.session.native_lost";
        SESSION_HIBERNATED = "ostler.session.hibernated";
        RUNTIME_OPENED = "ostler.runtime.opened";
        RUNTIME_READY = "ostler.runtime.ready";
        RUNTIME_LIMITED = "ostler.runtime.limited";
        RUNTIME_CLOSED = "ostler.runtime.closed";
        RUNTIME_ADOPTED = "ostler.runtime.adopted";
        RUNTIME_LEAKED = "ostler.runtime.leaked";
        CANCEL_REQUESTED = "ostler.cancel.requested";
        STRAY_ENDED = "ostler.stray.ended";
        WARNING = "ostler.warning";
        RATE_LIMITED = "ostler.rate_limited";
        FRAME_REJECTED = "ostler.frame.rejected";
        LATE_FACT = "ostler.late_fact";
        CONTEXT_BLOCKED = "ostler.context.blocked";
        CONTEXT_UNBLOCKED = "ostler.context.unblocked";
    }
}

/// One stored event. Its envelope is rendered at the doors; its id derives from run and sequence.
#[derive(Debug, Clone)]
pub struct Event {
    /// The place in the session.
    pub position: Position,
    /// The run and the sequence in it; `None` for rows outside a run, or after its terminal.
    pub run: Option<(TaskId, u64)>,
    /// Milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// The type.
    pub kind: EventKind,
    /// The payload: one JSON object.
    pub data: Box<RawValue>,
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        (self.position, &self.run, self.at_ms, &self.kind) == (other.position, &other.run, other.at_ms, &other.kind)
            && self.data.get() == other.data.get()
    }
}

/// The ten keys of HP 1.1, and `position`.
#[derive(Debug, Serialize)]
pub struct Envelope<'a> {
    #[serde(rename = "type")]
    kind: &'a EventKind,
    data: &'a RawValue,
    timestamp: f64,
    session_id: &'a SessionId,
    run_id: Option<String>,
    protocol_version: &'static str,
    event_id: String,
    sequence: u64,
    harness_id: &'a HarnessId,
    parent_event_id: Option<String>,
    position: Position,
}

impl Event {
    /// The event as readers get it.
    pub fn envelope<'a>(&'a self, session: &'a SessionId, harness: &'a HarnessId) -> Envelope<'a> {
        let run = self.run.as_ref().map(|(task, sequence)| (task.run_id(), *sequence));
        let (event_id, parent_event_id) = match &run {
            Some((run, sequence)) => (event_id(run, *sequence), (*sequence > 1).then(|| event_id(run, sequence - 1))),
            None => (event_id(session.as_str(), self.position.0), None),
        };
        Envelope {
            kind: &self.kind,
            data: &self.data,
            timestamp: self.at_ms as f64 / 1000.0,
            session_id: session,
            sequence: run.as_ref().map_or(0, |(_, sequence)| *sequence),
            run_id: run.map(|(run, _)| run),
            protocol_version: "1.0",
            event_id,
            harness_id: harness,
            parent_event_id,
            position: self.position,
        }
    }
}

fn event_id(scope: &str, number: u64) -> String {
    format!("evt_{}", Uuid::new_v5(&Uuid::NAMESPACE_URL, format!("{scope}:{number}").as_bytes()).simple())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_envelope_has_the_ten_keys_and_a_linear_parent_chain() {
        let (session, harness) = ("s1".parse().expect("id"), "codex".parse().expect("id"));
        let event = |sequence| Event {
            position: Position(sequence + 1),
            run: Some(("task_1".parse().expect("id"), sequence)),
            at_ms: 1500,
            kind: kinds::MESSAGE_DELTA,
            data: RawValue::from_string(r#"{"text":"a"}"#.into()).expect("JSON"),
        };
        let json = |event: &Event| serde_json::to_value(event.envelope(&session, &harness)).expect("JSON");
        let (first, second) = (json(&event(1)), json(&event(2)));
        assert_eq!(first["parent_event_id"], serde_json::Value::Null);
        assert_eq!(second["parent_event_id"], first["event_id"]);
        assert_eq!(first.as_object().map(|o| o.len()), Some(11));
        assert_eq!((&first["timestamp"], &first["run_id"]), (&1.5.into(), &"run_1".into()));
    }

    #[test]
    fn older_names_are_normalised() {
        for (name, expected) in
            [("tool_call", "tool.requested"), ("my.event", "my.event"), ("turn_complete", "adapter.turn.complete")]
        {
            assert_eq!(EventKind::from_adapter(name).as_str(), expected);
        }
    }
}
