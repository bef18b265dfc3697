//! Captures of real agents, replayed: order and facts.

use ostler_supervisors::contract::{ClearReason, FailureKind, StopReason, WorkStatus};

use super::*;

fn capture(name: &str) -> Vec<Value> {
    let path = format!("{}/tests/captures/{name}.jsonl", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("the capture");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// A machine whose client is the captured one: its requests have the captured numbers.
struct Replay {
    driven: Driven,
    /// A prompt that was sent before the history had been said to its end.
    early: Option<Value>,
    policy: ApprovalPolicy,
}

fn replay(name: &str) -> Driven {
    replay_with(name, ApprovalPolicy::Ask)
}

fn replay_with(name: &str, policy: ApprovalPolicy) -> Driven {
    let entries = capture(name);
    let first = &entries[0]["msg"];
    let driven = if first["method"] == "initialize" {
        let loaded = entries.iter().find(|entry| entry["msg"]["method"] == "session/load");
        Driven::new(opening(loaded.and_then(|entry| entry["msg"]["params"]["sessionId"].as_str()), None, None))
    } else {
        let mut driven = Driven::ready();
        driven.machine.spoken = first["params"]["sessionId"].as_str().map(str::to_owned);
        driven.machine.known = match name.split_once('/').expect("a folder").0 {
            "gemini" => Known::Gemini,
            "codex-acp" => Known::CodexAcp,
            _ => Known::Other,
        };
        driven
    };
    let mut replay = Replay { driven, early: None, policy };
    for entry in &entries {
        match entry["dir"].as_str() {
            Some("client->agent") => replay.client(&entry["msg"]),
            _ => replay.agent(&entry["msg"]),
        }
    }
    let frames = entries.iter().filter(|entry| entry["dir"] == "agent->client").count() as u64;
    let counts = replay.driven.machine.counts;
    let told = counts.mapped + counts.noted + counts.redundant;
    assert!(told == frames || told == frames + 1, "{counts:?} of {frames}, and perhaps the end of a history");
    replay.driven
}

impl Replay {
    fn client(&mut self, message: &Value) {
        let driven = &mut self.driven;
        let number = message["id"].as_u64();
        match message["method"].as_str() {
            Some("initialize") => driven.tell(Told::Started),
            // The captured client called it by its plain id.
            Some("session/load") => driven.machine.spoken = message["params"]["sessionId"].as_str().map(str::to_owned),
            Some("session/prompt") if driven.machine.known == Known::Gemini && !driven.machine.is_ready() => {
                self.early = Some(message.clone());
            }
            Some("session/prompt") => self.prompt(message),
            Some("session/cancel") => driven.tell(Told::Interrupt),
            Some("session/resume") => {
                driven.machine.asked.insert(number.expect("id"), Asked::Replayed);
            }
            None if message["result"]["outcome"].is_object() => self.decide(message),
            _ => {}
        }
    }

    fn prompt(&mut self, message: &Value) {
        let driven = &mut self.driven;
        let barrier = driven.machine.asked.iter().find(|(_, what)| **what == Asked::Replayed).map(|(id, _)| *id);
        if let Some(id) = barrier.filter(|_| !driven.machine.is_ready()) {
            driven.fails(id, -32601, "method not found");
        }
        driven.machine.next_id = message["id"].as_u64().expect("id");
        driven.submit(message["params"]["prompt"][0]["text"].as_str().expect("text"), self.policy);
    }

    fn decide(&mut self, message: &Value) {
        let Some(id) = self.driven.machine.permission_of(&message["id"]) else { return };
        let option = message["result"]["outcome"]["optionId"].as_str().unwrap_or_default();
        let decision = if option.contains("once") { ApprovalDecision::ApproveOnce } else { ApprovalDecision::Decline };
        self.driven.respond(&id, decision);
    }

    fn agent(&mut self, message: &Value) {
        self.driven.says(message);
        if message["params"]["update"]["sessionUpdate"] == "available_commands_update"
            && let Some(early) = self.early.take()
        {
            self.prompt(&early);
        }
    }
}

fn finished() -> EndReport {
    EndReport::Completed { stop_reason: StopReason::Finished }
}

#[test]
fn a_text_turn_of_each() {
    for (agent, tokens) in [("gemini", None), ("claude-agent-acp", Some(21)), ("codex-acp", Some(21))] {
        let driven = replay(&format!("{agent}/text-turn"));
        assert_eq!(driven.ends(), [&finished()], "{agent}");
        let text = driven.text();
        assert!(text.contains("Scripted reply number") && text.ends_with(". Hello from the fake model."), "{text}");
        let ready = driven.position(|fact| *fact == Fact::Ready);
        let accepted = driven.position(|fact| *fact == Fact::Accepted);
        let end = driven.position(|fact| matches!(fact, Fact::End(_)));
        assert!(ready < accepted && accepted < end);
        let used = |fact: &Fact| matches!(fact, Fact::Usage { task, .. } if task.input_tokens == Some(12) && task.total_tokens == tokens);
        assert!(driven.position(used) < end, "{agent}");
        let stored =
            |wanted| move |fact: &Fact| matches!(fact, Fact::NativeSession { stored, .. } if *stored == wanted);
        assert!(driven.position(stored(false)) < ready && driven.position(stored(true)) > accepted, "{agent}");
    }
}

#[test]
fn fragments_of_one_message_have_one_id_and_a_warning_of_the_adapters_another() {
    let driven = replay("codex-acp/text-turn");
    let mut ids: Vec<_> = driven
        .facts
        .iter()
        .filter_map(|fact| if let Fact::MessageDelta { message, .. } = fact { Some(message.as_str()) } else { None })
        .collect();
    ids.dedup();
    assert_eq!(ids.len(), 2, "{ids:?}");
}

#[test]
fn gemini_asks_and_is_answered_by_its_own_options() {
    let driven = replay("gemini/tool-permission");
    assert_eq!(driven.outcomes(), ["proceed_once", "cancel", "proceed_once"]);
    assert_eq!((driven.asked().len(), driven.ends().len()), (3, 3));
    assert_eq!(driven.asked()[0].prompt, "echo hi > out.txt && cat out.txt");
    let status = |wanted| move |fact: &Fact| matches!(fact, Fact::Effect { status, .. } if *status == wanted);
    let (done, declined) =
        (driven.position(status(WorkStatus::Completed)), driven.position(status(WorkStatus::Declined)));
    assert!(driven.position(status(WorkStatus::Started)) < done && done < declined);
    let written = driven.has(|fact| matches!(fact, Fact::Effect { paths, status: WorkStatus::Completed, .. } if paths == &["/home/user/project/note.txt"]));
    assert!(written, "{:#?}", driven.facts);
}

#[test]
fn what_is_said_after_a_tool_is_the_answer() {
    let driven = replay("gemini/tool-permission");
    let ids = driven.facts.iter().filter_map(|fact| match fact {
        Fact::MessageDelta { message, text, .. } => Some((message.as_str(), text.as_str())),
        _ => None,
    });
    let of = |wanted| ids.clone().find(|(_, text)| *text == wanted).map(|(id, _)| id);
    assert_ne!(of("Running a scripted tool."), of("TOOL-DONE. "));
}

#[test]
fn under_a_policy_of_denial_the_adapter_declines_by_itself() {
    for (agent, option) in [("gemini", "cancel"), ("claude-agent-acp", "reject")] {
        let driven = replay_with(&format!("{agent}/tool-permission"), ApprovalPolicy::Deny);
        assert_eq!(driven.outcomes(), [option; 3]);
        assert!(driven.asked().is_empty());
    }
}

#[test]
fn claude_announces_a_call_once_it_is_written_and_ends_it_once() {
    let driven = replay("claude-agent-acp/tool-permission");
    assert_eq!(driven.outcomes(), ["allow-once", "reject", "allow-once"]);
    let of = |wanted| {
        driven.facts.iter().filter(move |fact| matches!(fact, Fact::Effect { status, .. } if *status == wanted))
    };
    let started: Vec<_> = of(WorkStatus::Started)
        .filter_map(|fact| if let Fact::Effect { description, .. } = fact { description.as_deref() } else { None })
        .collect();
    assert_eq!(started[..2], ["echo hi > out.txt && cat out.txt"; 2]);
    assert_eq!(
        (of(WorkStatus::Completed).count(), of(WorkStatus::Declined).count(), of(WorkStatus::Failed).count()),
        (2, 1, 0)
    );
}

#[test]
fn codex_says_what_a_command_printed_and_its_exit_code() {
    let driven = replay("codex-acp/tool-permission");
    let printed = |fact: &Fact| matches!(fact, Fact::Effect { output, exit_code: Some(0), .. } if output.as_deref() == Some("hi\n"));
    assert!(driven.has(printed), "{:#?}", driven.facts);
}

#[test]
fn a_cancel_in_mid_stream_and_in_mid_tool_of_each() {
    for agent in ["gemini", "claude-agent-acp", "codex-acp"] {
        for when in ["cancel", "cancel-tool"] {
            let driven = replay(&format!("{agent}/{when}"));
            assert_eq!(driven.ends().first(), Some(&&EndReport::Interrupted), "{agent}, {when}");
            assert!(driven.methods().contains(&"session/cancel"));
            assert!(driven.machine.is_ready());
        }
    }
}

#[test]
fn a_permission_that_is_open_at_a_cancel_is_answered_with_it() {
    for agent in ["gemini", "claude-agent-acp"] {
        let driven = replay(&format!("{agent}/cancel-pending-permission"));
        assert_eq!((driven.outcomes(), driven.ends()), (vec!["cancelled"], vec![&EndReport::Interrupted]), "{agent}");
        let closed = |fact: &Fact| matches!(fact, Fact::Withdrawn(_, ClearReason::CancellationRequested));
        assert!(driven.position(closed) < driven.position(|fact| matches!(fact, Fact::End(_))));
        let methods: Vec<_> = driven.sent.iter().skip(1).map(|sent| sent["method"].as_str()).collect();
        assert_eq!(methods, [Some("session/cancel"), None], "the cancel goes first");
    }
}

#[test]
fn a_history_is_no_part_of_any_task() {
    for agent in ["gemini", "claude-agent-acp", "codex-acp"] {
        let driven = replay(&format!("{agent}/load"));
        let ready = driven.position(|fact| *fact == Fact::Ready);
        let before: Vec<_> = driven.facts[..ready].iter().collect();
        assert!(matches!(before[..], [Fact::NativeSession { stored: true, .. }]), "{agent}: {before:#?}");
        let first = driven.text();
        assert!(!first.contains("TOOL-DONE") && first.contains("Scripted reply number"), "{agent}: {first}");
        assert!(driven.machine.counts.redundant > 10, "{agent}: {:?}", driven.machine.counts);
    }
}

#[test]
fn an_end_of_turn_that_hides_a_failure_is_one() {
    let driven = replay("codex-acp/error");
    let ends = driven.ends();
    assert!(matches!(ends[..], [EndReport::Failed { kind: FailureKind::Provider, .. }]), "{ends:?}");
}

#[test]
fn a_second_prompt_is_not_sent_while_one_runs() {
    let driven = replay("gemini/second-prompt-while-busy");
    assert_eq!(driven.methods().iter().filter(|method| **method == "session/prompt").count(), 1);
    assert!(driven.has(|fact| matches!(fact, Fact::NotAccepted { .. })));
}

/// Every value of a message, replaced by one of another type.
fn spoilt(message: &Value) -> Vec<Value> {
    let mut all = vec![Value::Null, json!([[]]), json!("x"), json!(-1.5), json!({ "x": {} })];
    let members = message.as_object().into_iter().flatten();
    for (name, member) in members {
        for replaced in spoilt(member) {
            let mut copy = message.clone();
            copy[name] = replaced;
            all.push(copy);
        }
    }
    all
}

#[test]
fn whatever_is_said_in_whatever_shape_is_survived_and_counted_once() {
    let mut lines = 0;
    for name in ["gemini/tool-permission", "claude-agent-acp/cancel-pending-permission", "codex-acp/tool-permission"] {
        let kinds: std::collections::BTreeMap<String, Value> = capture(name)
            .into_iter()
            .filter(|entry| entry["dir"] == "agent->client")
            .map(|entry| {
                let message = &entry["msg"];
                (format!("{}{}", message["method"], message["params"]["update"]["sessionUpdate"]), message.clone())
            })
            .collect();
        for message in kinds.values().flat_map(spoilt) {
            let mut driven = Driven::in_a_turn();
            driven.machine.known = Known::Gemini;
            driven.machine.spoken = message["params"]["sessionId"].as_str().map(str::to_owned);
            driven.says(&message);
            let counts = driven.machine.counts;
            assert_eq!(counts.mapped + counts.noted + counts.redundant, 1, "{message}");
            lines += 1;
        }
    }
    assert!(lines > 1000, "{lines}");
}
