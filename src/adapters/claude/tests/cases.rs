//! What the captures do not show by themselves: work in the background, ends that are somebody else's, bounds.

use super::*;

/// A machine in its first turn, whose agent names the message that each turn answers.
fn in_a_turn() -> Replay {
    let mut replay = Replay::new(ApprovalPolicy::Ask);
    replay.machine.ready = true;
    replay.submit(&Value::Null);
    replay.started();
    replay
}

impl Replay {
    fn own(&self) -> String {
        self.machine.turn.as_ref().expect("a turn").message.to_string()
    }

    fn started(&mut self) {
        let own = self.own();
        for state in ["queued", "started"] {
            self.says(json!({ "type": "command_lifecycle", "command_uuid": own, "state": state }));
        }
    }

    fn state(&mut self, state: &str) {
        self.says(json!({ "type": "system", "subtype": "session_state_changed", "state": state }));
    }
}

fn success(message: &str) -> Value {
    json!({
        "type": "result", "subtype": "success", "is_error": false, "terminal_reason": "completed",
        "user_message_uuids": [message],
    })
}

fn aborted(message: &str) -> Value {
    json!({
        "type": "result", "subtype": "error_during_execution", "is_error": true,
        "terminal_reason": "aborted_streaming", "user_message_uuids": [message],
    })
}

#[test]
fn the_program_is_started_for_its_protocol_and_resumes_by_an_argument() {
    let spec = SessionSpec { directory: "/".into(), model: Some("m".into()) };
    let id = "native".parse().expect("id");
    let start = Claude.start(OpenContext { spec: &spec, resume: Some(&id), task: None });
    assert!(start.arguments.ends_with(&["--model", "m", "--resume", "native"].map(str::to_owned)), "{start:?}");
    assert_eq!((Claude.lifetime(), Claude.capabilities()), (Lifetime::Session, Capabilities::all()));
}

#[test]
fn case_b16_a_subagent_is_part_of_the_task_that_started_it() {
    let replay = Replay::of("subagent", ApprovalPolicy::Ask);
    assert_eq!(replay.ends(), [&finished()]);
    let said = replay.position(|fact| matches!(fact, Fact::MessageCompleted { role: MessageRole::Commentary, .. }));
    let end = replay.position(|fact| matches!(fact, Fact::End(_)));
    assert!(said < end, "what the subagent said came after the end");
    assert_eq!(end, replay.facts.len() - 1, "{:#?}", &replay.facts[end..]);
    let open: Vec<_> = replay
        .facts
        .iter()
        .filter_map(|fact| if let Fact::OpenWork(count) = fact { Some(*count) } else { None })
        .collect();
    assert_eq!(open, [1, 0]);
    replay.assert_counted();
}

#[test]
fn case_b16_a_background_command_and_the_turn_it_wakes_are_part_of_the_task() {
    for name in ["background", "background-woken"] {
        let replay = Replay::of(name, ApprovalPolicy::Ask);
        assert_eq!(replay.ends(), [&finished()], "{name}");
        assert!(matches!(replay.facts.last(), Some(Fact::End(_))), "{name}: {:#?}", replay.facts.last());
        let of = |wanted: &str| events(&replay).iter().filter(|(kind, _)| kind == wanted).count();
        assert_eq!((of("adapter.claude.result"), of("adapter.claude.background.ended")), (2, 1), "{name}");
        replay.assert_counted();
    }
}

#[test]
fn case_b2_work_in_the_background_is_stopped_by_name_when_the_task_is_interrupted() {
    let replay = Replay::of("background-interrupted", ApprovalPolicy::Ask);
    assert_eq!(replay.ends(), [&EndReport::Interrupted], "the turn was over, its work was not");
    let asked: Vec<_> = replay.sent.iter().filter_map(|sent| sent["request"]["subtype"].as_str()).collect();
    assert_eq!(asked, ["initialize", "stop_task", "interrupt"]);
    replay.assert_counted();
}

fn events(replay: &Replay) -> Vec<(String, Value)> {
    let event = |fact: &Fact| match fact {
        Fact::Event { kind, data } => Some((kind.to_string(), data.clone())),
        _ => None,
    };
    replay.facts.iter().filter_map(event).collect()
}

#[test]
fn case_b6_each_piece_of_work_in_the_background_has_its_own_end() {
    let mut replay = in_a_turn();
    let changed = |tasks: Value| json!({ "type": "system", "subtype": "background_tasks_changed", "tasks": tasks });
    let ended = |id: &str, status: &str| json!({ "type": "system", "subtype": "task_notification", "task_id": id, "tool_use_id": format!("toolu_{id}"), "status": status });
    replay.says(changed(json!([{ "task_id": "agent" }, { "task_id": "bash" }])));
    replay.tell(Told::Interrupt);
    replay.says(success(&replay.own()));
    replay.says(ended("agent", "killed"));
    replay.says(changed(json!([{ "task_id": "bash" }])));
    assert!(replay.ends().is_empty(), "one of them runs on");
    replay.says(ended("bash", "stopped"));
    replay.says(changed(json!([])));
    assert_eq!(replay.ends(), [&EndReport::Interrupted]);
    let told: Vec<_> = events(&replay).into_iter().filter(|(kind, _)| kind.ends_with("background.ended")).collect();
    let end = |id: &str, status: &str| json!({ "task_id": id, "tool": format!("toolu_{id}"), "status": status });
    assert_eq!(
        told.iter().map(|(_, data)| data).collect::<Vec<_>>(),
        [&end("agent", "killed"), &end("bash", "stopped")]
    );
}

