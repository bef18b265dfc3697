//! Captures of real Claude Code, replayed: order and facts.

mod cases;
mod damage;

use ostler_supervisors::adapter::{MAX_SNAPSHOT, Message};
use ostler_supervisors::contract::{
    ApprovalDecision, ClearReason, EffectKind, FailureKind, InteractionId, InteractionResponse, MessageRole, RateLimit,
    SessionSpec, StopReason, WarningKind, WorkStatus,
};
use ostler_supervisors::ledger::OutboxThen;

use super::*;

fn capture(name: &str) -> Vec<Value> {
    let path = format!("{}/tests/captures/claude/stream-json-{name}.jsonl", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("the capture");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn delegation(approval: ApprovalPolicy) -> Delegation {
    Delegation { prompt: "hi".into(), approval, model: None, timeout: None }
}

/// A machine whose client is the captured one: its messages have the captured ids.
struct Replay {
    machine: Machine,
    facts: Vec<Fact>,
    sent: Vec<Value>,
    frames: u64,
    /// The client sent it while a turn ran; the session does not.
    waiting: Vec<Value>,
    policy: ApprovalPolicy,
}

impl Replay {
    fn new(policy: ApprovalPolicy) -> Self {
        let machine = Machine::new(None);
        Self { machine, facts: Vec::new(), sent: Vec::new(), frames: 0, waiting: Vec::new(), policy }
    }

    fn of(name: &str, policy: ApprovalPolicy) -> Self {
        let mut replay = Self::new(policy);
        let entries = capture(name);
        replay.machine.ready = entries[0]["msg"]["type"] != "control_request";
        for entry in &entries {
            match entry["dir"].as_str() {
                Some("client->agent") => replay.client(&entry["msg"]),
                _ => replay.agent(entry),
            }
        }
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
        let json = |message: &Message| serde_json::from_slice(&message.bytes).expect("JSON");
        self.sent.extend(answer.messages.iter().map(json));
    }

    fn client(&mut self, message: &Value) {
        match (message["type"].as_str(), message["request"]["subtype"].as_str()) {
            (Some("control_request"), Some("initialize")) => self.ask(Asked::Initialize, Told::Started, message),
            (Some("control_request"), Some("interrupt")) => self.ask(Asked::Interrupt, Told::Interrupt, message),
            (Some("control_request"), _) => {
                self.machine.asked.insert(id_of(message), Asked::StopWork);
            }
            (Some("user"), _) if self.machine.turn.is_some() => self.waiting.push(message.clone()),
            (Some("user"), _) => self.submit(message),
            (Some("control_response"), _) => self.decide(&message["response"]),
            _ => panic!("{message}"),
        }
    }

    fn ask(&mut self, what: Asked, told: Told<'_>, message: &Value) {
        self.tell(told);
        self.machine.asked.retain(|_, asked| *asked != what);
        self.machine.asked.insert(id_of(message), what);
    }

    fn submit(&mut self, message: &Value) {
        let task = "t".parse().expect("id");
        self.tell(Told::Submit { task: &task, delegation: &delegation(self.policy) });
        if let (Some(turn), Some(id)) = (&mut self.machine.turn, message["uuid"].as_str()) {
            turn.message = id.parse().expect("a UUID");
        }
    }

    fn decide(&mut self, response: &Value) {
        let id: InteractionId = response["request_id"].as_str().expect("id").parse().expect("id");
        let verdict = &response["response"];
        let decision = match (verdict["behavior"].as_str(), verdict["interrupt"].as_bool()) {
            (Some("allow"), _) => ApprovalDecision::ApproveOnce,
            (_, Some(true)) => ApprovalDecision::Cancel,
            _ => ApprovalDecision::Decline,
        };
        self.tell(Told::Respond { interaction: &id, response: &InteractionResponse::Approval { decision } });
    }

    fn agent(&mut self, entry: &Value) {
        let line = match entry["raw"].as_str() {
            // The captures cut what is too long for them.
            Some(_) => {
                r#"{"type":"control_response","response":{"subtype":"success","request_id":"req_1"}}"#.to_owned()
            }
            None => entry["msg"].to_string(),
        };
        self.frames += 1;
        self.tell(Told::Frame(Frame::Line(&line)));
        if self.machine.turn.is_none() && !self.waiting.is_empty() {
            let message = self.waiting.remove(0);
            self.submit(&message);
        }
    }

    fn says(&mut self, frame: Value) {
        self.frames += 1;
        self.tell(Told::Frame(Frame::Line(&frame.to_string())));
    }

    fn ends(&self) -> Vec<&EndReport> {
        self.facts.iter().filter_map(|fact| if let Fact::End(report) = fact { Some(report) } else { None }).collect()
    }

    fn position(&self, wanted: impl Fn(&Fact) -> bool) -> usize {
        self.facts.iter().position(wanted).unwrap_or_else(|| panic!("not among {:#?}", self.facts))
    }

    fn behaviours(&self) -> Vec<&str> {
        self.sent.iter().filter_map(|sent| sent["response"]["response"]["behavior"].as_str()).collect()
    }

    fn texts(&self, wanted: MessageRole) -> Vec<&str> {
        let text = |fact| match fact {
            &Fact::MessageCompleted { role, ref text, .. } if role == wanted => Some(text.as_str()),
            _ => None,
        };
        self.facts.iter().filter_map(text).collect()
    }

    /// Rules 13: nothing vanishes.
    fn assert_counted(&self) {
        let counts = self.machine.counts;
        assert_eq!(counts.mapped + counts.noted + counts.redundant, self.frames, "{counts:?}");
    }
}

fn id_of(message: &Value) -> String {
    message["request_id"].as_str().expect("id").to_owned()
}

fn finished() -> EndReport {
    EndReport::Completed { stop_reason: StopReason::Finished }
}

fn joined(replay: &Replay, wanted: MessageRole) -> String {
    let fragments = replay.facts.iter().filter_map(|fact| match fact {
        Fact::MessageDelta { text, role, .. } if *role == wanted => Some(text.as_str()),
        _ => None,
    });
    fragments.collect()
}

#[test]
fn a_text_turn() {
    let replay = Replay::of("text-turn", ApprovalPolicy::Ask);
    assert_eq!(replay.ends(), [&finished()]);
    let whole = replay.texts(MessageRole::Unknown);
    assert_eq!(whole, [joined(&replay, MessageRole::Unknown)], "joined fragments are the snapshot");
    let ready = replay.position(|fact| *fact == Fact::Ready);
    let accepted = replay.position(|fact| *fact == Fact::Accepted);
    let end = replay.position(|fact| matches!(fact, Fact::End(_)));
    let used = AgentUsage { input_tokens: Some(12), output_tokens: Some(9), ..AgentUsage::UNKNOWN };
    let usage = replay.position(|fact| {
        matches!(fact, Fact::Usage { task, session: None }
            if (task.input_tokens, task.output_tokens) == (used.input_tokens, used.output_tokens))
    });
    let cost = replay.position(|fact| matches!(fact, Fact::Event { data, .. } if data["total_cost_usd"] == 0.000_228));
    let stored = replay.position(|fact| matches!(fact, Fact::NativeSession { stored: true, .. }));
    let known = replay.position(|fact| matches!(fact, Fact::NativeSession { stored: false, .. }));
    assert!(ready < known && ready < accepted && accepted < stored && stored < usage && usage < cost && cost < end);
    replay.assert_counted();
}

#[test]
fn fragments_and_the_whole_of_a_message_have_one_id() {
    let replay = Replay::of("thinking", ApprovalPolicy::Ask);
    for role in [MessageRole::Explanation, MessageRole::Unknown] {
        let of_delta = replay.facts.iter().find_map(|fact| match fact {
            Fact::MessageDelta { message, role: found, .. } if *found == role => Some(message),
            _ => None,
        });
        let of_whole = replay.facts.iter().find_map(|fact| match fact {
            Fact::MessageCompleted { message, role: found, .. } if *found == role => Some(message),
            _ => None,
        });
        assert_eq!((of_delta.is_some(), of_delta), (true, of_whole), "{role:?}");
        assert_eq!(replay.texts(role), [joined(&replay, role)]);
    }
    assert_eq!(replay.texts(MessageRole::Explanation), ["let me think"]);
    replay.assert_counted();
}

#[test]
fn tools_allowed_declined_and_cancelled() {
    let replay = Replay::of("tool-permission", ApprovalPolicy::Ask);
    let asked = replay.facts.iter().filter(|fact| matches!(fact, Fact::Asked(_))).count();
    let confirmed = replay.facts.iter().filter(|fact| matches!(fact, Fact::AnswerConfirmed(_))).count();
    assert_eq!((asked, confirmed), (4, 4));
    assert_eq!(replay.behaviours(), ["allow", "deny", "deny", "allow"]);
    assert_eq!(replay.ends(), [&finished(), &finished(), &EndReport::Interrupted, &finished()]);
    let done: Vec<_> = replay.facts.iter().filter_map(ended_effect).collect();
    let (completed, declined) = (WorkStatus::Completed, WorkStatus::Declined);
    let (command, change) = (EffectKind::Command, EffectKind::FileChange);
    assert_eq!(done, [(command, completed), (command, declined), (command, declined), (change, completed)]);
    let path = |fact: &Fact| matches!(fact, Fact::Effect { paths, .. } if paths == &["/home/user/project/note.txt"]);
    assert!(replay.facts.iter().any(path));
    replay.assert_counted();
}

fn ended_effect(fact: &Fact) -> Option<(EffectKind, WorkStatus)> {
    match fact {
        Fact::Effect { kind, status, .. } if *status != WorkStatus::Started => Some((*kind, *status)),
        _ => None,
    }
}

#[test]
fn under_a_policy_of_denial_the_adapter_declines_by_itself() {
    let replay = Replay::of("tool-permission", ApprovalPolicy::Deny);
    assert!(!replay.facts.iter().any(|fact| matches!(fact, Fact::Asked(_))));
    assert_eq!(replay.behaviours(), ["deny"; 4]);
}

#[test]
fn an_interrupt_in_mid_stream_keeps_what_was_said() {
    let replay = Replay::of("interrupt", ApprovalPolicy::Ask);
    assert_eq!(replay.ends(), [&EndReport::Interrupted]);
    assert_eq!(replay.texts(MessageRole::Unknown), ["slow0 slow1 slow2 slow3 "]);
    let usage = |fact: &Fact| matches!(fact, Fact::Usage { task, .. } if task.output_tokens == Some(8));
    assert!(replay.facts.iter().any(usage), "what the model counted, not the zeros of the turn");
    replay.assert_counted();
}

#[test]
fn an_interrupt_in_mid_tool_cancels_the_tool() {
    let replay = Replay::of("interrupt-tool", ApprovalPolicy::Ask);
    assert_eq!(replay.ends(), [&EndReport::Interrupted]);
    let done: Vec<_> = replay.facts.iter().filter_map(ended_effect).collect();
    assert_eq!(done, [(EffectKind::Command, WorkStatus::Cancelled)]);
    replay.assert_counted();
}

#[test]
fn an_interrupt_with_a_request_open_withdraws_it() {
    let replay = Replay::of("interrupt-pending-permission", ApprovalPolicy::Ask);
    assert_eq!(replay.ends(), [&EndReport::Interrupted]);
    assert!(replay.facts.iter().any(|fact| matches!(fact, Fact::Withdrawn(_, ClearReason::ProviderWithdrawn))));
    let done: Vec<_> = replay.facts.iter().filter_map(ended_effect).collect();
    assert_eq!(done, [(EffectKind::Command, WorkStatus::Declined)], "it never ran");
    replay.assert_counted();
}

#[test]
fn a_message_that_waited_has_an_end_of_its_own() {
    let replay = Replay::of("queued-while-busy", ApprovalPolicy::Ask);
    assert_eq!(replay.ends(), [&EndReport::Interrupted, &finished()]);
    assert_eq!(replay.texts(MessageRole::Unknown).last(), Some(&"QUEUED-REPLY"));
    replay.assert_counted();
}

#[test]
fn a_resumed_session_is_known_to_be_stored_from_the_start() {
    let id: NativeId = "00fd58fb-a025-4336-97bf-11fbe90b1912".parse().expect("id");
    let mut replay = Replay::new(ApprovalPolicy::Ask);
    replay.machine = Machine::new(Some(id.clone()));
    for entry in capture("resume") {
        match entry["dir"].as_str() {
            Some("client->agent") => replay.client(&entry["msg"]),
            _ => replay.agent(&entry),
        }
    }
    let stored = replay.position(|fact| *fact == Fact::NativeSession { id: id.clone(), stored: true });
    assert!(stored < replay.position(|fact| *fact == Fact::Ready));
    assert_eq!(replay.facts.iter().filter(|fact| matches!(fact, Fact::NativeSession { .. })).count(), 1);
    assert_eq!(replay.ends(), [&finished()]);
}

#[test]
fn retries_are_warnings_and_an_interrupt_ends_them() {
    let replay = Replay::of("api-retry", ApprovalPolicy::Ask);
    let warned = |fact: &&Fact| matches!(fact, Fact::Warning { kind: WarningKind::Recoverable, message } if message.contains("429"));
    assert_eq!(replay.facts.iter().filter(warned).count(), 4);
    assert_eq!(replay.ends(), [&EndReport::Interrupted]);
}

#[test]
fn success_with_an_error_is_a_failure_of_its_kind() {
    let replay = Replay::of("api-error", ApprovalPolicy::Ask);
    let kinds = replay.ends().into_iter().map(|end| match end {
        EndReport::Failed { kind, .. } => *kind,
        other => panic!("{other:?}"),
    });
    let expected = [FailureKind::Provider, FailureKind::Transient, FailureKind::ContextOverflow];
    assert_eq!(kinds.collect::<Vec<_>>(), expected);
    assert_eq!(replay.texts(MessageRole::Unknown), [""; 0], "an error is no answer");
    replay.assert_counted();
}
