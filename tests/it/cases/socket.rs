//! The daemon's socket itself, where a command takes too long to hit an instant.

use ostler::door::{Door, Remote};
use ostler_supervisors::contract::{ApprovalPolicy, Delegation, SessionId, SessionSpec, TaskId};

use crate::support::shell::Shell;

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(future)
}

pub(crate) async fn door(shell: &Shell) -> Remote {
    Remote::connect(&shell.state().join("ostler.sock")).await.expect("the daemon listens")
}

pub(crate) async fn open_session(shell: &Shell, harness: &str) -> SessionId {
    let spec = SessionSpec { directory: shell.work(), model: None };
    door(shell).await.open_session(harness.parse().expect("an id"), spec).await.expect("opened")
}

pub(crate) fn delegation(prompt: &str) -> Delegation {
    Delegation { prompt: prompt.to_owned(), approval: ApprovalPolicy::Deny, model: None, timeout: None }
}

/// A task under a new id.
pub(crate) async fn delegate(door: &Remote, session: &SessionId, prompt: &str) -> TaskId {
    let task = TaskId::generate(0);
    door.start_task(session, &task, delegation(prompt)).await.expect("accepted");
    task
}

/// A task under a new id, whose questions these decide.
pub(crate) async fn delegate_with(
    door: &Remote,
    session: &SessionId,
    prompt: &str,
    approval: ApprovalPolicy,
) -> TaskId {
    let task = TaskId::generate(0);
    let delegation = Delegation { approval, ..delegation(prompt) };
    door.start_task(session, &task, delegation).await.expect("accepted");
    task
}
