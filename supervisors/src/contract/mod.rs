//! The port as plain data: what a caller and a harness agree on.
//!
//! Nothing in here names an actor, a table or a route. The words and their rules are those of the Agent Harness
//! Protocol (AHP); the event envelope is that of the Harness Protocol, version 1 (HP).

pub mod delegation;
pub mod event;
pub mod evidence;
pub mod id;
pub mod interaction;
pub mod outcome;
pub mod output;
pub mod usage;
pub mod work;

pub use delegation::{ApprovalPolicy, Delegation, SessionSpec};
pub use event::{Event, EventKind, Position};
pub use evidence::{Evidence, ExitFact, Proof, RateLimit};
pub use id::{HarnessId, InteractionId, MessageId, NativeId, OwnerId, RuntimeId, SessionId, TaskId, WorkId};
pub use interaction::{
    ApprovalDecision, ClearReason, InteractionKind, InteractionRequest, InteractionResolution, InteractionResponse,
};
pub use outcome::{CancelCause, FailureKind, Outcome, StopReason, UnresolvedReason, Verdict};
pub use output::TaskOutput;
pub use usage::AgentUsage;
pub use work::{EffectKind, MessageRole, WarningKind, WorkStatus};
