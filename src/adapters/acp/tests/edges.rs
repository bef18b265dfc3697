//! What an agent may do besides.

use ostler_supervisors::contract::{ClearReason, FailureKind, StopReason, WarningKind};

use super::*;

const ALL: &[(&str, &str)] = &[("7f", "allow_once"), ("q0", "allow_always"), ("zz", "reject_once")];

fn initialized(capabilities: Value) -> Value {
    json!({ "protocolVersion": 1, "agentCapabilities": capabilities })
}

fn refused(driven: &Driven) -> &str {
    match driven.facts.last() {
        Some(Fact::NotReady { message }) => message,
        other => panic!("{other:?}"),
    }
}

#[test]
fn another_version_of_the_protocol_is_refused() {
    let mut driven = Driven::new(opening(None, None, None));
    driven.tell(Told::Started);
    driven.result(1, json!({ "protocolVersion": 2 }));
    assert!(refused(&driven).contains("version 2"));
    assert!(!driven.machine.is_ready());
}

#[test]
fn neither_files_nor_terminals_are_offered() {
    let mut driven = Driven::new(opening(None, None, None));
    driven.tell(Told::Started);
    let offered = &driven.sent[0]["params"]["clientCapabilities"];
    let fs = &offered["fs"];
    assert!(
        [&fs["readTextFile"], &fs["writeTextFile"], &offered["terminal"]].iter().all(|one| **one == false),
        "{offered}"
    );
}

#[test]
fn a_session_is_resumed_only_where_that_is_offered_and_never_replaced() {
    let mut driven = Driven::new(opening(Some("old"), None, None));
    driven.tell(Told::Started);
    driven.result(1, initialized(json!({})));
    assert!(refused(&driven).contains("start a new one"));

    let mut driven = Driven::new(opening(Some("old"), None, None));
    driven.tell(Told::Started);
    driven.result(1, initialized(json!({ "loadSession": true })));
    driven.fails(2, -32603, "out of order");
    assert!(refused(&driven).contains("out of order"));
    assert_eq!(driven.methods(), ["initialize", "session/load"]);

    let mut driven = Driven::new(opening(Some("old"), None, None));
    driven.tell(Told::Started);
    driven.result(1, initialized(json!({ "sessionCapabilities": { "resume": {} } })));
    assert_eq!(driven.methods(), ["initialize", "session/resume"]);
}

#[test]
fn a_session_that_is_not_there_any_more_is_lost_and_other_errors_are_not() {
    let details = |text: &str| json!({ "code": -32603, "message": "Internal error", "data": { "details": text } });
    let missing = details("No previous sessions found for this project.");
    for (agent, error, lost) in [
        ("any", json!({ "code": -32002, "message": "Resource not found" }), true),
        ("gemini-cli", missing.clone(), true),
        ("gemini-cli", details("Invalid session identifier \"x\"."), true),
        ("gemini-cli", details("Failed to load session data"), false),
        ("any", missing, false),
    ] {
        let mut driven = Driven::new(opening(Some("x"), None, None));
        driven.tell(Told::Started);
        let mut answer = initialized(json!({ "loadSession": true }));
        answer["agentInfo"] = json!({ "name": agent, "version": "1" });
        driven.result(1, answer);
        driven.says(&json!({ "jsonrpc": "2.0", "id": 2, "error": error }));
        let last = driven.facts.last();
        assert_eq!(matches!(last, Some(Fact::NativeLost { .. })), lost, "{agent}: {last:?}");
        assert_eq!(matches!(last, Some(Fact::NotReady { .. })), !lost);
        assert!(!driven.machine.is_ready());
    }
}

