//! A session's context (AHP 3.4): one task at a time, blocked while the end of its last one is unknown.

use thiserror::Error;

use crate::contract::{Outcome, SessionId, TaskId, UnresolvedReason, Verdict};
use crate::ledger::NativeSession;

/// Where a context stands.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Context {
    /// It takes a task.
    Idle,
    /// This task has it, from before its acceptance until its settlement.
    Busy(TaskId),
    /// It takes no task until the end of this one is proven.
    Blocked {
        /// The task.
        task: TaskId,
        /// Why its end is not known.
        reason: UnresolvedReason,
    },
    /// It was closed while this task runs; final once the task is settled.
    Closing(TaskId),
    /// Final.
    Closed,
}

/// Why a context does not take a task.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ContextError {
    /// Another task runs in it.
    #[error("session {session} is busy with {task}: wait for it (`ostler task wait {task}`) or cancel it")]
    Busy {
        /// The session.
        session: SessionId,
        /// The task.
        task: TaskId,
    },
    /// The end of its last task is unknown.
    #[error("session {session} is blocked: the end of {task} is not known; start a new session")]
    Blocked {
        /// The session.
        session: SessionId,
        /// The task.
        task: TaskId,
    },
    /// It is closed.
    #[error("session {0} is closed; start a new one")]
    Closed(SessionId),
}

impl Context {
    /// A context as the outcome of its last task left it.
    ///
    /// An unknown end blocks, unless the tree is proven empty and the harness can go on from its own store: then the
    /// old run can no longer touch the context (AHP 2.5).
    pub fn after(task: TaskId, outcome: &Outcome, native: Option<&NativeSession>) -> Self {
        match blocking(outcome, native) {
            Some(reason) => Self::Blocked { task, reason },
            None => Self::Idle,
        }
    }

    /// Whether a task has it.
    pub fn is_claimed(&self) -> bool {
        matches!(self, Self::Busy(_) | Self::Closing(_))
    }

    /// Checks and claims in one step.
    ///
    /// # Errors
    ///
    /// [`ContextError`]; nothing changed.
    pub fn claim(&mut self, session: &SessionId, task: TaskId) -> Result<(), ContextError> {
        let session = session.clone();
        match self {
            Self::Idle => {
                *self = Self::Busy(task);
                Ok(())
            }
            Self::Busy(other) => Err(ContextError::Busy { session, task: other.clone() }),
            Self::Blocked { task, .. } => Err(ContextError::Blocked { session, task: task.clone() }),
            Self::Closing(_) | Self::Closed => Err(ContextError::Closed(session)),
        }
    }

    /// The task that has it is settled; unresolved ones block it, and the block is there before anybody is told.
    pub fn settled(&mut self, task: &TaskId, unresolved: Option<UnresolvedReason>) {
        *self = match (std::mem::replace(self, Self::Closed), unresolved) {
            (Self::Busy(busy), Some(reason)) if busy == *task => Self::Blocked { task: busy, reason },
            (Self::Busy(busy), None) if busy == *task => Self::Idle,
            (Self::Closing(busy), _) if busy == *task => Self::Closed,
            (other, _) => other,
        };
    }

    /// The end of the blocking task is proven, and the harness can go on from its own store.
    pub fn recovered(&mut self, task: &TaskId) {
        if matches!(self, Self::Blocked { task: blocked, .. } if blocked == task) {
            *self = Self::Idle;
        }
    }

    /// No further task. The one that runs is to be cancelled by the caller.
    pub fn close(&mut self) {
        *self = match std::mem::replace(self, Self::Closed) {
            Self::Busy(task) | Self::Closing(task) => Self::Closing(task),
            _ => Self::Closed,
        };
    }
}

