//! One handle for every verb, whether the tree is in this process or in another.

mod embedded;
mod event_line;
mod remote;
mod server;
mod wire;

use async_trait::async_trait;
use ostler_supervisors::actors::{TaskAnswer, TreeRow};
use ostler_supervisors::contract::{
    CancelCause, Delegation, HarnessId, InteractionId, InteractionResponse, Position, SessionId, SessionSpec, TaskId,
};
use ostler_supervisors::ledger::TaskRow;

use crate::error::Failure;

pub(crate) use embedded::keeper_program;
pub use embedded::{Embedded, EmbeddedOptions};
pub use event_line::{EventLine, EventView};
pub use remote::Remote;
pub use server::serve;

/// Events as they come: envelopes, in order, without a gap.
#[async_trait(?Send)]
pub trait Events {
    /// The next ones that are there; empty when there are none now.
    ///
    /// # Errors
    ///
    /// [`Failure`] if they cannot be read.
    async fn next(&mut self) -> Result<Vec<EventLine>, Failure>;

    /// Waits for more. `false` if there will be none.
    async fn changed(&mut self) -> bool;
}

/// What a verb may ask of a tree.
#[async_trait(?Send)]
pub trait Door {
    /// Opens a session.
    ///
    /// # Errors
    ///
    /// [`Failure`].
    async fn open_session(&self, harness: HarnessId, spec: SessionSpec) -> Result<SessionId, Failure>;

    /// Delegates work under an id that the caller has made. The same again is the same task.
    ///
    /// # Errors
    ///
    /// [`Failure`]; nothing was accepted, unless it is [`Kind::Unconfirmed`](crate::error::Kind): then it can be asked
    /// again.
    async fn start_task(&self, session: &SessionId, task: &TaskId, delegation: Delegation) -> Result<(), Failure>;

    /// Waits for a verdict.
    ///
    /// # Errors
    ///
    /// [`Failure`].
    async fn wait(&self, task: &TaskId) -> Result<TaskRow, Failure>;

    /// Requests a cancel; a second one is by force.
    ///
    /// # Errors
    ///
    /// [`Failure`].
    async fn cancel(&self, task: &TaskId, cause: CancelCause) -> Result<(), Failure>;

    /// Answers a request.
    ///
    /// # Errors
    ///
    /// [`Failure`].
    async fn respond(
        &self,
        task: &TaskId,
        interaction: InteractionId,
        response: InteractionResponse,
    ) -> Result<TaskAnswer, Failure>;

    /// Closes a session for good.
    ///
    /// # Errors
    ///
    /// [`Failure`].
    async fn close_session(&self, session: &SessionId) -> Result<(), Failure>;

    /// What is loaded.
    ///
    /// # Errors
    ///
    /// [`Failure`].
    async fn tree(&self) -> Result<Vec<TreeRow>, Failure>;

    /// Reads a session's events.
    ///
    /// # Errors
    ///
    /// [`Failure`].
    async fn events(&self, session: &SessionId, from: Position) -> Result<Box<dyn Events>, Failure>;
}