#[test]
fn gemini_loads_by_a_name_that_is_not_that_of_the_file_it_is_to_keep() {
    let mut driven = Driven::new(opening(Some("s-1"), None, None));
    driven.tell(Told::Started);
    let mut answer = initialized(json!({ "loadSession": true }));
    answer["agentInfo"] = json!({ "name": "gemini-cli", "version": "0.61.0" });
    driven.result(1, answer);
    driven.result(2, json!({}));
    driven.fails(3, -32601, "no method");
    driven.submit("hi", ApprovalPolicy::Ask);
    driven.tell(Told::Interrupt);
    let names: Vec<_> = driven.sent.iter().filter_map(|sent| sent["params"]["sessionId"].as_str()).collect();
    assert_eq!(names, [" s-1"; 3]);
    assert!(driven.has(|fact| matches!(fact, Fact::NativeSession { id, .. } if id.as_str() == "s-1")));
}

#[test]
fn an_empty_answer_to_a_load_is_one_and_the_history_ends_before_the_next() {
    let mut driven = Driven::new(opening(Some("s"), None, None));
    driven.tell(Told::Started);
    driven.result(1, initialized(json!({ "loadSession": true })));
    let said = |text| json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } });
    driven.update(said("of old"));
    driven.result(2, Value::Null);
    driven.update(said("of old too"));
    assert!(!driven.machine.is_ready());
    driven.fails(3, -32601, "no method");
    assert!(driven.machine.is_ready());
    assert_eq!((driven.text(), driven.machine.counts.redundant), (String::new(), 2));
}

#[test]
fn a_mode_is_set_where_it_is_another_and_refused_where_it_is_none() {
    let modes = |current: &str| json!({ "sessionId": "s", "modes": { "currentModeId": current, "availableModes": [{ "id": "auto", "name": "a" }, { "id": "default", "name": "d" }] } });
    let open = |mode, modes| {
        let mut driven = Driven::new(opening(None, Some(mode), None));
        driven.tell(Told::Started);
        driven.result(1, initialized(json!({})));
        driven.result(2, modes);
        driven
    };
    let mut driven = open("default", modes("auto"));
    assert_eq!(driven.sent[2]["params"], json!({ "sessionId": "s", "modeId": "default" }));
    assert!(!driven.machine.is_ready());
    driven.result(3, json!({}));
    assert!(driven.machine.is_ready());
    assert!(open("default", modes("default")).machine.is_ready());
    assert!(refused(&open("manual", modes("default"))).contains("no mode `manual`"));
}

#[test]
fn a_model_is_chosen_in_the_agents_own_way_or_not_at_all() {
    let open = |answer: Value| {
        let mut driven = Driven::new(opening(None, None, Some("big")));
        driven.tell(Told::Started);
        driven.result(1, initialized(json!({})));
        driven.result(2, answer);
        driven
    };
    let by_method = open(json!({ "sessionId": "s", "models": { "availableModels": [] } }));
    assert_eq!(by_method.sent[2]["params"], json!({ "sessionId": "s", "modelId": "big" }));
    let option = json!({ "id": "m", "category": "model" });
    let by_option = open(json!({ "sessionId": "s", "configOptions": [option] }));
    assert_eq!(by_option.sent[2]["params"], json!({ "sessionId": "s", "configId": "m", "value": "big" }));
    assert!(refused(&open(json!({ "sessionId": "s" }))).contains("`big`"));
}

#[test]
fn decisions_become_the_agents_own_options_whatever_they_are_called() {
    for (decision, option) in [
        (ApprovalDecision::ApproveOnce, "7f"),
        (ApprovalDecision::Decline, "zz"),
        (ApprovalDecision::Cancel, "cancelled"),
    ] {
        let mut driven = Driven::in_a_turn();
        driven.asks(json!("a string"), ALL);
        let id = driven.asked()[0].id.clone();
        driven.respond(&id, decision);
        assert_eq!(driven.outcomes(), [option]);
        assert_eq!(driven.methods().contains(&"session/cancel"), decision == ApprovalDecision::Cancel);
        driven.respond(&id, decision);
        assert_eq!(driven.outcomes().len(), 1, "a late answer is not sent");
    }
}

