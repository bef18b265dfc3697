//! The daemon's end of a keeper: orders in, reports out, over its socket.
//!
//! Reading is gated: output bytes take permits from a [`Window`], and whoever made facts of them gives the permits
//! back. So a flood waits in the keeper, and behind it in the agent, and never in this process.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};
use ostler_keeper::folder::SOCKET;
use ostler_keeper::{Auth, Order, RefusalCode, Report, State, wire};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc::error::SendError;
use tokio::sync::{Semaphore, mpsc, watch};

/// Output bytes that may be on their way from one keeper at once. What is on its way when an agent is stopped has to be
/// stored before its verdict.
const WINDOW: usize = 1 << 20;
/// Output bytes that an actor takes in one go: what that costs is what its neighbours on the same thread wait.
const PIECE: usize = 4 * 1024;
/// Reports that may wait for the runtime's actor, which takes them all in one turn.
const REPORTS: usize = 4;
/// Orders that may wait for the socket. Acknowledgements are joined and messages are few, so it is never full unless
/// the keeper has stopped reading.
const ORDERS: usize = 1024;
/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// How the keeper's program is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeeperProgram {
    /// The program.
    pub program: PathBuf,
    /// Its arguments; no order is among them.
    pub arguments: Vec<String>,
    /// The soft limit of open files that keepers and their agents get, where that of this process is not meant for them.
    pub open_files: Option<u64>,
}

