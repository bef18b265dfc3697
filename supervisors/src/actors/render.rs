//! Records of the machines as events of the Harness Protocol (HP 1.2), and back again after a restart.

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::journal::NewEvent;
use crate::adapter::Fact;
use crate::contract::event::kinds;
use crate::contract::{
    Delegation, Event, EventKind, HarnessId, InteractionKind, InteractionRequest, MessageRole, Outcome, SessionSpec,
    TaskId, Verdict, WorkStatus,
};
use crate::ledger::TaskState;
use crate::machines::interaction::Resolution;
use crate::machines::task::{Record, StrayEnd};

/// A payload; an object of strings and numbers always has a JSON form.
pub(super) fn payload(value: &Value) -> Box<RawValue> {
    to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// An event outside any run.
pub(super) fn outside(kind: EventKind, data: Value) -> NewEvent {
    NewEvent { run: None, kind, data: payload(&data) }
}

/// The two events that open a run (HP O-1).
pub(super) fn opening(
    harness: &HarnessId,
    spec: &SessionSpec,
    delegation: &Delegation,
    task: &TaskId,
) -> Vec<(EventKind, Value)> {
    let model = spec.model.as_deref().unwrap_or("(harness default)");
    let started =
        json!({ "descriptor": { "id": harness, "protocol_version": "1.0" }, "provider": harness, "model": model });
    let message = json!({
        "message_id": format!("{task}-prompt"), "role": "user", "content": delegation.prompt, "metadata": {},
    });
    vec![(kinds::RUN_STARTED, started), (kinds::MESSAGE_CREATED, message)]
}

/// What a record is to readers; `None` for one that is only a change of a row.
pub(super) fn record(record: &Record, harness: &HarnessId) -> Option<(EventKind, Value)> {
    Some(match record {
        Record::Fact(fact) => return self::fact(fact),
        Record::State(TaskState::Submitted) => {
            (kinds::MODEL_REQUESTED, json!({ "provider": harness, "model": "(harness default)", "scope": "turn" }))
        }
        Record::State(_) | Record::Answered(..) | Record::Reopened(_) => return None,
        Record::CancelRequested(cause) => (kinds::CANCEL_REQUESTED, json!({ "cause": cause })),
        Record::Opened(request) => (kinds::APPROVAL_REQUESTED, opened(request)),
        Record::Resolved(id, resolution) => (kinds::APPROVAL_RESOLVED, resolved(id.as_str(), resolution)),
        Record::Stray(stray, end) => {
            let data = json!({ "pid": stray.pid, "command": stray.command, "gone": *end == StrayEnd::Gone });
            (kinds::STRAY_ENDED, data)
        }
        Record::Late(what) => (kinds::LATE_FACT, json!({ "what": what })),
    })
}

fn opened(request: &InteractionRequest) -> Value {
    let mut data = json!({ "interaction_id": request.id, "prompt": request.prompt, "tool": request.work });
    match &request.kind {
        InteractionKind::Approval { effect, available } => {
            data["effect"] = json!(effect);
            data["options"] = json!(available);
        }
        InteractionKind::Question { choices } => data["choices"] = json!(choices),
    }
    data
}

fn resolved(id: &str, resolution: &Resolution) -> Value {
    match resolution {
        Resolution::Responded(response) => json!({ "interaction_id": id, "decision": response }),
        Resolution::Cleared(reason) => json!({ "interaction_id": id, "cleared": reason }),
    }
}

pub(super) fn fact(fact: &Fact) -> Option<(EventKind, Value)> {
    Some(match fact {
        Fact::MessageDelta { message, role, text } => {
            let data = json!({ "text": text, "message_id": message });
            match role {
                MessageRole::Explanation => (kinds::MODEL_THINKING, data),
                MessageRole::Commentary => (EventKind::known("adapter.message.commentary"), data),
                _ => (kinds::MESSAGE_DELTA, data),
            }
        }
        Fact::MessageCompleted { message, role, text } => {
            let data = json!({ "message_id": message, "role": role, "text": text });
            (EventKind::known("adapter.message.completed"), data)
        }
        Fact::Tool { work, name, status, arguments, result } => {
            let success = *status == WorkStatus::Completed;
            let data = match status {
                WorkStatus::Started => json!({ "tool_call_id": work, "tool_name": name, "arguments": arguments }),
                _ => {
                    json!({ "tool_call_id": work, "tool_name": name, "success": success, "output": result, "status": status })
                }
            };
            (work_kind(*status), data)
        }
        Fact::Effect { work, kind, status, description, output, exit_code, paths } => {
            let success = *status == WorkStatus::Completed && exit_code.is_none_or(|code| code == 0);
            let data = match status {
                WorkStatus::Started => json!({ "tool_call_id": work, "tool_name": kind, "arguments": description }),
                _ => json!({
                    "tool_call_id": work, "tool_name": kind, "success": success, "output": output,
                    "exit_code": exit_code, "paths": paths, "status": status,
                }),
            };
            (work_kind(*status), data)
        }
        Fact::Warning { kind, message } => (kinds::WARNING, json!({ "kind": kind, "message": message })),
        Fact::RateLimited(limit) => (kinds::RATE_LIMITED, json!(limit)),
        Fact::Noise { what } => (kinds::FRAME_REJECTED, json!({ "what": what })),
        Fact::Event { kind, data } => (kind.clone(), data.clone()),
        _ => return None,
    })
}

/// `tool.completed` only for a final state; progress has a name of its own (HP G-11).
fn work_kind(status: WorkStatus) -> EventKind {
    match status {
        WorkStatus::Started => kinds::TOOL_REQUESTED,
        WorkStatus::Updated => kinds::TOOL_PROGRESS,
        _ => kinds::TOOL_COMPLETED,
    }
}

/// The events that close a run: what it used, the answer, the verdict (HP 1.3).
pub(super) fn closing(task: &TaskId, outcome: &Outcome, harness: &HarnessId) -> Vec<(EventKind, Value)> {
    let usage = json!({ "provider": harness, "scope": "turn", "stopped_reason": outcome.verdict.word(), "usage": outcome.usage });
    let text = outcome.output.as_ref().map(|output| output.text()).unwrap_or_default();
    let answer =
        json!({ "message_id": format!("{task}-answer"), "role": "assistant", "content": text, "metadata": {} });
    vec![(kinds::MODEL_COMPLETED, usage), (kinds::MESSAGE_CREATED, answer), terminal(outcome)]
}

fn terminal(outcome: &Outcome) -> (EventKind, Value) {
    let evidence = json!(outcome.evidence);
    match &outcome.verdict {
        Verdict::Completed { stop_reason } => {
            let data = json!({ "status": "succeeded", "stopped_reason": stop_reason, "evidence": evidence });
            (kinds::RUN_COMPLETED, data)
        }
        Verdict::Failed { kind, message } => {
            let data = json!({ "error": message, "error_type": kind, "kind": kind, "evidence": evidence });
            (kinds::RUN_FAILED, data)
        }
        Verdict::Cancelled { cause } => (kinds::RUN_CANCELLED, json!({ "reason": cause, "evidence": evidence })),
        Verdict::Unresolved { reason, known } => {
            let data = json!({
                "error": known, "error_type": "Unresolved", "kind": "Unresolved", "reason": reason, "evidence": evidence,
            });
            (kinds::RUN_FAILED, data)
        }
    }
}

/// The facts of a run that the task's machine has to know again after a restart.
pub(super) fn facts_of(events: &[Event], task: &TaskId) -> Vec<Fact> {
    let of_task = |event: &&Event| event.run.as_ref().is_some_and(|(run, _)| run == task);
    events.iter().filter(of_task).filter_map(fact_of).collect()
}

fn fact_of(event: &Event) -> Option<Fact> {
    let data: Value = serde_json::from_str(event.data.get()).ok()?;
    let text = |key: &str| data[key].as_str().map(str::to_owned);
    let message = || text("message_id")?.parse().ok();
    match event.kind.as_str() {
        "message.delta" => {
            Some(Fact::MessageDelta { message: message()?, role: MessageRole::Unknown, text: text("text")? })
        }
        "adapter.message.completed" => {
            let role = serde_json::from_value(data["role"].clone()).unwrap_or(MessageRole::Unknown);
            Some(Fact::MessageCompleted { message: message()?, role, text: text("text")? })
        }
        "ostler.rate_limited" => Some(Fact::RateLimited(serde_json::from_value(data).ok()?)),
        _ => None,
    }
}