/// The turn may come to its end before the interrupt reaches it.
#[test]
fn a_task_whose_background_work_was_cut_off_did_not_complete() {
    let mut replay = in_a_turn();
    let changed = |tasks: Value| json!({ "type": "system", "subtype": "background_tasks_changed", "tasks": tasks });
    replay.says(changed(json!([{ "task_id": "b" }])));
    replay.tell(Told::Interrupt);
    replay.says(success(&replay.own()));
    assert!(replay.ends().is_empty(), "its work is still open");
    replay.says(json!({ "type": "system", "subtype": "task_notification", "task_id": "b", "status": "stopped" }));
    replay.says(changed(json!([])));
    assert_eq!(replay.ends(), [&EndReport::Interrupted]);
}

#[test]
fn case_b7_an_interrupt_is_a_message_and_the_runtime_takes_the_next_task() {
    let mut replay = in_a_turn();
    let mut answer = Answer::default();
    replay.machine.tell(Told::Interrupt, &mut answer);
    assert!(answer.messages.iter().all(|message| message.then == OutboxThen::Continue));
    replay.says(aborted(&replay.own()));
    assert_eq!(replay.ends(), [&EndReport::Interrupted]);
    assert!(replay.machine.is_ready());
    replay.submit(&Value::Null);
    assert_eq!(replay.sent.last().map(|sent| &sent["type"]), Some(&"user".into()));
}

#[test]
fn case_b8_completed_after_an_interrupt_is_completed() {
    let mut replay = in_a_turn();
    let own = replay.own();
    replay.tell(Told::Interrupt);
    replay.says(success(&own));
    replay.says(aborted(&own));
    assert_eq!(replay.ends(), [&finished()]);
    assert!(matches!(replay.facts.last(), Some(Fact::Noise { .. })), "what contradicts the end is told");
}

#[test]
fn case_j5_a_limit_of_the_provider_is_told_with_the_time_that_claude_waited_for_it() {
    let failed = |own: &str, status: u64| {
        json!({
            "type": "result", "subtype": "success", "is_error": true, "api_error_status": status,
            "user_message_uuids": [own],
        })
    };
    let retry = |status: u64| {
        json!({
            "type": "system", "subtype": "api_retry", "attempt": 1, "max_retries": 2, "retry_delay_ms": 2000.5,
            "error_status": status,
        })
    };
    for (retried, status, expected) in [
        (429, 429, Some(RateLimit { retry_after_ms: Some(2000) })),
        (529, 429, Some(RateLimit { retry_after_ms: None })),
        (429, 500, None),
    ] {
        let mut replay = in_a_turn();
        replay.says(retry(retried));
        replay.says(failed(&replay.own(), status));
        let limit = replay.facts.iter().find_map(|fact| match fact {
            Fact::RateLimited(limit) => Some(*limit),
            _ => None,
        });
        assert_eq!(limit, expected, "{retried}, {status}");
        assert!(matches!(replay.ends()[..], [EndReport::Failed { kind: FailureKind::Transient, .. }]));
    }
}

#[test]
fn an_abort_that_nobody_asked_for_is_a_failure() {
    let mut replay = in_a_turn();
    replay.says(aborted(&replay.own()));
    assert!(matches!(replay.ends()[..], [EndReport::Failed { .. }]), "{:?}", replay.ends());
}

#[test]
fn case_b9_a_late_end_of_another_turn_is_not_that_of_the_task() {
    let mut replay = in_a_turn();
    let first = replay.own();
    replay.says(success(&first));
    let task = "another".parse().expect("id");
    replay.tell(Told::Submit { task: &task, delegation: &delegation(ApprovalPolicy::Ask) });
    assert_ne!(replay.own(), first, "each task's message has an id of its own");
    let mut woken = success("");
    woken["user_message_uuids"] = Value::Null;
    woken["origin"] = json!({ "kind": "task-notification" });
    // The last one's told again, and one of a turn that nobody asked for, before and after it is taken.
    replay.says(aborted(&first));
    replay.says(woken.clone());
    replay.started();
    replay.says(woken);
    assert_eq!(replay.ends(), [&finished()], "the next task was ended by another turn's result");
    replay.says(success(&replay.own()));
    assert_eq!(replay.ends(), [&finished(), &finished()]);
    replay.assert_counted();
}

