//! What other sessions feel while one misbehaves.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ostler_supervisors::contract::{SessionId, TaskId};

use super::daemon::Daemon;
use super::{OSTLER, bare_to_exit, median};

const ROUNDS: usize = 40;
/// Each is at it for longer than its figures take, and is cancelled then.
const NOISE: [(&str, &str); 4] = [
    ("a flood of short lines", "flood 200000000"),
    ("a flood of events", "babble 200000000"),
    (
        "lines of 100 MB",
        "long-line 100000000 ;; long-line 100000000 ;; long-line 100000000 ;; long-line 100000000 ;; hang",
    ),
    ("an agent that reads nothing", "read-nothing"),
];

/// Prints the time from a request to its stored verdict, alone and beside each kind of noise. A processor that the noise
/// takes is not there for anybody: so a bare process is timed beside the same noise without Ostler.
pub(crate) async fn latency(daemon: &Daemon) {
    let (own_alone, bare_alone) = (own(daemon).await, bare());
    println!("latency of other sessions, median of {ROUNDS}: alone {own_alone:.2?} (bare process {bare_alone:.2?})");
    for (name, script) in NOISE {
        let noise = daemon.delegate(script).await;
        let beside = own(daemon).await;
        let cancel = end(daemon, noise).await;
        let mut loose = loose_noise(script);
        let bare_beside = bare();
        loose.kill().expect("killed");
        loose.wait().expect("reaped");
        let times = |with: Duration, without: Duration| with.as_secs_f64() / without.as_secs_f64();
        println!(
            "    beside {name}: {beside:.2?}, {:.1} times (bare process beside the same: {:.1} times); its cancel {cancel:.2?}",
            times(beside, own_alone),
            times(bare_beside, bare_alone)
        );
    }
}

async fn own(daemon: &Daemon) -> Duration {
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        times.push(daemon.open_to_verdict().await);
    }
    median(times)
}

fn bare() -> Duration {
    median((0..ROUNDS).map(|_| bare_to_exit()).collect())
}

/// The same agent with nobody but a pipe to /dev/null behind it.
fn loose_noise(script: &str) -> Child {
    Command::new(OSTLER)
        .args(["play-agent", "lines", "--json", script])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("runs")
}

async fn end(daemon: &Daemon, noise: (SessionId, TaskId)) -> Duration {
    let start = Instant::now();
    daemon.end_all(vec![noise]).await;
    start.elapsed()
}