#[test]
fn an_option_that_is_not_offered_is_never_made_up() {
    // Nothing allows this once: nobody is asked.
    let mut driven = Driven::in_a_turn();
    driven.asks(json!(5), &[("always", "allow_always"), ("no", "reject_once")]);
    assert_eq!((driven.outcomes(), driven.asked().len()), (vec!["no"], 0));
    // Nothing rejects, and an option is of a kind that nobody knows.
    let mut driven = Driven::in_a_turn();
    driven.asks(json!(6), &[("yes", "allow_once"), ("hm", "allow_on_tuesdays")]);
    let id = driven.asked()[0].id.clone();
    driven.respond(&id, ApprovalDecision::Decline);
    assert_eq!(driven.outcomes(), ["cancelled"]);
}

#[test]
fn what_is_asked_after_a_cancel_is_answered_at_once() {
    let mut driven = Driven::in_a_turn();
    driven.tell(Told::Interrupt);
    driven.asks(json!(7), ALL);
    assert_eq!((driven.outcomes(), driven.asked().len()), (vec!["cancelled"], 0));
}

#[test]
fn a_permission_that_the_agent_takes_back_is_closed() {
    let mut driven = Driven::in_a_turn();
    driven.asks(json!(8), ALL);
    driven.says(&json!({ "jsonrpc": "2.0", "method": "$/cancel_request", "params": { "requestId": 8 } }));
    let id = driven.asked()[0].id.clone();
    assert!(driven.has(|fact| matches!(fact, Fact::Withdrawn(closed, _) if *closed == id)));
    driven.respond(&id, ApprovalDecision::ApproveOnce);
    assert_eq!(driven.outcomes(), ["cancelled"]);
}

/// An agent whose question a cancel closed has not done its work, whatever it calls its end.
#[test]
fn case_f4_a_cancel_closes_what_is_asked_and_wins_over_the_late_stop_reason() {
    let ends = |driven: &mut Driven| {
        driven.result(1, json!({ "stopReason": "end_turn" }));
        assert_eq!((driven.outcomes(), driven.ends()), (vec!["cancelled"], vec![&EndReport::Interrupted]));
    };
    let mut before = Driven::in_a_turn();
    before.asks(json!(7), ALL);
    before.tell(Told::Interrupt);
    let id = before.asked()[0].id.clone();
    assert!(before.has(|fact| *fact == Fact::Withdrawn(id.clone(), ClearReason::CancellationRequested)));
    before.tell(Told::Interrupt);
    ends(&mut before);
    let mut after = Driven::in_a_turn();
    after.tell(Told::Interrupt);
    after.asks(json!(7), ALL);
    ends(&mut after);
    let mut as_the_answer = Driven::in_a_turn();
    as_the_answer.asks(json!(7), ALL);
    let id = as_the_answer.asked()[0].id.clone();
    as_the_answer.respond(&id, ApprovalDecision::Cancel);
    ends(&mut as_the_answer);
}

#[test]
fn case_f4_an_end_that_comes_before_the_cancel_stays_and_leaves_nothing_open() {
    let mut driven = Driven::in_a_turn();
    driven.asks(json!(7), ALL);
    driven.result(1, json!({ "stopReason": "end_turn" }));
    driven.tell(Told::Interrupt);
    let id = driven.asked()[0].id.clone();
    assert!(driven.has(|fact| *fact == Fact::Withdrawn(id.clone(), ClearReason::ProviderWithdrawn)));
    assert_eq!(driven.ends(), [&EndReport::Completed { stop_reason: StopReason::Finished }]);
}

#[test]
fn case_f6_requests_of_other_kinds_are_refused_at_once() {
    for method in ["fs/write_text_file", "terminal/create", "session/request_unknown"] {
        let mut driven = Driven::in_a_turn();
        driven.says(&json!({ "jsonrpc": "2.0", "id": 9, "method": method, "params": {} }));
        let sent = driven.sent.last().expect("an answer");
        assert_eq!((&sent["id"], &sent["error"]["code"]), (&9.into(), &(-32601).into()));
        assert!(driven.has(|fact| matches!(fact, Fact::Warning { kind: WarningKind::Other, .. })));
    }
}

