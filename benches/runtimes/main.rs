//! What a supervised runtime costs, against a bare process of the same program in the same run.
//!
//! `cargo bench --bench runtimes`. The keeper is asked directly, and `ostler serve`, in a folder of its own, as a client
//! asks it:
//! - first byte: from the start of a runtime to its agent's first byte, with a cold and with a spare keeper, against a
//!   bare spawn;
//! - open: from the request to the stored verdict of a task that says one word, against spawn to exit of the bare agent;
//! - latency: the same while another session floods, writes lines of 100 MB, or reads nothing;
//! - memory: proportional set size of daemon and keepers, for each of 200 live runtimes, agents apart;
//! - events: from the agent's pipe to the durable row to a reader, per second of daemon's and keepers' time, at 1 and at
//!   500 sessions, beside the raw group commit of `--bench ledger`.
#![expect(clippy::expect_used, reason = "a benchmark that cannot run has no figures")]

mod daemon;
mod keeper;
mod kernel;
mod neighbours;

use std::process::Command;
use std::time::{Duration, Instant};

use daemon::Daemon;
use kernel::{pss_kib, ticks};

const OSTLER: &str = env!("CARGO_BIN_EXE_ostler");

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let folder = tempfile::tempdir_in(".").expect("a folder");
    let root = folder.path().canonicalize().expect("a path");
    keeper::first_byte(&root).await;
    for (name, spares) in [("cold", 0), ("spare", 2)] {
        let state = root.join(name);
        std::fs::create_dir(&state).expect("made");
        let daemon = Daemon::start(&state, spares).await;
        open(&daemon, name).await;
        if spares > 0 {
            neighbours::latency(&daemon).await;
            memory(&daemon).await;
            events(&daemon, 1, 1_000_000).await;
            events(&daemon, 500, 2_000).await;
        }
        daemon.end();
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// Spawn to exit of the bare agent.
fn bare_to_exit() -> Duration {
    let start = Instant::now();
    let output = Command::new(OSTLER).args(["play-agent", "lines", "--json", "say hi"]).output().expect("runs");
    assert!(output.status.success());
    start.elapsed()
}

async fn open(daemon: &Daemon, keeper: &str) {
    let (mut bare, mut own) = (Vec::new(), Vec::new());
    for _ in 0..50 {
        bare.push(bare_to_exit());
        own.push(daemon.open_to_verdict().await);
    }
    let (bare, own) = (median(bare), median(own));
    let ratio = own.as_secs_f64() / bare.as_secs_f64();
    println!(
        "open to verdict: {own:.2?}, bare spawn to exit {bare:.2?}, ratio {ratio:.2} ({keeper} keeper; median of 50)"
    );
}

async fn memory(daemon: &Daemon) {
    let before = pss_kib(&daemon.processes());
    let mut tasks = Vec::new();
    for _ in 0..200 {
        tasks.push(daemon.delegate("say up ;; hang").await);
    }
    for (session, _) in &tasks {
        daemon.until_events(session, "message.delta", 1).await;
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
        tasks.push(daemon.delegate(&format!("babble {lines} ;; hang")).await);
    }
    let mut seen = 0;
    for (session, _) in &tasks {
        seen += daemon.until_events(session, "message.delta", lines / 2).await;
    }
    let (took, spent) = (start.elapsed(), (ticks(&daemon.processes()) - before) as f64 / 100.0);
    println!(
        "{sessions:>3} sessions: {:>9.0} events per CPU second of daemon and keepers, {seen} in {took:.1?}",
        seen as f64 / spent
    );
    daemon.end_all(tasks).await;
}