#[test]
fn what_is_said_before_the_tasks_own_turn_is_not_its_answer() {
    let mut replay = in_a_turn();
    replay.says(success(&replay.own()));
    replay.submit(&Value::Null);
    let content = json!([{ "type": "text", "text": "of a turn that nobody asked for" }]);
    replay.says(json!({ "type": "assistant", "uuid": "u", "message": { "id": "m", "content": content } }));
    assert_eq!(replay.texts(MessageRole::Unknown), [""; 0]);
    replay.assert_counted();
}

#[test]
fn an_end_waits_until_the_agent_rests() {
    let mut replay = in_a_turn();
    replay.state("running");
    replay.says(success(&replay.own()));
    assert!(replay.ends().is_empty(), "a turn may follow by itself");
    replay.state("idle");
    assert_eq!(replay.ends(), [&finished()]);
}

#[test]
fn an_answer_is_confirmed_when_the_agent_goes_on() {
    let mut replay = in_a_turn();
    let request =
        json!({ "subtype": "can_use_tool", "tool_name": "Bash", "input": { "command": "ls" }, "tool_use_id": "w" });
    replay.says(json!({ "type": "control_request", "request_id": "r", "request": request }));
    let id = "r".parse().expect("id");
    let decision = ApprovalDecision::ApproveOnce;
    replay.tell(Told::Respond { interaction: &id, response: &InteractionResponse::Approval { decision } });
    assert!(!replay.facts.contains(&Fact::AnswerConfirmed(id.clone())));
    replay.state("running");
    assert!(replay.facts.contains(&Fact::AnswerConfirmed(id)));
}

#[test]
fn case_f6_what_nobody_can_answer_is_refused_at_once_and_visibly() {
    let mut replay = in_a_turn();
    let question =
        json!({ "subtype": "can_use_tool", "tool_name": "AskUserQuestion", "requires_user_interaction": true });
    replay.says(json!({ "type": "control_request", "request_id": "r1", "request": question }));
    replay.says(json!({ "type": "control_request", "request_id": "r2", "request": { "subtype": "elicitation" } }));
    assert_eq!(replay.behaviours(), ["deny"]);
    assert_eq!(replay.sent.last().map(|sent| &sent["response"]["subtype"]), Some(&"error".into()));
    let warnings = replay.facts.iter().filter(|fact| matches!(fact, Fact::Warning { .. })).count();
    assert_eq!(warnings, 2);
}

#[test]
fn a_session_that_it_has_lost_is_told_apart_from_a_start_that_failed() {
    for (resume, error) in
        [(Some("gone"), "No conversation found with session ID: gone"), (Some("x"), "no"), (None, "no")]
    {
        let mut replay = Replay::new(ApprovalPolicy::Ask);
        replay.machine = Machine::new(resume.map(|id| id.parse().expect("id")));
        replay.tell(Told::Started);
        let errors = json!([error]);
        replay
            .says(json!({ "type": "result", "subtype": "error_during_execution", "is_error": true, "errors": errors }));
        let message = format!("claude says: {error}");
        let expected = if resume == Some("gone") { Fact::NativeLost { message } } else { Fact::NotReady { message } };
        assert_eq!(replay.facts, [expected]);
        assert!(!replay.machine.is_ready());
    }
}

#[test]
fn what_is_no_message_is_noted_and_counted() {
    let mut replay = in_a_turn();
    for line in ["npm warn", "[]", "{}", "null", r#"{"type":"keep_alive"}"#, r#"{"type":"control_response"}"#] {
        replay.frames += 1;
        replay.tell(Told::Frame(Frame::Line(line)));
    }
    for frame in [Frame::InvalidUtf8 { bytes: 3 }, Frame::TooLong { bytes: 9 }, Frame::Incomplete { text: "{" }] {
        replay.frames += 1;
        replay.tell(Told::Frame(frame));
    }
    assert!(replay.ends().is_empty());
    replay.assert_counted();
}

/// However much an agent leaves open, the snapshot keeps its bound; `tell` checks it at each step.
#[test]
fn a_flood_of_open_things_keeps_within_a_snapshot() {
    let mut replay = in_a_turn();
    let id = |kind: &str, number: usize| format!("{kind}{number:060}");
    let tasks: Vec<_> = (0..100).map(|number| json!({ "task_id": id("b", number) })).collect();
    replay.says(json!({ "type": "system", "subtype": "background_tasks_changed", "tasks": tasks }));
    for number in 0..60 {
        let tool =
            json!({ "type": "tool_use", "id": id("t", number), "name": "x".repeat(20 + number % 9), "input": {} });
        replay.says(json!({ "type": "assistant", "message": { "content": [tool] } }));
        let request =
            json!({ "subtype": "can_use_tool", "tool_name": "Bash", "input": {}, "tool_use_id": id("t", number) });
        replay.says(json!({ "type": "control_request", "request_id": id("r", number), "request": request }));
        replay.tell(Told::Interrupt);
    }
    let mut failed = aborted(&replay.own());
    failed["errors"] = json!(["\u{1}é".repeat(4000)]);
    replay.says(failed);
    assert_eq!(replay.behaviours().len(), 60 - 16, "those that cannot be kept are declined");
}
