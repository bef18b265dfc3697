//! An owner of a keeper that is not Ostler: blocking, and nothing but the protocol.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ostler_keeper::ladder::{Ladder, Rung};
use ostler_keeper::{Auth, Open, Order, OrphanPolicy, Report, State, Stream, WindowSize, wire};

use super::kernel::Marker;
use super::programs;

/// How long any answer may take before a scenario fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// One runtime as a scenario wants it.
pub struct Recipe {
    pub open: Open,
    pub marker: Marker,
    pub root: tempfile::TempDir,
}

impl Recipe {
    /// The scripted agent obeying this script.
    pub fn script(script: &str) -> Self {
        Self::command(programs::agent(&["lines", script]))
    }

    /// Any command.
    pub fn command(command: Vec<OsString>) -> Self {
        let root = tempfile::tempdir().expect("a folder");
        let marker = Marker::new();
        let inherited = ["PATH", "HOME"].map(|name| format!("{name}={}", std::env::var(name).unwrap_or_default()));
        let mut environment: Vec<OsString> = inherited.into_iter().map(Into::into).collect();
        environment.push(format!("MARK={}", marker.text()).into());
        environment.push("OSTLER_AGENT_ROLE=play-agent".into());
        let open = Open {
            folder: root.path().join("r"),
            runtime: marker.text().to_owned(),
            owner: "test".into(),
            secret: b"secret".to_vec(),
            command,
            environment,
            directory: root.path().to_owned(),
            leaf_parent: None,
            stdout_retention: 65 << 20,
            stderr_retention: 256 << 10,
            input_capacity: 64 << 20,
            oom_score_adj: 500,
            umask: 0o022,
            orphan: OrphanPolicy { grace_ms: 60_000, ladder: quick() },
            on_leader_exit: Some(quick()),
            terminal: None,
            limits: Vec::new(),
        };
        Self { open, marker, root }
    }

    pub fn with_leaf(mut self, parent: Option<PathBuf>) -> Self {
        self.open.leaf_parent = parent;
        self
    }

    /// The agent gets a terminal of 24 lines of 80 characters.
    pub fn on_terminal(mut self) -> Self {
        self.open.terminal = Some(WindowSize { rows: 24, columns: 80 });
        self
    }

    pub fn folder(&self) -> PathBuf {
        self.open.folder.clone()
    }

    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// Starts a keeper and opens the runtime, reading both streams from their start.
    pub fn open(&self) -> Client {
        let mut client = Client::spare();
        client.hello();
        client.send(&Order::Open(Box::new(self.open.clone())));
        client.read_from(0);
        client
    }
}

/// A ladder for careless processes.
pub fn quick() -> Ladder {
    Ladder::new([
        (Rung::EndOfInput, Duration::from_millis(20)),
        (Rung::Terminate, Duration::from_millis(100)),
        (Rung::Kill, Duration::from_secs(5)),
    ])
}

/// The owner's end of one keeper.
pub struct Client {
    pub stream: UnixStream,
    pub process: Option<Child>,
    buffer: Vec<u8>,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    seen: Vec<Report>,
}

impl Client {
    /// A keeper without orders.
    pub fn spare() -> Self {
        Self::spare_by(Command::new(programs::keeper()))
    }

    /// A keeper without orders, started by this command.
    pub fn spare_by(mut command: Command) -> Self {
        let (own, theirs) = UnixStream::pair().expect("a socket pair");
        let process = command
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the keeper starts");
        Self::on(own, Some(process))
    }

