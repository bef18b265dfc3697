//! What goes over a control socket: one request a connection, one JSON object a line.
//!
//! ```text
//! → {"method":"task/cancel","params":{"task":"task_…","cause":"requested"}}
//! ← {"result":null}            or  {"error":{"kind":"not_found","message":"…"}}
//! ```
//!
//! `session/read` answers with `{"events":[…]}` lines, an empty one when nothing is there now, and goes on until the
//! connection ends.

use ostler_supervisors::contract::{
    CancelCause, Delegation, HarnessId, InteractionId, InteractionResponse, SessionId, SessionSpec, TaskId,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::Failure;

/// The longest request: a prompt, and its envelope.
pub(super) const MAX_REQUEST: u64 = 80 << 20;

/// One request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "method", content = "params")]
pub(super) enum Request {
    #[serde(rename = "session/open")]
    OpenSession { harness: HarnessId, spec: SessionSpec },
    #[serde(rename = "session/close")]
    CloseSession { session: SessionId },
    #[serde(rename = "session/read")]
    Read { session: SessionId, from: u64 },
    #[serde(rename = "task/start")]
    StartTask { session: SessionId, delegation: Delegation },
    #[serde(rename = "task/wait")]
    Wait { task: TaskId },
    #[serde(rename = "task/cancel")]
    Cancel { task: TaskId, cause: CancelCause },
    #[serde(rename = "task/respond")]
    Respond { task: TaskId, interaction: InteractionId, response: InteractionResponse },
    #[serde(rename = "tree/read")]
    Tree,
}

/// One line of an answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    /// It worked.
    Result(Value),
    /// It did not.
    Error(Failure),
    /// Events of a reader.
    Events(Vec<Value>),
}
