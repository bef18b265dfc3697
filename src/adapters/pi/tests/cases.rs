//! What the captures do not show by themselves: what follows a run, aborts that come early, dialogs, long answers.

use super::*;

impl Replay {
    /// One whose prompt was taken, and whose run has begun.
    fn in_a_run() -> Self {
        let mut replay = Self::taken();
        replay.says(json!({ "type": "agent_start" }));
        replay
    }

    fn taken() -> Self {
        let mut replay = Self::ready();
        replay.submit("hi");
        replay.reply("prompt", Value::Null);
        replay
    }

    fn run_ends(&mut self, stop_reason: &str, error: Option<&str>) {
        let message = json!({ "role": "assistant", "content": [], "stopReason": stop_reason, "errorMessage": error });
        self.says(json!({ "type": "agent_end", "messages": [{ "role": "user" }, message] }));
    }
}

#[test]
fn the_program_is_started_for_its_protocol_and_never_asks() {
    let spec = SessionSpec { directory: "/".into(), model: Some("m".into()) };
    let id = "native".parse().expect("id");
    let start = Pi.start(OpenContext { spec: &spec, resume: Some(&id), task: None });
    assert_eq!(start.arguments, ["--mode", "rpc", "--model", "m"]);
    assert_eq!(Pi.lifetime(), Lifetime::Session);
    let lacks: Vec<_> = Capability::ALL.into_iter().filter(|each| !Pi.capabilities().has(*each)).collect();
    assert_eq!(lacks, [Capability::Approvals]);
}

#[test]
fn a_second_prompt_while_it_works_is_refused_and_the_first_one_goes_on() {
    let replay = Replay::of("busy-steer-followup");
    assert_eq!(replay.ends(), [&EndReport::Interrupted], "the abort ended the first, and nothing else was sent");
    let mut replay = Replay::ready();
    replay.submit("hi");
    let id = replay.sent.last().expect("a prompt")["id"].clone();
    let error = "Agent is already processing.";
    replay.says(json!({ "id": id, "type": "response", "command": "prompt", "success": false, "error": error }));
    let refused = Fact::NotAccepted { message: format!("pi did not take the prompt: {error}") };
    assert_eq!(replay.facts.last(), Some(&refused));
    assert_eq!(replay.ends(), [] as [&EndReport; 0]);
}

#[test]
fn the_end_of_a_run_is_the_tasks_end_only_once_pi_rests() {
    let mut replay = Replay::in_a_run();
    replay.unanswered.clear();
    replay.run_ends("stop", None);
    assert_eq!(replay.ends(), [] as [&EndReport; 0], "a retry may follow in the same breath");
    replay.state(json!({ "isStreaming": true, "isCompacting": false }));
    assert_eq!(replay.ends(), [] as [&EndReport; 0], "another run has begun");
    replay.says(json!({ "type": "agent_start" }));
    replay.run_ends("length", None);
    replay.rest();
    assert_eq!(replay.ends(), [&EndReport::Completed { stop_reason: StopReason::ProviderStopped }]);
    replay.assert_counted();
}

/// As captured by hand: the abort was answered before the run began, and had no effect on it.
#[test]
fn case_b13_an_abort_that_came_before_the_run_is_given_again() {
    let mut replay = Replay::taken();
    replay.tell(Told::Interrupt);
    replay.reply("abort", Value::Null);
    replay.state(json!({ "isStreaming": true, "isCompacting": false }));
    assert_eq!(replay.commands(), ["prompt", "abort"]);
    replay.says(json!({ "type": "agent_start" }));
    assert_eq!(replay.commands(), ["prompt", "abort", "abort"]);
    replay.run_ends("aborted", Some("Request was aborted"));
    replay.reply("abort", Value::Null);
    replay.rest();
    assert_eq!(replay.ends(), [&EndReport::Interrupted]);
}

#[test]
fn a_run_that_somebody_else_aborted_was_not_interrupted_by_us() {
    let mut replay = Replay::in_a_run();
    replay.run_ends("aborted", None);
    replay.rest();
    assert_eq!(replay.ends(), [&failed(FailureKind::Unknown, "the run was aborted, and not by Ostler")]);
}

#[test]
fn an_end_without_an_answer_of_the_model_is_of_unknown_meaning() {
    for stop_reason in [None, Some("melted")] {
        let mut replay = Replay::in_a_run();
        let last = stop_reason.map(|word| json!({ "role": "assistant", "stopReason": word }));
        replay.says(json!({ "type": "agent_end", "messages": last.into_iter().collect::<Vec<_>>() }));
        replay.rest();
        assert_eq!(replay.ends(), [&EndReport::Unknown { status: stop_reason.unwrap_or_default().to_owned() }]);
    }
}

#[test]
fn a_compaction_after_the_answer_is_open_work_of_the_task() {
    let replay = Replay::of("compaction");
    assert_eq!(replay.ends(), [&finished(), &finished()]);
    let end = replay.position(|fact| matches!(fact, Fact::End(_)));
    assert_eq!(replay.facts[end - 1], Fact::OpenWork(1));
    assert_eq!(replay.facts[end + 1], Fact::OpenWork(0));
    assert_eq!(replay.warnings(WarningKind::ContextPressure).len(), 2);
    replay.assert_counted();
}

