//! The other end of a control socket.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use actix::Arbiter;
use ostler_supervisors::contract::{Position, SessionId};
use serde::Serialize;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Take};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};

use super::wire::{Line, MAX_REQUEST, Request};
use super::{Door, Embedded, Events};
use crate::error::{Failure, Kind};

/// Listens until the process ends; every connection is of the same user, or it is closed.
///
/// # Errors
///
/// If the socket cannot be made. One that an earlier process left is replaced.
pub fn serve(socket: &Path, door: Embedded) -> io::Result<()> {
    // The caller holds the lock that says nobody else listens there.
    match std::fs::remove_file(socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = bind(socket)?;
    std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o600))?;
    // Rendering what readers get is work, and this thread has the tree and the signals.
    let connections = Arbiter::new();
    tokio::task::spawn_local(async move {
        loop {
            match listener.accept().await.and_then(|(stream, _)| stream.into_std()) {
                Ok(stream) => {
                    let door = door.clone();
                    connections.spawn_fn(move || drop(tokio::task::spawn_local(connection(stream, door))));
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be taken");
                    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
                }
            }
        }
    });
    Ok(())
}

/// Binds by a short name, since a path of a state folder may be longer than a socket's can be.
fn bind(socket: &Path) -> io::Result<UnixListener> {
    use std::os::fd::AsRawFd;
    let folder = std::fs::File::open(socket.parent().unwrap_or(Path::new("/")))?;
    let name = socket.file_name().unwrap_or_default().to_string_lossy().into_owned();
    UnixListener::bind(format!("/proc/self/fd/{}/{name}", folder.as_raw_fd()))
}

async fn connection(stream: std::os::unix::net::UnixStream, door: Embedded) {
    let stream = match UnixStream::from_std(stream) {
        Ok(stream) => stream,
        Err(error) => return tracing::warn!(%error, "a connection could not be taken"),
    };
    let own = nix::unistd::getuid().as_raw();
    if stream.peer_cred().is_ok_and(|peer| peer.uid() != own) {
        return;
    }
    let (read, mut write) = stream.into_split();
    let mut line = String::new();
    let mut reader = BufReader::new(read.take(MAX_REQUEST));
    if reader.read_line(&mut line).await.is_err() {
        return;
    }
    let answered = match serde_json::from_str::<Request>(&line) {
        Ok(Request::Read { session, from }) => {
            tokio::select! {
                read = read_events(&door, &session, from, &mut write) => read,
                () = gone(&mut reader) => return,
            }
        }
        Ok(Request::Wait { task }) => {
            tokio::select! {
                row = door.wait(&task) => send(&mut write, &value(row).map_or_else(Line::Error, Line::Result)).await,
                () = gone(&mut reader) => return,
            }
        }
        Ok(request) => {
            let _answering = door.answering.read().await;
            let line = answer(&door, request).await;
            send(&mut write, &line).await
        }
        Err(error) => {
            let text = format!("the request is not understood: {error}");
            send(&mut write, &Line::Error(Failure::new(Kind::InvalidInput, text))).await
        }
    };
    if let Err(error) = answered {
        tracing::debug!(%error, "a client went before its answer");
    }
}

/// The client closed its connection. One that only waits would not be missed before there is something to tell it.
async fn gone(reader: &mut BufReader<Take<OwnedReadHalf>>) {
    let mut byte = [0];
    while reader.read(&mut byte).await.is_ok_and(|count| count > 0) {}
}

async fn answer(door: &Embedded, request: Request) -> Line {
    let result = match request {
        Request::OpenSession { harness, spec } => value(door.open_session(harness, spec).await),
        Request::CloseSession { session } => value(door.close_session(&session).await),
        Request::StartTask { session, task, delegation } => value(door.start_task(&session, &task, delegation).await),
        Request::Cancel { task, cause } => value(door.cancel(&task, cause).await),
        Request::Respond { task, interaction, response } => value(door.respond(&task, interaction, response).await),
        Request::Tree => value(door.tree().await),
        Request::Read { .. } | Request::Wait { .. } => Ok(Value::Null),
    };
    result.map_or_else(Line::Error, Line::Result)
}

fn value<T: Serialize>(result: Result<T, Failure>) -> Result<Value, Failure> {
    serde_json::to_value(result?).map_err(|error| Failure::new(Kind::Internal, error.to_string()))
}

async fn read_events(door: &Embedded, session: &SessionId, from: u64, write: &mut OwnedWriteHalf) -> io::Result<()> {
    let mut events: Box<dyn Events> = match door.events(session, Position(from)).await {
        Ok(events) => events,
        Err(failure) => return send(write, &Line::Error(failure)).await,
    };
    loop {
        match events.next().await {
            Ok(found) => {
                let wait = found.is_empty();
                send(write, &Line::Events(found)).await?;
                if wait {
                    events.changed().await;
                }
            }
            Err(failure) => return send(write, &Line::Error(failure)).await,
        }
    }
}

async fn send(write: &mut OwnedWriteHalf, line: &Line) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(line)?;
    bytes.push(b'\n');
    write.write_all(&bytes).await
}
