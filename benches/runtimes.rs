//! What a supervised runtime costs, against a bare process of the same program in the same run.
//!
//! `cargo bench --bench runtimes`. It starts `ostler serve` in a folder of its own and asks it as a client does:
//! - open: from the request to the stored verdict of a task that says one word, against spawn to exit of the bare agent;
//! - memory: proportional set size of daemon and keepers, for each of 200 live runtimes, agents apart;
//! - events: from the agent's pipe to the durable row to a reader, per second of daemon's and keepers' time, at 1 and at
//!   500 sessions, beside the raw group commit of `--bench ledger`.
#![expect(clippy::expect_used, reason = "a benchmark that cannot run has no figures")]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ostler::door::{Door, Events, Remote};
use ostler_supervisors::contract::{ApprovalPolicy, CancelCause, Delegation, Position, SessionId, SessionSpec, TaskId};

const OSTLER: &str = env!("CARGO_BIN_EXE_ostler");

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let folder = tempfile::tempdir_in(".").expect("a folder");
    let root = folder.path().canonicalize().expect("a path");
    let daemon = Daemon::start(&root).await;
    open(&daemon).await;
    memory(&daemon).await;
    events(&daemon, 1, 1_000_000).await;
    events(&daemon, 500, 2_000).await;
    daemon.end();
}

/// A daemon of this benchmark's own.
struct Daemon {
    child: Child,
    door: Remote,
    spec: SessionSpec,
}

impl Daemon {
    async fn start(root: &Path) -> Self {
        let config = format!(
            "[limits]\nmax_live_runtimes = 600\n[harness.bench]\nadapter = \"oneshot\"\n\
             command = [{OSTLER:?}, \"play-agent\", \"lines\", \"--json\"]\noutput = \"json_lines\"\n"
        );
        std::fs::write(root.join("ostler.toml"), config).expect("written");
        let child = Command::new(OSTLER)
            .arg("serve")
            .env("OSTLER_CONFIG", root.join("ostler.toml"))
            .env("OSTLER_STATE", root.join("state"))
            .stderr(Stdio::null())
            .spawn()
            .expect("runs");
        let socket = root.join("state/ostler.sock");
        let until = Instant::now() + Duration::from_secs(20);
        let door = loop {
            match Remote::connect(&socket).await {
                Some(door) => break door,
                None if Instant::now() > until => panic!("the daemon does not listen"),
                None => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        };
        Self { child, door, spec: SessionSpec { directory: root.to_owned(), model: None } }
    }

    async fn delegate(&self, script: &str) -> (SessionId, TaskId) {
        let harness = "bench".parse().expect("an id");
        let session = self.door.open_session(harness, self.spec.clone()).await.expect("opened");
        let delegation = Delegation { prompt: script.to_owned(), approval: ApprovalPolicy::Deny, timeout: None };
        let task = self.door.start_task(&session, delegation).await.expect("accepted");
        (session, task)
    }

    async fn end_all(&self, tasks: Vec<(SessionId, TaskId)>) {
        for (_, task) in &tasks {
            self.door.cancel(task, CancelCause::Requested).await.expect("cancelled");
        }
        for (_, task) in &tasks {
            self.door.wait(task).await.expect("settled");
        }
    }

    /// The daemon, and every keeper below it, whoever their parent is by now.
    fn processes(&self) -> Vec<i32> {
        let names = std::fs::read_dir("/proc").expect("/proc").flatten();
        let pids = names.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let state = self.spec.directory.join("state").display().to_string();
        let is_keeper = |pid: &i32| {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            name.trim() == "ostler-keeper" && String::from_utf8_lossy(&environment).contains(&state)
        };
        pids.filter(is_keeper).chain([self.child.id() as i32]).collect()
    }

    fn end(mut self) {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.child.id() as i32), nix::sys::signal::SIGTERM)
            .expect("sent");
        self.child.wait().expect("ends");
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

async fn open(daemon: &Daemon) {
    let (mut bare, mut own) = (Vec::new(), Vec::new());
    for _ in 0..50 {
        let start = Instant::now();
        let output = Command::new(OSTLER).args(["play-agent", "lines", "--json", "say hi"]).output().expect("runs");
        assert!(output.status.success());
        bare.push(start.elapsed());
        let start = Instant::now();
        let (_, task) = daemon.delegate("say hi").await;
        daemon.door.wait(&task).await.expect("settled");
        own.push(start.elapsed());
    }
    let (bare, own) = (median(bare), median(own));
    let ratio = own.as_secs_f64() / bare.as_secs_f64();
    println!("open to verdict: {own:.2?}, bare spawn to exit {bare:.2?}, ratio {ratio:.2} (cold keeper; median of 50)");
}

async fn memory(daemon: &Daemon) {
    let before = pss_kib(&daemon.processes());
    let mut tasks = Vec::new();
    for _ in 0..200 {
        tasks.push(daemon.delegate("say up ;; hang").await);
    }
    for (session, _) in &tasks {
        until_events(daemon, session, "message.delta", 1).await;
    }
    let after = pss_kib(&daemon.processes());
    println!("memory: {} KiB of PSS for each of 200 live runtimes, agents apart", (after - before) / 200);
    daemon.end_all(tasks).await;
}

async fn events(daemon: &Daemon, sessions: usize, lines: usize) {
    let mut tasks = Vec::new();
    let before = ticks(&daemon.processes());
    let start = Instant::now();
    for _ in 0..sessions {
        tasks.push(daemon.delegate(&format!("flood {lines} ;; hang")).await);
    }
    let mut seen = 0;
    for (session, _) in &tasks {
        seen += until_events(daemon, session, "message.delta", lines).await;
    }
    let (took, spent) = (start.elapsed(), (ticks(&daemon.processes()) - before) as f64 / 100.0);
    println!(
        "{sessions:>3} sessions: {:>9.0} events per CPU second of daemon and keepers, {seen} in {took:.1?}",
        seen as f64 / spent
    );
    daemon.end_all(tasks).await;
}

/// Reads a session until it has so many lines of this kind; how many events there were.
async fn until_events(daemon: &Daemon, session: &SessionId, kind: &str, lines: usize) -> usize {
    let mut reader: Box<dyn Events> = daemon.door.events(session, Position(1)).await.expect("readable");
    let (mut seen, mut of_kind) = (0, 0);
    while of_kind < lines {
        let found = reader.next().await.expect("events");
        seen += found.len();
        of_kind += found.iter().filter(|event| event["type"] == kind).count();
        if found.is_empty() {
            reader.changed().await;
        }
    }
    seen
}

/// Proportional set size: what is shared counts once over all.
fn pss_kib(pids: &[i32]) -> u64 {
    let of = |pid: &i32| {
        let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
        line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()).unwrap_or(0)
    };
    pids.iter().map(of).sum()
}

/// User and system time so far, in hundredths of a second.
fn ticks(pids: &[i32]) -> u64 {
    let of = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields: Vec<u64> = stat
            .rsplit_once(')')
            .map(|(_, rest)| rest.split_ascii_whitespace().map(|field| field.parse().unwrap_or(0)).collect())
            .unwrap_or_default();
        fields.get(11).zip(fields.get(12)).map_or(0, |(user, system)| user + system)
    };
    pids.iter().map(of).sum()
}
