//! One event as readers get it: rendered once, and looked into without being taken apart.

use std::borrow::Cow;

use ostler_supervisors::contract::{Event, HarnessId, SessionId};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

/// An envelope (HP 1.1) as one JSON object.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EventLine(Box<RawValue>);

/// What of an envelope is looked at while it passes by.
#[derive(Debug, Deserialize)]
pub struct EventView<'a> {
    /// Its type.
    #[serde(rename = "type", borrow)]
    pub kind: Cow<'a, str>,
    /// The run it belongs to.
    #[serde(borrow)]
    pub run_id: Option<Cow<'a, str>>,
    /// Its place in its session.
    pub position: u64,
    /// Its payload, not looked into.
    #[serde(borrow)]
    pub data: &'a RawValue,
}

impl EventLine {
    /// Renders an event of a session.
    ///
    /// # Errors
    ///
    /// None that an event can cause: its strings are Unicode and its payload is JSON.
    pub fn of(event: &Event, session: &SessionId, harness: &HarnessId) -> serde_json::Result<Self> {
        to_raw_value(&event.envelope(session, harness)).map(Self)
    }

    /// The JSON text, on one line.
    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// Looks into it.
    ///
    /// # Errors
    ///
    /// If it is no envelope: another version wrote it.
    pub fn view(&self) -> serde_json::Result<EventView<'_>> {
        serde_json::from_str(self.text())
    }
}

#[cfg(test)]
mod tests {
    use ostler_supervisors::contract::Position;
    use ostler_supervisors::contract::event::kinds;

    use super::*;

    #[test]
    fn a_rendered_event_is_looked_into_and_passed_on_unchanged() {
        let event = Event {
            position: Position(2),
            run: Some(("task_1".parse().expect("an id"), 1)),
            at_ms: 1500,
            kind: kinds::MESSAGE_DELTA,
            data: RawValue::from_string(r#"{"text":"a\n\u00e9"}"#.to_owned()).expect("JSON"),
        };
        let (session, harness) = ("s1".parse().expect("an id"), "codex".parse().expect("an id"));
        let line = EventLine::of(&event, &session, &harness).expect("rendered");
        let view = line.view().expect("an envelope");
        assert_eq!((&*view.kind, view.run_id.as_deref(), view.position), ("message.delta", Some("run_1"), 2));
        assert_eq!(view.data.get(), r#"{"text":"a\n\u00e9"}"#);
        let again: EventLine = serde_json::from_str(&serde_json::to_string(&line).expect("JSON")).expect("JSON");
        assert_eq!(again.text(), line.text());
    }
}
