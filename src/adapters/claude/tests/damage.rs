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
    for name in ["interrupt-pending-permission", "background-interrupted"] {
        let mut replay = Replay::new(ApprovalPolicy::Ask);
        let entries = capture(name);
        replay.machine.ready = entries[0]["msg"]["type"] != "control_request";
        for entry in &entries {
            if entry["dir"] == "client->agent" {
                replay.client(&entry["msg"]);
                continue;
            }
            for frame in damaged(&entry["msg"]) {
                tried += 1;
                told(&replay.machine, &frame.to_string());
            }
            replay.agent(entry);
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
