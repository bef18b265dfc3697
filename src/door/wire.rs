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

use super::EventLine;
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
    StartTask { session: SessionId, task: TaskId, delegation: Delegation },
    #[serde(rename = "task/wait")]
    Wait { task: TaskId },
    #[serde(rename = "task/cancel")]
    Cancel { task: TaskId, cause: CancelCause },
    #[serde(rename = "task/respond")]
    Respond { task: TaskId, interaction: InteractionId, response: InteractionResponse },
    #[serde(rename = "tree/read")]
    Tree,
}

impl Request {
    /// What is not known, and how to find it out, when the answer to it is lost; `None` if it changes nothing.
    pub(super) fn lost(&self) -> Option<String> {
        let text = match self {
            Self::Read { .. } | Self::Wait { .. } | Self::Tree => return None,
            Self::OpenSession { .. } => {
                "whether the session was opened is not known; `ostler session list` shows it".to_owned()
            }
            Self::CloseSession { session } => {
                format!("whether session {session} is closed is not known; close it again")
            }
            Self::StartTask { task, .. } => {
                format!("whether the task was accepted is not known; see `ostler task show {task}`")
            }
            Self::Cancel { task, .. } => {
                format!("whether the cancel of {task} is in force is not known; see `ostler task show {task}`")
            }
            Self::Respond { task, .. } => {
                format!("whether {task} got the answer is not known; see `ostler task show {task}`")
            }
        };
        Some(text)
    }
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
    Events(Vec<EventLine>),
}
