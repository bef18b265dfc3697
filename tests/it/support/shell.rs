//! Ostler as a user has it: a state folder, a configuration file, commands.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::census::{census, found};
use super::kernel::{Marker, wait_until};
use super::programs;

/// Whether runtimes get a control group leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Containment {
    Descent,
    Leaf,
}

impl Containment {
    /// Those this machine can have.
    pub fn all() -> Vec<Self> {
        let leaf = ostler_keeper::usable_leaf_parent().map(|_| Self::Leaf);
        [Some(Self::Descent), leaf].into_iter().flatten().collect()
    }
}

/// One user's Ostler.
pub struct Shell {
    root: tempfile::TempDir,
    containment: Containment,
    pub marker: Marker,
    pub log: PathBuf,
}

impl Drop for Shell {
    fn drop(&mut self) {
        self.marker.sweep();
        Marker::of(self.path()).sweep();
    }
}

/// What a command printed, and how it ended.
#[derive(Debug)]
pub struct Done {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for Done {
    fn from(output: Output) -> Self {
        use std::os::unix::process::ExitStatusExt;
        Self {
            code: output.status.code().unwrap_or_else(|| -output.status.signal().unwrap_or(0)),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Done {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Shell {
    pub fn new() -> Self {
        Self::with(Containment::Descent, "")
    }

    /// With this containment, and more lines of configuration, in which `@MARK@` and `@LOG@` stand for this one's.
    pub fn with(containment: Containment, more: &str) -> Self {
        let root = tempfile::tempdir().expect("a folder");
        let (marker, log) = (Marker::new(), root.path().join("agent.log"));
        let more = more.replace("@MARK@", marker.text()).replace("@LOG@", &log.display().to_string());
        let groups = if containment == Containment::Leaf { "try" } else { "never" };
        let agent = programs::agent(&["lines"]);
        let config = format!(
            "control_groups = \"{groups}\"\norphan_grace = \"20s\"\n{more}\n\
             [harness.scripted]\ncommand = {agent:?}\n\
             environment = {{ MARK = {mark:?}, OSTLER_AGENT_LOG = {log:?}, OSTLER_AGENT_ROLE = \"play-agent\" }}\n\
             [harness.scripted.deadlines]\nterminate = \"200ms\"\nend_of_input = \"50ms\"\nstray = \"100ms\"\n\
             [harness.json]\nadapter = \"oneshot\"\ncommand = {json:?}\noutput = \"json_lines\"\n\
             environment = {{ MARK = {mark:?}, OSTLER_AGENT_LOG = {log:?}, OSTLER_AGENT_ROLE = \"play-agent\" }}\n\
             [harness.json.deadlines]\nterminate = \"200ms\"\nend_of_input = \"50ms\"\nstray = \"100ms\"\n\
             [harness.warm]\nadapter = \"codex\"\ncommand = {warm:?}\n\
             environment = {{ MARK = {mark:?}, OSTLER_AGENT_LOG = {log:?}, OSTLER_AGENT_ROLE = \"play-agent\" }}\n\
             [harness.warm.deadlines]\ninterrupt = \"2s\"\nterminate = \"200ms\"\nend_of_input = \"50ms\"\n\
             stray = \"100ms\"\n",
            warm = programs::agent(&["app-server"]),
            json = programs::agent(&["lines", "--json"]),
            mark = marker.text(),
            log = log.display().to_string(),
        );
        std::fs::write(root.path().join("ostler.toml"), config).expect("written");
        std::fs::create_dir(root.path().join("work")).expect("made");
        Self { root, containment, marker, log }
    }

    pub fn path(&self) -> &Path {
        self.root.path()
    }

    pub fn state(&self) -> PathBuf {
        self.path().join("state")
    }

    pub fn work(&self) -> PathBuf {
        self.path().join("work")
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(programs::ostler());
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"OSTLER_")) {
            command.env_remove(name);
        }
        command
            .args(arguments)
            .current_dir(self.work())
            .env("OSTLER_CONFIG", self.path().join("ostler.toml"))
            .env("OSTLER_STATE", self.state())
            .envs(self.memory())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// A machine that is busy with tests is what none of them is about, unless it says itself how busy it is.
    fn memory(&self) -> Option<(&'static str, &'static str)> {
        let config = std::fs::read_to_string(self.path().join("ostler.toml")).unwrap_or_default();
        (!config.contains("memory_source")).then_some(("OSTLER_LIMITS_MEMORY_PRESSURE", "100"))
    }

    pub fn ostler(&self, arguments: &[&str]) -> Done {
        self.command(arguments).output().expect("runs").into()
    }

    /// `ostler run --json` of a script.
    pub fn run(&self, script: &str) -> Done {
        self.ostler(&["run", "--harness", "scripted", "--json", script])
    }

    pub fn spawn(&self, arguments: &[&str]) -> Child {
        self.command(arguments).spawn().expect("runs")
    }

    /// Starts the daemon, and waits until it listens.
    pub fn serve(&self) -> Child {
        self.serve_with(&[])
    }

    /// The same, with more in its environment.
    pub fn serve_with(&self, environment: &[(&str, &str)]) -> Child {
        let said = self.path().join("daemon.log");
        let log = std::fs::File::options().create(true).append(true).open(&said).expect("writable");
        let mut command = self.command(&["serve"]);
        let mut child =
            command.envs(environment.iter().copied()).stdout(Stdio::null()).stderr(log).spawn().expect("runs");
        wait_until(Duration::from_secs(60), "the daemon listens", || {
            let socket = std::os::unix::net::UnixStream::connect(self.state().join("ostler.sock"));
            let state = child.try_wait();
            socket.map(|_| ()).map_err(|error| {
                let said = std::fs::read_to_string(&said).unwrap_or_default();
                let last: Vec<_> = said.lines().rev().take(20).collect();
                format!("{error}; it ended: {state:?}; its last words, newest first: {last:#?}")
            })
        });
        child
    }

    /// Ends a daemon as an operator does: it succeeds, and nothing is left.
    pub fn end(&self, mut daemon: Child) {
        signal(&daemon, nix::sys::signal::Signal::SIGTERM);
        assert!(daemon.wait().expect("ends").success());
        self.assert_nothing_left();
    }

    /// What the daemon that was started last says of itself, as Prometheus gets it.
    pub fn metrics(&self) -> String {
        use std::io::{Read, Write};
        // An earlier one listened elsewhere.
        let (mut stream, address) = wait_until(Duration::from_secs(20), "it says where it listens", || {
            let said = std::fs::read_to_string(self.path().join("daemon.log")).unwrap_or_default();
            let (_, rest) = said.rsplit_once(" and http://").ok_or("not yet")?;
            let address = rest.split_once('\n').ok_or("not whole")?.0;
            let stream = std::net::TcpStream::connect(address).map_err(|error| error.to_string())?;
            Ok((stream, address.to_owned()))
        });
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("asked");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answered");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        answer
    }

    /// Every task, newest first.
    pub fn tasks(&self) -> Vec<Value> {
        let listed = self.ostler(&["task", "list", "--json"]);
        assert_eq!(listed.code, 0, "{listed:?}");
        listed.json().as_array().expect("a list").clone()
    }

    /// The events of a session.
    pub fn events(&self, session: &str) -> Vec<Value> {
        let read = self.ostler(&["events", session]);
        assert_eq!(read.code, 0, "{read:?}");
        read.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// How many prompts the agent really received.
    pub fn received(&self) -> usize {
        std::fs::read_to_string(&self.log).unwrap_or_default().lines().count()
    }

    /// The leaves of its runtimes that are still there.
    fn leaves(&self) -> Vec<PathBuf> {
        let Some(parent) = ostler_keeper::usable_leaf_parent().filter(|_| self.containment == Containment::Leaf) else {
            return Vec::new();
        };
        let listed = self.ostler(&["session", "list", "--json"]);
        // Where nothing was run there is no ledger.
        let sessions = if listed.code == 0 { listed.json() } else { Value::Null };
        let ids = sessions.as_array().into_iter().flatten().map(|session| session["id"].as_str().expect("id"));
        let events = ids.flat_map(|id| self.events(id));
        let runtimes = events.filter_map(|event| Some(event["data"]["runtime_id"].as_str()?.to_owned()));
        runtimes.map(|id| parent.join(format!("ostler-{id}"))).filter(|leaf| leaf.exists()).collect()
    }

    /// Nothing of any runtime is left, counted by a separate process: no process, descriptor, socket, folder, leaf.
    pub fn assert_nothing_left(&self) {
        self.marker.assert_gone(Duration::from_secs(10));
        wait_until(Duration::from_secs(10), "nothing is left", || {
            // The marker is the runtimes'; Ostler's own processes and keepers carry the folder.
            let state = self.state();
            let markers = [self.marker.text(), state.to_str().expect("UTF-8")];
            let count = census(&markers, &state, "");
            let owners = std::fs::read_dir(self.state().join("owners")).into_iter().flatten().count();
            if found(&count).is_empty() && owners == 0 {
                return Ok(());
            }
            // What keeps a late keeper of a killed owner from starting is removed by a later command.
            self.tasks();
            Err(format!("{count}, {owners} owners"))
        });
        assert_eq!(self.leaves(), Vec::<PathBuf>::new());
    }
}

/// Sends a signal to a child.
pub fn signal(child: &Child, signal: nix::sys::signal::Signal) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(child.id() as i32), signal).expect("sent");
}

/// Positions rise by one from 1, each run's sequence too, and a run's terminal event is its last.
pub fn assert_whole(events: &[Value]) {
    let mut sequences: std::collections::HashMap<String, (u64, bool)> = std::collections::HashMap::new();
    for (index, event) in events.iter().enumerate() {
        assert_eq!(event["position"], index as u64 + 1, "{event}");
        let Some(run) = event["run_id"].as_str() else { continue };
        let (last, over) = sequences.entry(run.to_owned()).or_default();
        assert!(!*over, "an event after the terminal one: {event}");
        assert_eq!(event["sequence"], *last + 1, "{event}");
        *last += 1;
        *over = matches!(event["type"].as_str(), Some("run.completed" | "run.failed" | "run.cancelled"));
    }
}