/// It announces another try of an answer that it has, and does not make it.
#[test]
fn an_answer_that_filled_the_context_is_an_answer() {
    let replay = Replay::of("silent-overflow");
    assert_eq!(replay.ends(), [&finished(), &finished()]);
    assert_eq!(replay.texts(MessageRole::Answer).len(), 2);
    assert_eq!(replay.facts.iter().filter(|fact| **fact == Fact::OpenWork(0)).count(), 2, "nothing of it is open");
    replay.assert_counted();
}

#[test]
fn a_prompt_that_did_not_fit_is_answered_after_the_compaction() {
    let replay = Replay::of("overflow");
    assert_eq!(replay.ends(), [&finished(), &finished()]);
    replay.assert_counted();
    let mut replay = Replay::in_a_run();
    replay.run_ends("error", Some("prompt is too long"));
    replay.says(json!({ "type": "compaction_start", "reason": "overflow" }));
    let ended = json!({ "type": "compaction_end", "reason": "overflow", "willRetry": false, "errorMessage": "no use" });
    replay.says(ended);
    replay.rest();
    assert_eq!(replay.ends(), [&failed(FailureKind::ContextOverflow, "prompt is too long")]);
    assert_eq!(replay.warnings(WarningKind::ContextPressure), ["pi compacts its context (overflow)", "no use"]);
}

#[test]
fn a_dialog_of_an_extension_is_declined_and_its_command_obeyed_without_a_model() {
    let replay = Replay::of("extension");
    let dismissed: Vec<_> = replay.sent.iter().filter(|sent| sent["cancelled"] == true).collect();
    assert_eq!(dismissed.len(), 2, "{:#?}", replay.sent);
    assert!(dismissed.iter().all(|sent| sent["id"].as_str().is_some_and(|id| id.len() == 36)));
    assert_eq!(replay.effects(), [(EffectKind::Command, WorkStatus::Failed)]);
    assert_eq!(replay.ends(), [&finished(), &finished()], "the second was a command of the extension");
    let warned = replay.warnings(WarningKind::Other);
    assert!(warned[0].contains("Run it?") && warned[1].contains("command of its own"), "{warned:?}");
    replay.assert_counted();
}

#[test]
fn a_session_that_an_extension_has_changed_is_the_one_to_resume() {
    let mut replay = Replay::in_a_run();
    replay.run_ends("stop", None);
    let file = "/home/user/.pi/agent/sessions/--home-user-project--/2027_def.jsonl";
    replay.state(json!({ "isStreaming": false, "isCompacting": false, "sessionFile": file }));
    let now = Fact::NativeSession { id: "2027_def".parse().expect("an id"), stored: false };
    assert!(replay.position(|fact| *fact == now) < replay.position(|fact| matches!(fact, Fact::End(_))));
    assert_eq!(replay.facts.iter().filter(|fact| **fact == now).count(), 1);
}

#[test]
fn what_is_said_outside_of_a_task_is_nobodys() {
    let mut replay = Replay::ready();
    let before = replay.facts.len();
    for entry in capture("tool-turn").iter().filter(|entry| entry["msg"]["type"] != "response") {
        replay.says(entry["msg"].clone());
    }
    let native = |fact: &Fact| matches!(fact, Fact::NativeSession { stored: true, .. });
    assert!(replay.facts[before..].iter().all(native), "{:#?}", &replay.facts[before..]);
    replay.assert_counted();
}

#[test]
fn lines_are_cut_at_line_feeds_alone() {
    let mut replay = Replay::in_a_run();
    let text = "one\u{2028}two\u{2029}three";
    replay.says(json!({ "type": "message_start", "message": { "role": "assistant" } }));
    let fragment = json!({ "type": "text_delta", "contentIndex": 0, "delta": text });
    replay.line(&json!({ "type": "message_update", "assistantMessageEvent": fragment }).to_string());
    assert_eq!(replay.fragments(MessageRole::Unknown), text);
    replay.submit(text);
    let mut answer = Answer::default();
    replay.machine.submit(&delegation(text), &mut answer);
    let bytes = &answer.messages[0].bytes;
    assert_eq!(bytes.iter().filter(|byte| **byte == b'\n').count(), 1, "one line, whatever is in it");
}

/// A line has its fragment and twice the answer so far.
#[test]
fn a_long_answer_costs_its_fragments_and_not_its_lines() {
    let mut replay = Replay::in_a_run();
    replay.says(json!({ "type": "message_start", "message": { "role": "assistant" } }));
    let (word, words) = ("word ".repeat(40), 200);
    let (mut bytes, mut said) = (0, String::new());
    for _ in 0..words {
        said.push_str(&word);
        let whole = json!({ "role": "assistant", "content": [{ "type": "text", "text": said }] });
        let fragment = json!({ "type": "text_delta", "contentIndex": 0, "delta": word, "partial": whole });
        let line = json!({ "type": "message_update", "assistantMessageEvent": fragment, "message": whole }).to_string();
        bytes += line.len();
        let mut answer = Answer::default();
        replay.machine.tell(Told::Frame(Frame::Line(&line)), &mut answer);
        let expected = Fact::MessageDelta {
            message: "message-2.1.0".parse().expect("an id"),
            role: MessageRole::Unknown,
            text: word.clone(),
        };
        assert_eq!(answer.facts, [expected]);
        assert!(replay.machine.snapshot().len() < 1000);
    }
    assert!(bytes > 8_000_000, "{bytes}");
}
