//! Captures of real Pi, replayed: order and facts.

mod cases;
mod damage;

use ostler_supervisors::adapter::{EndReport, MAX_SNAPSHOT, Message};
use ostler_supervisors::contract::{
    AgentUsage, ApprovalPolicy, Delegation, EffectKind, FailureKind, MessageRole, SessionSpec, StopReason, WorkStatus,
};
use serde_json::{Value, json};

use super::*;

fn capture(name: &str) -> Vec<Value> {
    let path = format!("{}/tests/captures/pi/rpc-{name}.jsonl", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("the capture");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn delegation(prompt: &str) -> Delegation {
    Delegation { prompt: prompt.into(), approval: ApprovalPolicy::Allow, model: None, timeout: None }
}

/// A machine whose agent is the captured one. What it asks beside what the captured client did is answered as Pi would.
struct Replay {
    machine: Machine,
    facts: Vec<Fact>,
    sent: Vec<Value>,
    frames: u64,
    /// The captured ids of commands, and ours.
    ids: Vec<(String, String)>,
    /// Our questions whether it rests that the capture does not answer.
    unanswered: Vec<String>,
}

impl Replay {
    fn new(resume: Option<&str>) -> Self {
        let machine = Machine::new(resume.map(|id| id.parse().expect("an id")));
        let (facts, sent, ids, unanswered) = Default::default();
        Self { machine, facts, sent, frames: 0, ids, unanswered }
    }

    /// One that takes tasks.
    fn ready() -> Self {
        let mut replay = Self::new(None);
        replay.tell(Told::Started);
        let file = "/home/user/.pi/agent/sessions/--home-user-project--/2026_abc.jsonl";
        replay.reply("get_state", json!({ "sessionFile": file, "sessionId": "abc" }));
        assert!(replay.machine.is_ready());
        replay
    }

    fn of(name: &str) -> Self {
        Self::of_session(name, None)
    }

    fn of_session(name: &str, resume: Option<&str>) -> Self {
        let entries = capture(name);
        let begins = entries[0]["msg"]["type"] == "get_state";
        let mut replay = if begins { Self::new(resume) } else { Self::ready() };
        for entry in &entries {
            match entry["dir"].as_str() {
                Some("client->agent") => replay.client(&entry["msg"]),
                _ => replay.agent(&entry["msg"]),
            }
        }
        replay.rest();
        replay
    }

    /// The snapshot is restored after every step.
    fn tell(&mut self, told: Told<'_>) {
        let mut answer = Answer::default();
        self.machine.tell(told, &mut answer);
        let snapshot = self.machine.snapshot();
        assert!(snapshot.len() <= MAX_SNAPSHOT, "{}", snapshot.len());
        let restored = snapshot::restore(SNAPSHOT, &snapshot).expect("restores");
        self.machine = Machine { counts: self.machine.counts, ..restored };
        self.facts.extend(answer.facts);
        for message in &answer.messages {
            let sent = json_of(message);
            if sent["type"] == "get_state" && self.machine.is_ready() {
                self.unanswered.push(sent["id"].as_str().expect("an id").to_owned());
            }
            self.sent.push(sent);
        }
    }

    fn client(&mut self, message: &Value) {
        if message["type"] == "prompt" {
            // A session sends the next one only once the last has its end.
            self.rest();
        }
        let before = self.sent.len();
        match message["type"].as_str() {
            Some("get_state") if self.machine.turn.is_some() => return self.rest(),
            Some("get_state") if !self.sent.is_empty() => {}
            Some("get_state") => self.tell(Told::Started),
            Some("prompt") if self.machine.turn.is_none() => {
                self.submit(message["message"].as_str().expect("a prompt"));
            }
            Some("abort") => self.tell(Told::Interrupt),
            // The session does not send these, and the machine answers dialogs by itself.
            Some("prompt" | "steer" | "follow_up" | "extension_ui_response" | "switch_session") => {}
            _ => panic!("{message}"),
        }
        let ours = self.sent[before..].iter().find(|sent| sent["type"] == message["type"]);
        let pair = |ours: &Value| Some((message["id"].as_str()?.to_owned(), ours["id"].as_str()?.to_owned()));
        self.ids.extend(ours.and_then(pair));
    }

    fn submit(&mut self, prompt: &str) {
        let task = "t".parse().expect("id");
        self.tell(Told::Submit { task: &task, delegation: &delegation(prompt) });
    }

    fn agent(&mut self, message: &Value) {
        let mut message = message.clone();
        if let Some(id) = message["id"].as_str().filter(|_| message["type"] == "response") {
            match self.ids.iter().find(|(captured, _)| captured == id) {
                Some((_, ours)) => message["id"] = ours.as_str().into(),
                // The capture's client asked something that the machine did not.
                None if !id.starts_with("ostler-") => return,
                None => {}
            }
        }
        self.says(message);
    }

    fn says(&mut self, frame: Value) {
        self.line(&frame.to_string());
    }

    fn line(&mut self, line: &str) {
        self.frames += 1;
        self.tell(Told::Frame(Frame::Line(line)));
    }

    /// Answers the last command of this type.
    fn reply(&mut self, command: &str, data: Value) {
        let asked = self.sent.iter().rev().find(|sent| sent["type"] == command).expect("it was asked");
        let id = asked["id"].clone();
        self.says(json!({ "id": id, "type": "response", "command": command, "success": true, "data": data }));
    }

    /// Pi says that it rests, to every question about that.
    fn rest(&mut self) {
        self.state(json!({ "isStreaming": false, "isCompacting": false }));
    }

    fn state(&mut self, state: Value) {
        for id in std::mem::take(&mut self.unanswered) {
            self.says(json!({ "id": id, "type": "response", "command": "get_state", "success": true, "data": state }));
        }
    }

    fn ends(&self) -> Vec<&EndReport> {
        self.facts.iter().filter_map(|fact| if let Fact::End(report) = fact { Some(report) } else { None }).collect()
    }

    fn position(&self, wanted: impl Fn(&Fact) -> bool) -> usize {
        self.facts.iter().position(wanted).unwrap_or_else(|| panic!("not among {:#?}", self.facts))
    }

    fn commands(&self) -> Vec<&str> {
        self.sent.iter().filter_map(|sent| sent["type"].as_str()).filter(|kind| *kind != "get_state").collect()
    }

    fn texts(&self, wanted: MessageRole) -> Vec<&str> {
        let text = |fact| match fact {
            &Fact::MessageCompleted { role, ref text, .. } if role == wanted => Some(text.as_str()),
            _ => None,
        };
        self.facts.iter().filter_map(text).collect()
    }

    fn fragments(&self, wanted: MessageRole) -> String {
        let text = |fact| match fact {
            &Fact::MessageDelta { role, ref text, .. } if role == wanted => Some(text.as_str()),
            _ => None,
        };
        self.facts.iter().filter_map(text).collect()
    }

    fn warnings(&self, wanted: WarningKind) -> Vec<&str> {
        let text = |fact| match fact {
            &Fact::Warning { kind, ref message } if kind == wanted => Some(message.as_str()),
            _ => None,
        };
        self.facts.iter().filter_map(text).collect()
    }

    fn effects(&self) -> Vec<(EffectKind, WorkStatus)> {
        let ended = |fact: &Fact| match fact {
            Fact::Effect { kind, status, .. } if *status != WorkStatus::Started => Some((*kind, *status)),
            _ => None,
        };
        self.facts.iter().filter_map(ended).collect()
    }

    /// Rules 13: nothing vanishes.
    fn assert_counted(&self) {
        let counts = self.machine.counts;
        assert_eq!(counts.mapped + counts.noted + counts.redundant, self.frames, "{counts:?}");
    }
}

fn json_of(message: &Message) -> Value {
    serde_json::from_slice(&message.bytes).expect("JSON")
}

fn finished() -> EndReport {
    EndReport::Completed { stop_reason: StopReason::Finished }
}

fn failed(kind: FailureKind, message: &str) -> EndReport {
    EndReport::Failed { kind, message: message.to_owned() }
}

#[test]
fn a_text_turn() {
    let replay = Replay::of("text-turn");
    assert_eq!(replay.ends(), [&finished()]);
    let said = "Scripted reply number 1. Hello from the fake model.";
    assert_eq!(replay.texts(MessageRole::Answer), [said]);
    assert_eq!(replay.fragments(MessageRole::Unknown), said, "joined fragments are the whole");
    let native =
        |stored| move |fact: &Fact| matches!(fact, Fact::NativeSession { stored: found, .. } if *found == stored);
    let order = [
        replay.position(native(false)),
        replay.position(|fact| *fact == Fact::Ready),
        replay.position(|fact| *fact == Fact::Accepted),
        replay.position(|fact| *fact == Fact::Began),
        replay.position(|fact| matches!(fact, Fact::MessageDelta { .. })),
        replay.position(|fact| matches!(fact, Fact::MessageCompleted { .. })),
        replay.position(|fact| matches!(fact, Fact::Usage { .. })),
        replay.position(native(true)),
        replay.position(|fact| matches!(fact, Fact::End(_))),
    ];
    assert!(order.is_sorted(), "{order:?}: {:#?}", replay.facts);
    let used = |fact: &Fact| matches!(fact, Fact::Usage { task, session: None } if *task == counted(1));
    assert!(replay.facts.iter().any(used));
    replay.assert_counted();
}

/// What so many answers of the captured model have used.
fn counted(answers: u64) -> AgentUsage {
    AgentUsage {
        input_tokens: Some(12 * answers),
        cached_input_tokens: Some(0),
        output_tokens: Some(9 * answers),
        reasoning_tokens: None,
        total_tokens: Some(21 * answers),
        cache_write_input_tokens: Some(0),
    }
}

#[test]
fn fragments_and_the_whole_of_a_message_have_one_id() {
    let replay = Replay::of("thinking");
    for (streamed, whole) in
        [(MessageRole::Explanation, MessageRole::Explanation), (MessageRole::Unknown, MessageRole::Answer)]
    {
        let of_delta = replay.facts.iter().find_map(|fact| match fact {
            Fact::MessageDelta { message, role, .. } if *role == streamed => Some(message),
            _ => None,
        });
        let of_whole = replay.facts.iter().find_map(|fact| match fact {
            Fact::MessageCompleted { message, role, .. } if *role == whole => Some(message),
            _ => None,
        });
        assert_eq!((of_delta.is_some(), of_delta), (true, of_whole), "{whole:?}");
        assert_eq!(replay.texts(whole), [replay.fragments(streamed)]);
    }
    assert_eq!(replay.texts(MessageRole::Explanation), ["let me see"]);
    replay.assert_counted();
}

#[test]
fn tools_and_what_they_did() {
    let replay = Replay::of("tool-turn");
    assert_eq!(replay.ends(), [&finished(), &finished()]);
    let (command, change, completed) = (EffectKind::Command, EffectKind::FileChange, WorkStatus::Completed);
    assert_eq!(replay.effects(), [(command, completed), (change, completed)]);
    let path = |fact: &Fact| matches!(fact, Fact::Effect { paths, .. } if paths == &["/home/user/project/note.txt"]);
    let printed = |fact: &Fact| matches!(fact, Fact::Effect { output: Some(text), .. } if text == "hi\n");
    assert!(replay.facts.iter().any(path) && replay.facts.iter().any(printed), "{:#?}", replay.facts);
    let used = |fact: &Fact| matches!(fact, Fact::Usage { task, .. } if *task == counted(2));
    assert_eq!(replay.facts.iter().filter(|fact| used(fact)).count(), 2, "each task has its own sum");
    replay.assert_counted();
}

#[test]
fn an_abort_in_mid_stream_keeps_what_was_said() {
    let replay = Replay::of("abort");
    assert_eq!(replay.ends(), [&EndReport::Interrupted]);
    assert_eq!(replay.texts(MessageRole::Unknown), ["slow0 slow1 slow2 slow3 "]);
    assert!(!replay.facts.iter().any(|fact| matches!(fact, Fact::Usage { .. })), "zeros are no measure");
    replay.assert_counted();
}

#[test]
fn an_abort_in_mid_tool_cancels_the_tool_and_the_next_one_may_fail() {
    let replay = Replay::of("abort-tool");
    assert_eq!(replay.ends(), [&EndReport::Interrupted, &finished()]);
    let command = EffectKind::Command;
    assert_eq!(replay.effects(), [(command, WorkStatus::Cancelled), (command, WorkStatus::Failed)]);
    replay.assert_counted();
}

#[test]
fn retries_are_warnings_and_the_last_failure_is_the_end() {
    let replay = Replay::of("error-retry");
    assert_eq!(replay.ends(), [&failed(FailureKind::Transient, "500 as the rule says")]);
    let warned = replay.warnings(WarningKind::Recoverable);
    assert_eq!(warned.len(), 3);
    assert_eq!(warned[0], "the model's server: 500 as the rule says; attempt 1 of 3 in 2000 ms");
    replay.assert_counted();
}

#[test]
fn an_abort_between_two_attempts_is_an_interruption() {
    let replay = Replay::of("retry-aborted");
    assert_eq!(replay.ends(), [&EndReport::Interrupted]);
    replay.assert_counted();
}

#[test]
fn a_failure_that_will_not_pass_is_not_tried_again() {
    let replay = Replay::of("error");
    assert_eq!(replay.ends(), [&failed(FailureKind::Provider, "400 as the rule says")]);
    assert_eq!(replay.texts(MessageRole::Answer), [""; 0], "an error is no answer");
    replay.assert_counted();
}

#[test]
fn a_resumed_session_is_known_to_be_stored_from_the_start() {
    let id = capture_file("resume");
    let replay = Replay::of_session("resume", Some(&id));
    assert_eq!(replay.commands(), ["switch_session", "prompt"]);
    let path = replay.sent[1]["sessionPath"].as_str().expect("a path");
    assert!(path.ends_with(&format!("--home-user-project--/{id}.jsonl")), "{path}");
    let stored = Fact::NativeSession { id: id.parse().expect("an id"), stored: true };
    assert!(replay.position(|fact| *fact == stored) < replay.position(|fact| *fact == Fact::Ready));
    assert_eq!(replay.facts.iter().filter(|fact| matches!(fact, Fact::NativeSession { .. })).count(), 1);
    assert_eq!(replay.ends(), [&finished()]);
    replay.assert_counted();
}

/// The name of the session that the capture goes on with.
fn capture_file(name: &str) -> String {
    let entries = capture(name);
    let switch = entries.iter().find(|entry| entry["msg"]["type"] == "switch_session").expect("a switch");
    let path = std::path::Path::new(switch["msg"]["sessionPath"].as_str().expect("a path"));
    path.file_stem().and_then(|stem| stem.to_str()).expect("a name").to_owned()
}

#[test]
fn a_lost_session_is_told_by_its_name_and_takes_no_task() {
    let id = capture_file("session-lost");
    let replay = Replay::of_session("session-lost", Some(&id));
    let lost = Fact::NativeLost { message: format!("pi has no session {id} any more") };
    assert_eq!(replay.facts, [lost]);
    assert!(!replay.machine.is_ready());
    replay.assert_counted();
}
