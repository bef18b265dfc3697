//! The tree in another process of this user, through its control socket.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use ostler_supervisors::actors::{TaskAnswer, TreeRow};
use ostler_supervisors::contract::{
    CancelCause, Delegation, HarnessId, InteractionId, InteractionResponse, Position, SessionId, SessionSpec, TaskId,
};
use ostler_supervisors::ledger::TaskRow;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;

use super::wire::{Line, Request};
use super::{Door, EventLine, Events};
use crate::error::{Failure, Kind};

/// A connection to make for each request.
#[derive(Debug, Clone)]
pub struct Remote {
    socket: PathBuf,
}

impl Remote {
    /// The daemon behind this socket, if one runs. Whoever else listens there is none: a daemon holds this lock.
    pub async fn daemon(socket: &Path, lock: &Path) -> Option<Self> {
        let remote = Self::connect(socket).await?;
        // Only now, so that the look itself keeps no daemon from taking it.
        std::fs::File::open(lock).is_ok_and(|file| file.try_lock_shared().is_err()).then_some(remote)
    }

    /// The tree behind this socket, if somebody listens who is of the same user.
    pub async fn connect(socket: &Path) -> Option<Self> {
        let remote = Self { socket: socket.to_owned() };
        open(socket).await.ok()?;
        Some(remote)
    }

    async fn lines(&self, request: &Request) -> Result<Lines<BufReader<UnixStream>>, Failure> {
        let gone = |error: std::io::Error| {
            Failure::new(Kind::HarnessUnavailable, format!("the running Ostler cannot be reached: {error}; try again"))
        };
        let mut stream = open(&self.socket).await.map_err(gone)?;
        let mut bytes = serde_json::to_vec(request).map_err(|error| internal(&error))?;
        bytes.push(b'\n');
        stream.write_all(&bytes).await.map_err(gone)?;
        Ok(BufReader::new(stream).lines())
    }

    async fn ask<T: DeserializeOwned>(&self, request: Request) -> Result<T, Failure> {
        let lost = |failure: Failure| match request.lost() {
            Some(unknown) if failure.kind == Kind::HarnessUnavailable => {
                Failure::new(Kind::Unconfirmed, format!("{failure}: {unknown}"))
            }
            _ => failure,
        };
        match next_line(&mut self.lines(&request).await?).await.map_err(lost)? {
            Line::Result(value) => serde_json::from_value(value).map_err(|error| internal(&error)),
            Line::Error(failure) => Err(failure),
            Line::Events(_) => Err(Failure::new(Kind::Internal, "the running Ostler answered something else")),
        }
    }
}

/// Connects by a short name, since a path of a state folder may be longer than a socket's can be.
async fn open(socket: &Path) -> std::io::Result<UnixStream> {
    use std::os::fd::AsRawFd;
    let folder = std::fs::File::open(socket.parent().unwrap_or(Path::new("/")))?;
    let name = socket.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let stream = UnixStream::connect(format!("/proc/self/fd/{}/{name}", folder.as_raw_fd())).await?;
    match stream.peer_cred()?.uid() == nix::unistd::getuid().as_raw() {
        true => Ok(stream),
        false => Err(std::io::Error::new(std::io::ErrorKind::PermissionDenied, "another user listens there")),
    }
}

fn internal(error: &dyn std::error::Error) -> Failure {
    Failure::new(Kind::Internal, format!("the running Ostler speaks another version: {error}"))
}

async fn next_line(lines: &mut Lines<BufReader<UnixStream>>) -> Result<Line, Failure> {
    let gone = || Failure::new(Kind::HarnessUnavailable, "the running Ostler ended while it was asked");
    let line = lines.next_line().await.map_err(|_| gone())?.ok_or_else(gone)?;
    serde_json::from_str(&line).map_err(|error| internal(&error))
}

#[async_trait(?Send)]
impl Door for Remote {
    async fn open_session(&self, harness: HarnessId, spec: SessionSpec) -> Result<SessionId, Failure> {
        self.ask(Request::OpenSession { harness, spec }).await
    }

    async fn start_task(&self, session: &SessionId, task: &TaskId, delegation: Delegation) -> Result<(), Failure> {
        self.ask(Request::StartTask { session: session.clone(), task: task.clone(), delegation }).await
    }

    async fn wait(&self, task: &TaskId) -> Result<TaskRow, Failure> {
        self.ask(Request::Wait { task: task.clone() }).await
    }

    async fn cancel(&self, task: &TaskId, cause: CancelCause) -> Result<(), Failure> {
        self.ask(Request::Cancel { task: task.clone(), cause }).await
    }

    async fn respond(
        &self,
        task: &TaskId,
        interaction: InteractionId,
        response: InteractionResponse,
    ) -> Result<TaskAnswer, Failure> {
        self.ask(Request::Respond { task: task.clone(), interaction, response }).await
    }

    async fn close_session(&self, session: &SessionId) -> Result<(), Failure> {
        self.ask(Request::CloseSession { session: session.clone() }).await
    }

    async fn tree(&self) -> Result<Vec<TreeRow>, Failure> {
        self.ask(Request::Tree).await
    }

    async fn events(&self, session: &SessionId, from: Position) -> Result<Box<dyn Events>, Failure> {
        let lines = self.lines(&Request::Read { session: session.clone(), from: from.0 }).await?;
        Ok(Box::new(RemoteEvents { lines, waiting: None }))
    }
}

struct RemoteEvents {
    lines: Lines<BufReader<UnixStream>>,
    waiting: Option<Vec<EventLine>>,
}

#[async_trait(?Send)]
impl Events for RemoteEvents {
    async fn next(&mut self) -> Result<Vec<EventLine>, Failure> {
        if let Some(events) = self.waiting.take() {
            return Ok(events);
        }
        match next_line(&mut self.lines).await? {
            Line::Events(events) => Ok(events),
            Line::Error(failure) => Err(failure),
            Line::Result(_) => Ok(Vec::new()),
        }
    }

    async fn changed(&mut self) -> bool {
        match next_line(&mut self.lines).await {
            Ok(Line::Events(events)) => {
                self.waiting = Some(events);
                true
            }
            _ => false,
        }
    }
}
