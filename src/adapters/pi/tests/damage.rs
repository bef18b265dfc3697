//! Captured frames, damaged: whatever an agent says costs no more than its frame.

use super::*;

/// Every frame with one value of its first two levels put out of shape.
fn damaged(frame: &Value) -> Vec<Value> {
    let mut all = Vec::new();
    for key in keys(frame) {
        all.extend(replaced(frame, |frame| frame.get_mut(&key)));
        for inner in keys(&frame[&key]) {
            all.extend(replaced(frame, |frame| frame.get_mut(&key)?.get_mut(&inner)));
        }
    }
    all
}

fn keys(value: &Value) -> Vec<String> {
    value.as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect()
}

fn replaced(frame: &Value, place: impl Fn(&mut Value) -> Option<&mut Value>) -> Vec<Value> {
    let long = "\u{1}\"é/ ".repeat(300);
    let others = [Value::Null, json!(u64::MAX), json!(-1), json!(long), json!([[]]), json!({ "type": long })];
    let put = |other: Value| {
        let mut frame = frame.clone();
        *place(&mut frame)? = other;
        Some(frame)
    };
    others.into_iter().filter_map(put).collect()
}

#[test]
fn a_damaged_frame_is_counted_once_and_the_snapshot_keeps_its_bound() {
    let mut tried = 0;
    for name in ["abort-tool", "retry-aborted", "compaction"] {
        let mut replay = Replay::new(None);
        for entry in &capture(name) {
            if entry["dir"] == "client->agent" {
                replay.client(&entry["msg"]);
                continue;
            }
            for frame in damaged(&entry["msg"]) {
                tried += 1;
                told(&replay.machine, &frame.to_string());
            }
            replay.agent(&entry["msg"]);
        }
    }
    assert!(tried > 2_000, "{tried}");
}

fn told(machine: &Machine, line: &str) {
    let mut machine = machine.clone();
    let sum = |counts: FrameCounts| counts.mapped + counts.noted + counts.redundant;
    let before = sum(machine.counts);
    machine.tell(Told::Frame(Frame::Line(line)), &mut Answer::default());
    assert_eq!(sum(machine.counts), before + 1, "{line}");
    assert!(machine.snapshot().len() <= MAX_SNAPSHOT, "{line}");
}

#[test]
fn of_a_list_without_end_the_beginning_is_kept() {
    let mut replay = Replay::ready();
    replay.submit("x");
    replay.reply("prompt", Value::Null);
    replay.says(json!({ "type": "agent_start" }));
    let parts = vec![json!({ "type": "text", "text": "x" }); 5000];
    let message = json!({ "role": "assistant", "stopReason": "stop", "content": parts });
    replay.says(json!({ "type": "message_end", "message": message }));
    assert_eq!(replay.texts(MessageRole::Answer).len(), 1024);
    replay.says(json!({ "type": "agent_end", "messages": vec![message; 3] }));
    replay.rest();
    assert_eq!(replay.ends(), [&finished()]);
    let long = json!({ "type": "extension_ui_request", "id": "x".repeat(1000), "method": "confirm", "title": "y" });
    let sent = replay.sent.len();
    replay.says(long);
    assert_eq!(replay.sent.len(), sent, "what comes back to it is not as long as it likes");
}

/// All that a machine keeps, at its longest and with every character escaped.
#[test]
fn the_fullest_snapshot_keeps_its_bound() {
    let name = "\"".repeat(128);
    let mut replay = Replay::new(Some(&name));
    replay.machine.phase = Phase::Ready;
    replay.machine.session = replay.machine.resume.clone();
    (0..20).for_each(|_| replay.submit("x"));
    replay.reply("prompt", Value::Null);
    replay.says(json!({ "type": "agent_start" }));
    for number in 0..40 {
        let path = format!("{}{number}", "\"".repeat(118));
        let id = format!("call-{number}");
        let started =
            json!({ "type": "tool_execution_start", "toolCallId": id, "toolName": "write", "args": { "path": path } });
        replay.says(started);
    }
    let message = json!({ "role": "assistant", "stopReason": "error", "errorMessage": "\u{1}".repeat(2000) });
    let tools = replay.machine.tools.clone();
    replay.says(json!({ "type": "agent_end", "messages": [message] }));
    replay.machine.tools = tools;
    let bytes = replay.machine.snapshot().len();
    assert!((5_000..=MAX_SNAPSHOT).contains(&bytes), "{bytes}");
}