#[test]
fn every_stop_reason_has_its_end() {
    let completed = |stop_reason| EndReport::Completed { stop_reason };
    for (reason, end) in [
        ("end_turn", completed(StopReason::Finished)),
        ("max_tokens", completed(StopReason::ProviderStopped)),
        ("max_turn_requests", completed(StopReason::IterationLimit)),
        ("cancelled", EndReport::Interrupted),
    ] {
        let mut driven = Driven::in_a_turn();
        driven.result(1, json!({ "stopReason": reason }));
        assert_eq!(driven.ends(), [&end], "{reason}");
    }
    let mut driven = Driven::in_a_turn();
    driven.result(1, json!({ "stopReason": "refusal" }));
    assert!(matches!(driven.ends()[..], [EndReport::Failed { kind: FailureKind::PolicyBlocked, .. }]));
    for unknown in [json!({ "stopReason": "tired" }), json!({}), Value::Null] {
        let mut driven = Driven::in_a_turn();
        driven.result(1, unknown);
        assert!(matches!(driven.ends()[..], [EndReport::Unknown { .. }]), "{:?}", driven.ends());
    }
}

#[test]
fn completed_after_a_cancel_is_completed_and_a_second_end_is_noise() {
    let mut driven = Driven::in_a_turn();
    driven.tell(Told::Interrupt);
    driven.result(1, json!({ "stopReason": "end_turn" }));
    driven.result(1, json!({ "stopReason": "cancelled" }));
    assert_eq!(driven.ends(), [&EndReport::Completed { stop_reason: StopReason::Finished }]);
    assert!(matches!(driven.facts.last(), Some(Fact::Noise { .. })));
}

#[test]
fn case_j5_errors_are_failures_of_their_kind_and_429_is_a_limit() {
    for (code, wanted) in [
        (-32000, FailureKind::Authentication),
        (401, FailureKind::Authentication),
        (429, FailureKind::Transient),
        (500, FailureKind::Transient),
        (400, FailureKind::Provider),
        (-32603, FailureKind::Provider),
        (7, FailureKind::Unknown),
    ] {
        let mut driven = Driven::in_a_turn();
        driven.fails(1, code, "overheated");
        assert!(
            matches!(driven.ends()[..], [EndReport::Failed { kind, .. }] if *kind == wanted),
            "{code}: {:?}",
            driven.ends()
        );
        let limited = driven.facts.iter().any(|fact| matches!(fact, Fact::RateLimited(_)));
        assert_eq!(limited, code == 429, "{code}");
    }
}

#[test]
fn an_error_whose_kind_the_agent_names_beside_it_is_of_that_kind() {
    for (known, named, wanted) in [
        (Known::ClaudeAgentAcp, "rate_limit", FailureKind::Transient),
        (Known::ClaudeAgentAcp, "server_error", FailureKind::Transient),
        (Known::ClaudeAgentAcp, "authentication_failed", FailureKind::Authentication),
        (Known::ClaudeAgentAcp, "billing_error", FailureKind::BudgetExceeded),
        (Known::ClaudeAgentAcp, "invalid_request", FailureKind::Provider),
        (Known::Other, "rate_limit", FailureKind::Provider),
    ] {
        let mut driven = Driven::in_a_turn();
        driven.machine.known = known;
        let error = json!({ "code": -32603, "message": "Internal error", "data": { "errorKind": named } });
        driven.says(&json!({ "jsonrpc": "2.0", "id": 1, "error": error }));
        assert!(
            matches!(driven.ends()[..], [EndReport::Failed { kind, .. }] if *kind == wanted),
            "{known:?}, {named}: {:?}",
            driven.ends()
        );
    }
}

#[test]
fn a_prompt_that_was_refused_before_anything_happened_was_not_accepted() {
    let mut driven = Driven::in_a_turn();
    driven.fails(1, -32602, "session not found");
    assert!(driven.has(|fact| matches!(fact, Fact::NotAccepted { .. })) && driven.ends().is_empty());
    let mut driven = Driven::in_a_turn();
    driven.update(json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "so" } }));
    driven.fails(1, -32602, "session not found");
    assert_eq!(driven.ends().len(), 1);
}

