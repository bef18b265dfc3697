//! The keeper alone: from nothing, or from a keeper that waits, to the agent's first byte.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ostler_keeper::ladder::Ladder;
use ostler_keeper::{Open, Order, OrphanPolicy, Report, Stream};
use ostler_supervisors::keeper::{KeeperProgram, Keepers, Link, Spare};

use super::{OSTLER, median};

const ROUNDS: usize = 200;

/// Prints both ratios against a bare spawn of the same program.
pub(crate) async fn first_byte(root: &Path) {
    let (mut bare, mut cold, mut spare) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        bare.push(bare_first_byte());
        cold.push(cold_first_byte(&root.join(format!("c{round}"))).await);
        spare.push(spare_first_byte(&root.join(format!("s{round}"))).await);
    }
    let (bare, cold, spare) = (median(bare), median(cold), median(spare));
    let beside = |own: Duration| {
        let ratio = own.as_secs_f64() / bare.as_secs_f64();
        format!("{own:.2?} (+{:.2?}, ratio {ratio:.2})", own.saturating_sub(bare))
    };
    println!("open to first byte, median of {ROUNDS}: bare spawn {bare:.2?}");
    println!("    cold keeper  {}", beside(cold));
    println!("    spare keeper {}", beside(spare));
}

fn program() -> KeeperProgram {
    let beside = Path::new(OSTLER).with_file_name("ostler-keeper");
    KeeperProgram { program: beside, arguments: Vec::new(), open_files: None }
}

fn bare_first_byte() -> Duration {
    let start = Instant::now();
    let mut child = Command::new(OSTLER)
        .args(["play-agent", "lines", "say hi"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("runs");
    let mut byte = [0];
    child.stdout.as_mut().expect("piped").read_exact(&mut byte).expect("a byte");
    let took = start.elapsed();
    child.wait().expect("ends");
    took
}

async fn cold_first_byte(folder: &Path) -> Duration {
    let start = Instant::now();
    let spare = Keepers::new(program()).start().await.expect("a keeper");
    open(spare, folder, start).await
}

async fn spare_first_byte(folder: &Path) -> Duration {
    let spare = Keepers::new(program()).start().await.expect("a keeper");
    open(spare, folder, Instant::now()).await
}

/// Until the first byte; then everything of it is over before the next round.
async fn open(spare: Spare, folder: &Path, start: Instant) -> Duration {
    let (link, mut reports) = Link::of(spare).expect("a connection");
    link.order(Order::Open(Box::new(recipe(folder))));
    link.order(Order::Read { stream: Stream::Stdout, from: 0 });
    let mut first = None;
    let (mut emptied, mut read) = (false, false);
    while !(emptied && read) {
        // Output and the end of the tree are told in any order.
        match reports.recv().await.expect("the keeper lives") {
            Report::Output { .. } if first.is_none() => first = Some(start.elapsed()),
            Report::OutputEnd { stream: Stream::Stdout, .. } => read = true,
            Report::Emptied(_) => emptied = true,
            _ => {}
        }
    }
    link.order(Order::Release);
    while reports.recv().await.is_some() {}
    first.expect("it says something")
}

fn recipe(folder: &Path) -> Open {
    let path = std::env::var("PATH").unwrap_or_default();
    Open {
        folder: folder.to_owned(),
        runtime: "bench".into(),
        owner: "bench".into(),
        secret: b"secret".to_vec(),
        command: [OSTLER, "play-agent", "lines", "say hi"].map(Into::into).to_vec(),
        environment: vec![format!("PATH={path}").into()],
        directory: folder.parent().expect("a parent").to_owned(),
        leaf_parent: None,
        stdout_retention: 1 << 20,
        stderr_retention: 1 << 16,
        input_capacity: 1 << 20,
        oom_score_adj: 0,
        umask: 0o022,
        orphan: OrphanPolicy { grace_ms: 0, ladder: Ladder::kill(Duration::from_secs(1)) },
        on_leader_exit: None,
        terminal: None,
        limits: Vec::new(),
    }
}