/// Why a keeper cannot be spoken to.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The program did not start.
    #[error("the keeper could not be started")]
    Spawn(#[source] io::Error),
    /// Nobody listens in the folder.
    #[error("no keeper listens")]
    Connect(#[source] io::Error),
    /// The connection broke.
    #[error("the connection to the keeper broke")]
    Broken(#[source] io::Error),
    /// It did not answer in time.
    #[error("the keeper did not answer in time")]
    Silent,
    /// It refused.
    #[error("the keeper refused ({code}): {text}")]
    Refused {
        /// Why.
        code: RefusalCode,
        /// Why, in its words.
        text: String,
    },
    /// What it said is not the protocol.
    #[error("the keeper's answer is malformed")]
    Protocol(#[source] wire::WireError),
}

/// Output bytes on their way: taken by the reader, given back by whoever is done with them.
#[derive(Debug, Clone)]
pub struct Window(Arc<Semaphore>);

impl Window {
    fn new() -> Self {
        Self(Arc::new(Semaphore::new(WINDOW)))
    }

    /// Gives back room for this many bytes.
    pub fn give(&self, bytes: usize) {
        self.0.add_permits(bytes);
    }

    async fn take(&self, bytes: usize) {
        // Closed only when every reader is gone.
        if let Ok(permits) = self.0.acquire_many(bytes.min(WINDOW) as u32).await {
            permits.forget();
        }
    }
}

/// Starts keepers, and knows when those that it started are gone. Clones know of the same ones.
#[derive(Debug, Clone)]
pub struct Keepers {
    program: KeeperProgram,
    /// Each keeper that is not reaped has a receiver.
    living: watch::Sender<()>,
}

impl Keepers {
    /// Those of this program; none is started yet.
    pub fn new(program: KeeperProgram) -> Self {
        Self { program, living: watch::Sender::new(()) }
    }

    /// Starts a keeper. It owns nothing before it is told to open.
    ///
    /// # Errors
    ///
    /// [`LinkError::Spawn`], or what the handshake says.
    ///
    /// # Cancel safety
    ///
    /// A dropped future ends the keeper: its connection is closed before it owned anything.
    pub async fn start(&self) -> Result<Spare, LinkError> {
        Spare::start(&self.program, self.living.subscribe()).await
    }

    /// Returns when every keeper that was started is reaped: the kernel has no process of it any more. One that waits,
    /// or still owns something, is waited for without end.
    ///
    /// # Cancel safety
    ///
    /// A dropped future changes nothing.
    pub async fn gone(&self) {
        self.living.closed().await;
    }
}

/// A keeper that owns nothing yet. Dropped, its connection closes and it goes.
#[derive(Debug)]
pub struct Spare {
    stream: std::os::unix::net::UnixStream,
    buffer: Vec<u8>,
}

impl Spare {
    async fn start(program: &KeeperProgram, living: watch::Receiver<()>) -> Result<Self, LinkError> {
        let (own, theirs) = std::os::unix::net::UnixStream::pair().map_err(LinkError::Spawn)?;
        let mut child = tokio::process::Command::new(&program.program)
            .args(&program.arguments)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(false)
            .spawn()
            .map_err(LinkError::Spawn)?;
        if let (Some(open_files), Some(pid)) = (program.open_files, child.id()) {
            // Before it is told anything: what it starts inherits it.
            limit_open_files(pid, open_files).map_err(LinkError::Spawn)?;
        }
        // Reaps it whenever it ends; everything else about its end is told by the connection.
        tokio::spawn(async move {
            let _reaped = child.wait().await;
            drop(living);
        });
        own.set_nonblocking(true).map_err(LinkError::Spawn)?;
        let mut stream = UnixStream::from_std(own).map_err(LinkError::Spawn)?;
        let mut buffer = Vec::new();
        tell(&mut stream, &Order::Hello(Auth::CURRENT)).await?;
        welcome(&mut stream, &mut buffer).await?;
        Ok(Self { stream: stream.into_std().map_err(LinkError::Spawn)?, buffer })
    }

    /// Whether it still waits. One that was killed meanwhile has closed its connection.
    pub fn is_waiting(&self) -> bool {
        let mut byte = [0];
        let peeked = recv(self.stream.as_raw_fd(), &mut byte, MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT);
        peeked == Err(Errno::EAGAIN)
    }
}

fn limit_open_files(pid: u32, soft: u64) -> io::Result<()> {
    let limit = Rlimit { current: Some(soft), ..getrlimit(Resource::Nofile) };
    prlimit(Pid::from_raw(pid as i32), Resource::Nofile, limit)?;
    Ok(())
}

/// A connection to one keeper.
#[derive(Debug)]
pub struct Link {
    orders: mpsc::Sender<Order>,
    /// Room for output; give back what was taken.
    pub window: Window,
}

/// What a keeper reports, in its order; ends when the connection does.
pub type Reports = mpsc::Receiver<Report>;

impl Link {
    /// The connection to a keeper that waits for its order to open.
    ///
    /// # Errors
    ///
    /// [`LinkError::Spawn`] if this process cannot watch one more connection.
    pub fn of(spare: Spare) -> Result<(Self, Reports), LinkError> {
        let stream = UnixStream::from_std(spare.stream).map_err(LinkError::Spawn)?;
        Ok(Self::over(stream, spare.buffer))
    }

    /// Connects to the keeper of a folder, and says what it knows. From then on the older connection is closed.
    ///
    /// # Errors
    ///
    /// [`LinkError::Connect`] if nobody listens; else what the handshake says.
    pub async fn attach(folder: &Path, secret: &[u8]) -> Result<(Self, Reports, State), LinkError> {
        let mut stream = connect(folder).await.map_err(LinkError::Connect)?;
        let mut buffer = Vec::new();
        tell(&mut stream, &Order::Attach { auth: Auth::CURRENT, secret: secret.to_vec() }).await?;
        welcome(&mut stream, &mut buffer).await?;
        match answer(&mut stream, &mut buffer).await? {
            Report::State(state) => {
                let (link, reports) = Self::over(stream, buffer);
                Ok((link, reports, *state))
            }
            other => Err(LinkError::Protocol(wire::WireError::Kind(other.kind()))),
        }
    }

    fn over(stream: UnixStream, buffer: Vec<u8>) -> (Self, Reports) {
        let (read, write) = stream.into_split();
        let (orders, order_queue) = mpsc::channel(ORDERS);
        let (report_queue, reports) = mpsc::channel(REPORTS);
        let window = Window::new();
        tokio::spawn(write_orders(write, order_queue));
        tokio::spawn(read_reports(read, buffer, report_queue, window.clone()));
        (Self { orders, window }, reports)
    }

    /// Sends an order. `false` if the keeper no longer takes any: its reports then end too.
    pub fn order(&self, order: Order) -> bool {
        self.orders.try_send(order).is_ok()
    }
}

/// Connects by a short name, since a path of a state folder may be longer than a socket's can be.
async fn connect(folder: &Path) -> io::Result<UnixStream> {
    let directory = std::fs::File::open(folder)?;
    UnixStream::connect(format!("/proc/self/fd/{}/{SOCKET}", directory.as_raw_fd())).await
}

async fn tell(stream: &mut UnixStream, order: &Order) -> Result<(), LinkError> {
    stream.write_all(&order.encode()).await.map_err(LinkError::Broken)
}

async fn welcome(stream: &mut UnixStream, buffer: &mut Vec<u8>) -> Result<(), LinkError> {
    match answer(stream, buffer).await? {
        Report::Welcome { .. } => Ok(()),
        Report::Refused { code, text, .. } => Err(LinkError::Refused { code, text }),
        other => Err(LinkError::Protocol(wire::WireError::Kind(other.kind()))),
    }
}

async fn answer(stream: &mut UnixStream, buffer: &mut Vec<u8>) -> Result<Report, LinkError> {
    let read = async {
        loop {
            if let Some(report) = cut(buffer)? {
                return Ok(report);
            }
            if stream.read_buf(buffer).await.map_err(LinkError::Broken)? == 0 {
                return Err(LinkError::Broken(io::ErrorKind::UnexpectedEof.into()));
            }
        }
    };
    tokio::time::timeout(HANDSHAKE, read).await.unwrap_or(Err(LinkError::Silent))
}

/// The first whole report of a buffer; reports of a later keeper are skipped.
fn cut(buffer: &mut Vec<u8>) -> Result<Option<Report>, LinkError> {
    while let Some(frame) = wire::cut(buffer).map_err(LinkError::Protocol)? {
        let (size, report) = (frame.size, Report::decode(&frame));
        buffer.drain(..size);
        match report {
            Err(wire::WireError::Kind(_)) => {}
            other => return other.map(Some).map_err(LinkError::Protocol),
        }
    }
    Ok(None)
}

async fn write_orders(mut stream: OwnedWriteHalf, mut orders: mpsc::Receiver<Order>) {
    let mut bytes = Vec::new();
    while let Some(order) = orders.recv().await {
        bytes.extend_from_slice(&order.encode());
        while let Ok(order) = orders.try_recv() {
            bytes.extend_from_slice(&order.encode());
        }
        if stream.write_all(&bytes).await.is_err() {
            return;
        }
        bytes.clear();
        bytes.shrink_to(64 * 1024);
    }
}

async fn read_reports(mut stream: OwnedReadHalf, buffer: Vec<u8>, reports: mpsc::Sender<Report>, window: Window) {
    let mut frames = Frames { bytes: buffer, used: 0 };
    loop {
        while let Some(report) = frames.next() {
            if hand_on(report, &reports, &window).await.is_err() {
                return;
            }
        }
        frames.compact();
        match stream.read_buf(&mut frames.bytes).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

/// Gives a report to the runtime's actor, output in pieces. An error says that the actor is gone.
async fn hand_on(report: Report, reports: &mpsc::Sender<Report>, window: &Window) -> Result<(), SendError<Report>> {
    let Report::Output { stream, mut offset, bytes } = report else {
        return reports.send(report).await;
    };
    for piece in bytes.chunks(PIECE) {
        window.take(piece.len()).await;
        reports.send(Report::Output { stream, offset, bytes: piece.to_vec() }).await?;
        offset += piece.len() as u64;
    }
    Ok(())
}

/// Frames cut without moving the rest each time.
struct Frames {
    bytes: Vec<u8>,
    used: usize,
}

impl Frames {
    fn next(&mut self) -> Option<Report> {
        loop {
            let frame = wire::cut(&self.bytes[self.used..]).ok().flatten()?;
            let report = Report::decode(&frame);
            self.used += frame.size;
            match report {
                Ok(report) => return Some(report),
                Err(error) => tracing::debug!(%error, "a report of another version was skipped"),
            }
        }
    }

    fn compact(&mut self) {
        self.bytes.drain(..self.used);
        self.used = 0;
        if self.bytes.capacity() > 1 << 20 && self.bytes.len() < 64 * 1024 {
            self.bytes.shrink_to(64 * 1024);
        }
        self.bytes.reserve(64 * 1024);
    }
}