#[test]
fn an_error_that_is_how_an_agent_answers_a_cancel_is_no_failure() {
    for (known, code, interrupted) in
        [(Known::Hermes, -32603, true), (Known::Other, -32603, false), (Known::Other, -32800, true)]
    {
        let mut driven = Driven::in_a_turn();
        driven.machine.known = known;
        driven.tell(Told::Interrupt);
        driven.fails(1, code, "Internal error");
        assert_eq!(*driven.ends()[0] == EndReport::Interrupted, interrupted, "{known:?}, {code}");
    }
}

#[test]
fn gemini_without_a_word_and_without_a_model_has_failed_unless_it_obeyed_by_itself() {
    let nothing = json!({ "stopReason": "end_turn", "_meta": { "quota": { "model_usage": [] } } });
    for (prompt, failed) in [("hi", true), ("/memory list", false)] {
        let mut driven = Driven::ready();
        driven.machine.known = Known::Gemini;
        driven.submit(prompt, ApprovalPolicy::Ask);
        driven.result(1, nothing.clone());
        assert_eq!(matches!(driven.ends()[0], EndReport::Failed { .. }), failed, "{prompt}");
    }
}

#[test]
fn a_count_of_the_session_is_not_the_tasks() {
    let mut driven = Driven::in_a_turn();
    driven.machine.known = Known::CountsSessions;
    let used = |tokens: u64| json!({ "stopReason": "end_turn", "usage": { "totalTokens": tokens, "inputTokens": tokens, "outputTokens": 0 } });
    driven.result(1, used(10));
    driven.submit("again", ApprovalPolicy::Ask);
    driven.result(2, used(25));
    let totals: Vec<_> = driven
        .facts
        .iter()
        .filter_map(|fact| {
            if let Fact::Usage { task, session } = fact {
                Some((task.total_tokens, session.and_then(|usage| usage.total_tokens)))
            } else {
                None
            }
        })
        .collect();
    assert_eq!(totals, [(Some(10), Some(10)), (Some(15), Some(25))]);
}

#[test]
fn a_plan_is_an_event_and_an_unknown_update_is_noted() {
    let mut driven = Driven::in_a_turn();
    driven.update(
        json!({ "sessionUpdate": "plan", "entries": [{ "content": "look", "priority": "high", "status": "pending" }] }),
    );
    driven.update(json!({ "sessionUpdate": "mood_update", "mood": "good", "more": [1] }));
    assert!(driven.has(|fact| matches!(fact, Fact::Event { kind, data } if kind.as_str() == "adapter.plan" && data["entries"][0]["content"] == "look")));
    assert_eq!(driven.machine.counts, FrameCounts { mapped: 1, noted: 1, redundant: 0 });
}

#[test]
fn what_is_said_between_tasks_is_visible_and_of_no_task() {
    let mut driven = Driven::ready();
    driven.update(json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "psst" } }));
    assert!(matches!(&driven.facts[..], [Fact::Noise { what }] if what.contains("outside of any task")));
}

#[test]
fn whatever_an_agent_says_the_snapshot_stays_small() {
    let mut driven = Driven::in_a_turn();
    let long = "x".repeat(4000);
    for number in 0..100 {
        let id = format!("{number}/{long}");
        driven.update(json!({ "sessionUpdate": "tool_call", "toolCallId": id, "title": long, "kind": "other", "status": "pending" }));
        driven.asks(
            json!(format!("{number}-{}", &long[..100])),
            &[(&long[..120], "allow_once"), (&long[..100], "reject_once")],
        );
        driven.asks(json!(id), &[(&long, "allow_once")]);
    }
    assert_eq!(driven.machine.permissions.len(), 6);
    // Those that are too many are answered all the same.
    assert_eq!(driven.outcomes().len(), 194);
}