/// Why an outcome blocks its context, if it does.
pub fn blocking(outcome: &Outcome, native: Option<&NativeSession>) -> Option<UnresolvedReason> {
    let Verdict::Unresolved { reason, .. } = &outcome.verdict else { return None };
    let recoverable = outcome.evidence.tree_empty && native.is_some_and(|native| native.resumable);
    (!recoverable).then_some(*reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{AgentUsage, CancelCause, Evidence, Proof};

    #[derive(Debug, Clone, Copy)]
    enum Input {
        Claim(u8),
        Settle(u8),
        Unresolved(u8),
        Recover(u8),
        Close,
    }

    const INPUTS: [Input; 9] = [
        Input::Claim(1),
        Input::Claim(2),
        Input::Settle(1),
        Input::Settle(2),
        Input::Unresolved(1),
        Input::Unresolved(2),
        Input::Recover(1),
        Input::Recover(2),
        Input::Close,
    ];

    fn task(number: u8) -> TaskId {
        format!("t{number}").parse().expect("an id")
    }

    fn explore(context: &Context, running: Option<u8>, uncertain: bool, closed: bool, depth: usize) {
        let session: SessionId = "s".parse().expect("an id");
        if depth == 0 {
            return;
        }
        for input in INPUTS {
            let (mut context, mut running, mut uncertain, mut closed) = (context.clone(), running, uncertain, closed);
            match input {
                Input::Claim(number) => {
                    let claimed = context.claim(&session, task(number)).is_ok();
                    assert_eq!(claimed, running.is_none() && !uncertain && !closed, "{context:?}");
                    running = if claimed { Some(number) } else { running };
                }
                Input::Settle(number) | Input::Unresolved(number) => {
                    let unresolved = matches!(input, Input::Unresolved(_));
                    context.settled(&task(number), unresolved.then_some(UnresolvedReason::ObservationLost));
                    if running == Some(number) {
                        running = None;
                        uncertain = unresolved && !closed;
                    }
                }
                Input::Recover(number) => {
                    if context == (Context::Blocked { task: task(number), reason: UnresolvedReason::ObservationLost }) {
                        uncertain = false;
                    }
                    context.recovered(&task(number));
                }
                Input::Close => {
                    context.close();
                    closed = true;
                    uncertain = false;
                }
            }
            explore(&context, running, uncertain, closed, depth - 1);
        }
    }

    #[test]
    fn one_task_at_a_time_and_none_after_an_unknown_end() {
        explore(&Context::Idle, None, false, false, 5);
    }

    #[test]
    fn a_close_waits_for_the_task_that_runs_and_for_no_other() {
        let mut context = Context::Busy(task(1));
        context.close();
        context.settled(&task(2), None);
        assert_eq!(context, Context::Closing(task(1)));
        context.close();
        assert_eq!(context, Context::Closing(task(1)));
        context.settled(&task(1), Some(UnresolvedReason::ObservationLost));
        assert_eq!(context, Context::Closed);
    }

    #[test]
    fn only_an_unknown_end_blocks_unless_the_harness_can_go_on_from_its_own_store() {
        let unknown = Verdict::Unresolved { reason: UnresolvedReason::PartialEvidence, known: "little".into() };
        let cancelled = Verdict::Cancelled { cause: CancelCause::Requested };
        let blocked = Context::Blocked { task: task(1), reason: UnresolvedReason::PartialEvidence };
        for (verdict, tree_empty, native, expected) in [
            (&unknown, false, None, &blocked),
            (&unknown, true, None, &blocked),
            (&unknown, true, Some(false), &blocked),
            (&unknown, false, Some(true), &blocked),
            (&unknown, true, Some(true), &Context::Idle),
            (&cancelled, false, None, &Context::Idle),
        ] {
            let native = native.map(|resumable| NativeSession { id: "n".parse().expect("an id"), resumable });
            let context = Context::after(task(1), &outcome(verdict, tree_empty), native.as_ref());
            assert_eq!(context, *expected, "{verdict:?}, empty: {tree_empty}, {native:?}");
        }
    }

    fn outcome(verdict: &Verdict, tree_empty: bool) -> Outcome {
        let evidence = Evidence { tree_empty, ..Evidence::of(Proof::Partial) };
        Outcome { verdict: verdict.clone(), evidence, output: None, usage: AgentUsage::UNKNOWN, session_usage: None }
    }
}