    fn on(stream: UnixStream, process: Option<Child>) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        Self { stream, process, buffer: Vec::new(), stdout: Vec::new(), stderr: Vec::new(), seen: Vec::new() }
    }

    /// Connects to a keeper through its folder; `None` while it does not listen.
    pub fn connect(folder: &Path) -> Option<Self> {
        let directory = std::fs::File::open(folder).ok()?;
        let path = format!("/proc/self/fd/{}/s", std::os::fd::AsRawFd::as_raw_fd(&directory));
        Some(Self::on(UnixStream::connect(path).ok()?, None))
    }

    /// Connects, shows the secret, and returns the state it was told.
    pub fn attach(folder: &Path, secret: &[u8]) -> (Self, State) {
        let mut client = Self::connect(folder).expect("the keeper listens");
        client.send(&Order::Attach { auth: Auth::CURRENT, secret: secret.to_vec() });
        client.until("welcome", |report| matches!(report, Report::Welcome { .. }).then_some(()));
        let state = client.until("state", |report| match report {
            Report::State(state) => Some(*state.clone()),
            _ => None,
        });
        (client, state)
    }

    pub fn hello(&mut self) {
        self.send(&Order::Hello(Auth::CURRENT));
        self.until("welcome", |report| matches!(report, Report::Welcome { .. }).then_some(()));
    }

    pub fn read_from(&mut self, offset: u64) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            self.send(&Order::Read { stream, from: offset });
        }
    }

    pub fn send(&mut self, order: &Order) {
        match self.stream.write_all(&order.encode()) {
            // A keeper that has said its last word does not read; the word is still to be heard.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
            written => written.expect("the keeper reads"),
        }
    }

    pub fn input(&mut self, number: u64, bytes: &[u8]) {
        self.send(&Order::Input { number, bytes: bytes.to_vec() });
    }

    /// The next report; `None` at the end of the connection.
    pub fn next(&mut self) -> Option<Report> {
        loop {
            if let Some(frame) = wire::cut(&self.buffer).expect("frames") {
                let report = Report::decode(&frame).expect("a known report");
                let size = frame.size;
                self.buffer.drain(..size);
                return Some(report);
            }
            let mut piece = vec![0; 256 * 1024];
            match self.stream.read(&mut piece) {
                Ok(0) => return None,
                Ok(count) => self.buffer.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("no report within {PATIENCE:?}: {error}; seen {:?}", self.seen),
            }
        }
    }

    /// Reads reports until one satisfies; output is gathered and acknowledged on the way.
    pub fn until<T>(&mut self, what: &str, mut wanted: impl FnMut(&Report) -> Option<T>) -> T {
        let deadline = Instant::now() + 3 * PATIENCE;
        loop {
            assert!(Instant::now() < deadline, "no {what}; seen {:?}", self.seen);
            let Some(report) = self.next() else { panic!("the keeper left before {what}; seen {:?}", self.seen) };
            self.gather(&report);
            if let Some(value) = wanted(&report) {
                return value;
            }
        }
    }

    /// A report that may have been seen already.
    pub fn once<T>(&mut self, what: &str, wanted: impl Fn(&Report) -> Option<T>) -> T {
        match self.seen.iter().find_map(&wanted) {
            Some(value) => value,
            None => self.until(what, wanted),
        }
    }

    /// The length of a stream that was read to its end.
    pub fn ended(&mut self, wanted: Stream) -> u64 {
        self.once("end of output", |report| match report {
            Report::OutputEnd { stream, offset } if *stream == wanted => Some(*offset),
            _ => None,
        })
    }

    fn gather(&mut self, report: &Report) {
        match report {
            Report::Output { stream: Stream::Stdout, offset, bytes } => {
                self.stdout.extend_from_slice(bytes);
                self.send(&Order::Ack { stream: Stream::Stdout, offset: offset + bytes.len() as u64 });
            }
            Report::Output { bytes, .. } => self.stderr.extend_from_slice(bytes),
            other => self.seen.push(other.clone()),
        }
    }

    pub fn opened(&mut self) -> i32 {
        self.once("opened", |report| match report {
            Report::Opened { pid, .. } => Some(*pid),
            Report::OpenFailed { step, errno, text } => panic!("open failed at {step}: {errno} {text}"),
            _ => None,
        })
    }

    /// Waits for this text on stdout.
    pub fn heard(&mut self, text: &str) {
        while !String::from_utf8_lossy(&self.stdout).contains(text) {
            self.until("output", |report| {
                matches!(report, Report::Output { .. } | Report::OutputEnd { .. }).then_some(())
            });
        }
    }

    /// How the leader ended is told before the tree is said to be empty.
    pub fn emptied(&mut self) -> ostler_keeper::Emptiness {
        let emptiness = self.once("emptied", |report| match report {
            Report::Emptied(emptiness) => Some(*emptiness),
            Report::Leaked(processes) => panic!("leaked {processes:?}"),
            _ => None,
        });
        let told = self.seen.iter().any(|report| matches!(report, Report::Exited(_)));
        // A later owner was told in the state.
        assert!(told || self.process.is_none(), "the exit is missing; seen {:?}", self.seen);
        emptiness
    }

    pub fn exited(&mut self) -> ostler_keeper::Exit {
        self.once("exited", |report| match report {
            Report::Exited(exit) => Some(*exit),
            _ => None,
        })
    }

    /// Releases the empty runtime and waits for the keeper's end.
    pub fn release(mut self) {
        self.send(&Order::Release);
        while self.next().is_some() {}
        if let Some(mut process) = self.process.take() {
            assert!(process.wait().expect("the keeper ends").success());
        }
    }

    /// Stops by a ladder, and releases.
    pub fn close(mut self, ladder: Ladder) {
        self.send(&Order::Stop(ladder));
        self.emptied();
        self.release();
    }
}
