//! Emptying a tree without its keeper: by its leaf, by the recorded process, and by the inherited marker.
//!
//! Weaker than a keeper's own word, and said to be: two looks in a row have to find nothing.

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use ostler_keeper::folder::{Identity, MARKER};
use ostler_keeper::tree::{self, Handle, Stat};

/// How often it looks, and how long it rests between.
const LOOKS: usize = 100;
const REST: Duration = Duration::from_millis(20);

/// Whether the process of this id and start time lives.
pub(in crate::actors) fn is_alive((pid, start): (i32, u64)) -> bool {
    Stat::read(pid).is_some_and(|stat| stat.start == start && !stat.is_dead())
}

/// Ends everything that can be found of a runtime, until two looks in a row find nothing.
///
/// # Cancel safety
///
/// A dropped future leaves the rest to the next sweep.
pub(in crate::actors) async fn sweep(identity: Option<&Identity>, runtime: &str) {
    let (identity, runtime) = (identity.cloned(), runtime.to_owned());
    let mut quiet = 0;
    for _ in 0..LOOKS {
        let (identity, runtime) = (identity.clone(), runtime.clone());
        let found = tokio::task::spawn_blocking(move || look_and_kill(identity.as_ref(), &runtime)).await;
        quiet = if found.unwrap_or(1) == 0 { quiet + 1 } else { 0 };
        if quiet == 2 {
            return;
        }
        tokio::time::sleep(REST).await;
    }
    tracing::error!(runtime, "processes outlive every sweep");
}

/// One look. How many were found.
fn look_and_kill(identity: Option<&Identity>, runtime: &str) -> usize {
    if let Some(leaf) = identity.and_then(|identity| identity.leaf.as_ref()) {
        // A leaf that is gone has nobody in it.
        let _gone = fs::write(leaf.join("cgroup.kill"), "1");
    }
    let marker = format!("{MARKER}={runtime}");
    let leader = identity.and_then(|identity| identity.leader);
    let keeper = identity.map(|identity| identity.keeper);
    let all: HashMap<i32, Stat> =
        tree::all_pids().into_iter().flatten().filter_map(|pid| Some((pid, Stat::read(pid)?))).collect();
    let own = std::process::id() as i32;
    let roots = all.iter().filter(|(pid, stat)| {
        let recorded = [leader, keeper].into_iter().flatten().any(|known| known == (**pid, stat.start));
        **pid != own && (recorded || has_marker(**pid, &marker))
    });
    let mut found: Vec<i32> = roots.filter(|(_, stat)| !stat.is_dead()).map(|(pid, _)| *pid).collect();
    // And whoever descends from them, whatever environment it made for itself.
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        next += 1;
        let children = all.iter().filter(|(_, stat)| stat.ppid == parent && !stat.is_dead()).map(|(pid, _)| *pid);
        let fresh: Vec<i32> = children.filter(|pid| !found.contains(pid)).collect();
        found.extend(fresh);
    }
    for pid in &found {
        if let Some(handle) = all.get(pid).and_then(|stat| Handle::open(*pid, stat.start)) {
            // Gone meanwhile is what was wanted; another user's process is found again, and said.
            let _gone = handle.signal(nix::sys::signal::Signal::SIGKILL);
        }
    }
    found.len()
}

fn has_marker(pid: i32, marker: &str) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|variable| variable == marker.as_bytes())
}
