//! Captures of the real app-server, replayed: order and facts.

use ostler_supervisors::adapter::{EndReport, MAX_SNAPSHOT};
use ostler_supervisors::contract::{ApprovalDecision, FailureKind, WorkStatus};

use super::*;

fn capture(name: &str) -> Vec<Value> {
    let path = format!("{}/tests/captures/codex/app-server-{name}.jsonl", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("the capture");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn delegation(approval: ApprovalPolicy) -> Delegation {
    Delegation { prompt: "hi".into(), approval, model: None, timeout: None }
}

/// A machine that is in a turn, whose client is the captured one: its requests have the captured numbers.
struct Replay {
    machine: Machine,
    facts: Vec<Fact>,
    sent: Vec<Value>,
}

impl Replay {
    fn of(name: &str, approval: ApprovalPolicy) -> Self {
        let setup = Setup {
            directory: "/home/user/project".into(),
            model: None,
            approval_policy: "untrusted".into(),
            sandbox: "danger-full-access".into(),
        };
        let mut replay = Self { machine: Machine::new(setup, None), facts: Vec::new(), sent: Vec::new() };
        for entry in capture(name) {
            match entry["dir"].as_str() {
                Some("client->agent") => replay.client(&entry["msg"], approval),
                _ => replay.agent(&entry),
            }
        }
        replay
    }

    fn tell(&mut self, told: Told<'_>) {
        let mut answer = Answer::default();
        self.machine.tell(told, &mut answer);
        assert!(self.machine.snapshot().len() <= MAX_SNAPSHOT);
        let restored = snapshot::restore(SNAPSHOT, &self.machine.snapshot()).expect("restores");
        self.machine = Machine { counts: self.machine.counts, ..restored };
        self.facts.extend(answer.facts);
        let json =
            |message: &ostler_supervisors::adapter::Message| serde_json::from_slice(&message.bytes).expect("JSON");
        self.sent.extend(answer.messages.iter().map(json));
    }

    /// What the captured client did, done by the machine under the captured number.
    fn client(&mut self, message: &Value, approval: ApprovalPolicy) {
        if let Some(id) = message["id"].as_u64().filter(|_| message["method"].is_string()) {
            self.machine.next_id = id;
        }
        match message["method"].as_str() {
            Some("initialize") => self.tell(Told::Started),
            Some("thread/resume") => {
                self.machine.resume = Some(message["params"]["threadId"].as_str().expect("id").parse().expect("id"));
                self.machine.asked.insert(message["id"].as_u64().expect("id"), Asked::ResumeThread);
            }
            Some("turn/start") => {
                let task = "t".parse().expect("id");
                self.machine.thread = message["params"]["threadId"].as_str().map(str::to_owned);
                self.tell(Told::Submit { task: &task, delegation: &delegation(approval) });
            }
            Some("turn/interrupt") => self.tell(Told::Interrupt),
            None if message["result"]["decision"].is_string() => self.decide(message),
            _ => {}
        }
    }

    fn decide(&mut self, message: &Value) {
        let open = self.machine.approvals.iter().find(|(_, open)| open.request == message["id"]);
        let Some(id) = open.map(|(id, _)| id.clone()) else { return };
        let decision = match message["result"]["decision"].as_str() {
            Some("accept") => ApprovalDecision::ApproveOnce,
            Some("decline") => ApprovalDecision::Decline,
            _ => ApprovalDecision::Cancel,
        };
        self.tell(Told::Respond { interaction: &id, response: &InteractionResponse::Approval { decision } });
    }

    fn agent(&mut self, entry: &Value) {
        let line = match entry["raw"].as_str() {
            Some(raw) => raw.to_owned(),
            None => entry["msg"].to_string(),
        };
        self.tell(Told::Frame(Frame::Line(&line)));
    }

    fn ends(&self) -> Vec<&EndReport> {
        self.facts.iter().filter_map(|fact| if let Fact::End(report) = fact { Some(report) } else { None }).collect()
    }

    fn position(&self, wanted: impl Fn(&Fact) -> bool) -> usize {
        self.facts.iter().position(wanted).unwrap_or_else(|| panic!("not among {:#?}", self.facts))
    }
}

#[test]
fn a_text_turn() {
    let replay = Replay::of("text-turn", ApprovalPolicy::Ask);
    assert_eq!(
        replay.ends(),
        [&EndReport::Completed { stop_reason: ostler_supervisors::contract::StopReason::Finished }]
    );
    let deltas: String = replay
        .facts
        .iter()
        .filter_map(|fact| if let Fact::MessageDelta { text, .. } = fact { Some(text.as_str()) } else { None })
        .collect();
    let whole = replay.facts.iter().find_map(|fact| match fact {
        Fact::MessageCompleted { text, .. } => Some(text.as_str()),
        _ => None,
    });
    assert_eq!(Some(deltas.as_str()), whole, "joined fragments are the snapshot");
    let ready = replay.position(|fact| *fact == Fact::Ready);
    let accepted = replay.position(|fact| *fact == Fact::Accepted);
    let end = replay.position(|fact| matches!(fact, Fact::End(_)));
    assert!(ready < accepted && accepted < end);
    let usage = replay.position(|fact| matches!(fact, Fact::Usage { task, .. } if task.total_tokens == Some(21)));
    assert!(usage < end);
    assert!(replay.facts.iter().any(|fact| matches!(fact, Fact::NativeSession { stored: true, .. })));
    let counts = replay.machine.counts;
    let frames = capture("text-turn").iter().filter(|entry| entry["dir"] == "agent->client").count() as u64;
    assert_eq!(counts.mapped + counts.noted + counts.redundant, frames, "{counts:?}");
}

#[test]
fn approvals_allowed_declined_and_cancelled() {
    let replay = Replay::of("tool-approval", ApprovalPolicy::Ask);
    let asked = replay.facts.iter().filter(|fact| matches!(fact, Fact::Asked(_))).count();
    let confirmed = replay.facts.iter().filter(|fact| matches!(fact, Fact::AnswerConfirmed(_))).count();
    assert_eq!((asked, confirmed), (3, 3));
    let decisions: Vec<_> = replay.sent.iter().filter_map(|sent| sent["result"]["decision"].as_str()).collect();
    assert_eq!(decisions, ["accept", "decline", "cancel"]);
    let done = |wanted| replay.position(|fact| matches!(fact, Fact::Effect { status, .. } if *status == wanted));
    assert!(done(WorkStatus::Completed) < done(WorkStatus::Declined));
    assert!(matches!(replay.ends().last(), Some(EndReport::Interrupted)), "{:?}", replay.ends());
}

#[test]
fn under_a_policy_of_denial_the_adapter_declines_by_itself() {
    let replay = Replay::of("tool-approval", ApprovalPolicy::Deny);
    assert!(!replay.facts.iter().any(|fact| matches!(fact, Fact::Asked(_))));
    let decisions: Vec<_> = replay.sent.iter().filter_map(|sent| sent["result"]["decision"].as_str()).collect();
    assert_eq!(decisions, ["decline"; 3]);
}

#[test]
fn an_interrupt_with_an_approval_open_withdraws_it_and_cleans_up() {
    let replay = Replay::of("interrupt-pending-approval", ApprovalPolicy::Ask);
    assert_eq!(replay.ends(), [&EndReport::Interrupted]);
    assert!(replay.facts.iter().any(|fact| matches!(fact, Fact::Withdrawn(_, ClearReason::ProviderWithdrawn))));
    let methods: Vec<_> = replay.sent.iter().filter_map(|sent| sent["method"].as_str()).collect();
    assert_eq!(methods.last(), Some(&"thread/backgroundTerminals/clean"));
}

use ostler_supervisors::contract::ClearReason;

#[test]
fn an_error_ends_the_turn_once_and_by_its_code() {
    let replay = Replay::of("error-turn", ApprovalPolicy::Ask);
    let ends = replay.ends();
    assert!(matches!(ends[..], [EndReport::Failed { kind: FailureKind::Transient, .. }]), "{ends:?}");
}

#[test]
fn case_j5_a_limit_of_the_provider_is_told_before_the_failure() {
    for (info, limited) in [
        (json!("rateLimitExceeded"), true),
        (json!("usageLimitExceeded"), true),
        (json!({ "responseTooManyFailedAttempts": { "httpStatusCode": 429 } }), true),
        (json!({ "responseTooManyFailedAttempts": { "httpStatusCode": 503 } }), false),
        (json!("serverOverloaded"), false),
    ] {
        let error = json!({ "message": "no more", "codexErrorInfo": info });
        for end in [
            json!({ "method": "turn/completed", "params": { "turn": { "id": "turn-1", "status": "failed", "error": error } } }),
            json!({ "method": "error", "params": { "turnId": "turn-1", "willRetry": false, "error": error } }),
        ] {
            let mut replay = in_a_turn();
            replay.says(&end);
            let told: Vec<_> =
                replay.facts.iter().filter(|fact| matches!(fact, Fact::RateLimited(_) | Fact::End(_))).collect();
            assert_eq!(told.len(), 1 + usize::from(limited), "{info}");
            assert!(matches!(told.last(), Some(Fact::End(EndReport::Failed { .. }))), "{info}");
        }
    }
}

#[test]
fn a_resumed_thread_is_known_to_be_stored_and_its_old_usage_is_not_the_tasks() {
    let replay = Replay::of("resume", ApprovalPolicy::Ask);
    assert!(replay.facts.iter().any(|fact| matches!(fact, Fact::NativeSession { stored: true, .. })));
    assert_eq!(replay.ends().len(), 1);
    let last = replay.facts.iter().rev().find_map(|fact| match fact {
        Fact::Usage { task, session } => Some((task.total_tokens, session.and_then(|usage| usage.total_tokens))),
        _ => None,
    });
    assert_eq!(last.and_then(|(_, session)| session), Some(189));
}

#[test]
fn every_interrupt_and_steer_of_the_capture_ends_each_turn_once() {
    let replay = Replay::of("interrupt-and-steer", ApprovalPolicy::Ask);
    let turns =
        capture("interrupt-and-steer").iter().filter(|entry| entry["msg"]["method"] == "turn/completed").count();
    assert_eq!(replay.ends().len(), turns);
}

#[test]
fn an_interrupt_before_the_turn_is_known_is_sent_when_it_is() {
    let setup = Setup { directory: "/".into(), model: None, approval_policy: "untrusted".into(), sandbox: "x".into() };
    let mut replay = Replay { machine: Machine::new(setup, None), facts: Vec::new(), sent: Vec::new() };
    replay.machine.thread = Some("th".into());
    let task = "t".parse().expect("id");
    replay.tell(Told::Submit { task: &task, delegation: &delegation(ApprovalPolicy::Ask) });
    replay.tell(Told::Interrupt);
    assert_eq!(replay.sent.len(), 1);
    replay.tell(Told::Frame(Frame::Line(r#"{"id":1,"result":{"turn":{"id":"tu"}}}"#)));
    assert_eq!(replay.sent[1]["params"], json!({ "threadId": "th", "turnId": "tu" }));
}

#[test]
fn case_f6_a_request_of_unknown_kind_is_refused_at_once() {
    let setup = Setup { directory: "/".into(), model: None, approval_policy: "untrusted".into(), sandbox: "x".into() };
    let mut replay = Replay { machine: Machine::new(setup, None), facts: Vec::new(), sent: Vec::new() };
    replay.tell(Told::Frame(Frame::Line(r#"{"id":9,"method":"item/tool/requestUserInput","params":{}}"#)));
    assert_eq!(replay.sent[0]["error"]["code"], -32601);
    assert!(matches!(&replay.facts[..], [Fact::Warning { .. }]));
}

/// A machine in its first turn, whose thread and turn are known.
fn in_a_turn() -> Replay {
    let setup = Setup { directory: "/".into(), model: None, approval_policy: "untrusted".into(), sandbox: "x".into() };
    let mut replay = Replay { machine: Machine::new(setup, None), facts: Vec::new(), sent: Vec::new() };
    replay.machine.thread = Some("th".into());
    replay.submit();
    replay.says(&json!({ "id": 1, "result": { "turn": { "id": "turn-1" } } }));
    replay
}

impl Replay {
    fn submit(&mut self) {
        let task = "t".parse().expect("id");
        self.tell(Told::Submit { task: &task, delegation: &delegation(ApprovalPolicy::Ask) });
    }

    fn says(&mut self, message: &Value) {
        self.tell(Told::Frame(Frame::Line(&message.to_string())));
    }
}

fn completed(turn: &str, status: &str) -> Value {
    json!({ "method": "turn/completed", "params": { "turn": { "id": turn, "status": status } } })
}

fn error(turn: &str) -> Value {
    let error = json!({ "message": "overheated", "codexErrorInfo": "badRequest" });
    json!({ "method": "error", "params": { "turnId": turn, "willRetry": false, "error": error } })
}

fn finished() -> EndReport {
    EndReport::Completed { stop_reason: ostler_supervisors::contract::StopReason::Finished }
}

fn overheated() -> EndReport {
    EndReport::Failed { kind: FailureKind::Provider, message: "overheated".into() }
}

#[test]
fn case_b7_an_interrupt_is_a_message_and_the_runtime_takes_the_next_task() {
    assert_eq!(Codex::default().capabilities(), Capabilities::all());
    let mut replay = in_a_turn();
    let mut answer = Answer::default();
    replay.machine.tell(Told::Interrupt, &mut answer);
    assert!(answer.messages.iter().all(|message| message.then == ostler_supervisors::ledger::OutboxThen::Continue));
    replay.says(&completed("turn-1", "interrupted"));
    assert_eq!(replay.ends(), [&EndReport::Interrupted]);
    assert!(replay.machine.is_ready());
    replay.submit();
    assert_eq!(replay.sent.last().map(|sent| &sent["method"]), Some(&"turn/start".into()));
}

#[test]
fn case_b8_completed_after_an_interrupt_is_completed() {
    let mut replay = in_a_turn();
    replay.tell(Told::Interrupt);
    replay.says(&completed("turn-1", "completed"));
    replay.says(&completed("turn-1", "interrupted"));
    assert_eq!(replay.ends(), [&finished()]);
}

#[test]
fn case_b8_an_error_just_before_interrupted_is_the_end() {
    let mut replay = in_a_turn();
    replay.tell(Told::Interrupt);
    replay.says(&error("turn-1"));
    replay.says(&completed("turn-1", "interrupted"));
    assert_eq!(replay.ends(), [&overheated()]);
}

#[test]
fn case_b8_an_error_just_after_interrupted_changes_nothing() {
    let mut replay = in_a_turn();
    replay.tell(Told::Interrupt);
    replay.says(&completed("turn-1", "interrupted"));
    replay.says(&error("turn-1"));
    assert_eq!(replay.ends(), [&EndReport::Interrupted]);
}

#[test]
fn case_b9_of_two_stop_reasons_for_one_turn_the_first_is_the_end() {
    let all = [("completed", finished()), ("interrupted", EndReport::Interrupted)];
    for (first, end) in &all {
        for (second, _) in &all {
            let mut replay = in_a_turn();
            replay.says(&completed("turn-1", first));
            replay.says(&completed("turn-1", second));
            assert_eq!(replay.ends(), [end], "{first}, then {second}");
        }
    }
}

/// What contradicts the end is told, so that it is kept as a diagnostic.
fn is_told(facts: &[Fact]) -> bool {
    facts.iter().any(|fact| matches!(fact, Fact::End(_) | Fact::Noise { .. } | Fact::Warning { .. }))
}

#[test]
fn case_b8_b9_an_end_that_contradicts_the_first_is_told() {
    for first in [completed("turn-1", "completed"), completed("turn-1", "interrupted"), error("turn-1")] {
        let mut replay = in_a_turn();
        replay.says(&first);
        let known = replay.facts.len();
        replay.says(&completed(
            "turn-1",
            if first == completed("turn-1", "completed") { "interrupted" } else { "completed" },
        ));
        assert!(is_told(&replay.facts[known..]), "after {first}");
    }
}

#[test]
fn case_b9_a_late_end_of_the_last_turn_is_not_that_of_the_next() {
    for late in [completed("turn-1", "failed"), completed("turn-1", "interrupted"), error("turn-1")] {
        let mut replay = in_a_turn();
        replay.says(&error("turn-1"));
        // The next task is on its way, and the agent has not named its turn yet.
        replay.submit();
        replay.says(&late);
        assert_eq!(replay.ends(), [&overheated()], "the next task was ended by {late}");
        replay.says(&json!({ "id": 2, "result": { "turn": { "id": "turn-2" } } }));
        replay.says(&completed("turn-2", "completed"));
        assert_eq!(replay.ends(), [&overheated(), &finished()]);
    }
}
