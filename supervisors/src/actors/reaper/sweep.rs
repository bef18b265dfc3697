//! Emptying a tree without its keeper: by its leaf, by the recorded process, and by the inherited marker.
//!
//! Weaker than a keeper's own word, and said to be: two looks in a row have to find nothing.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::time::Duration;

use ostler_keeper::folder::{Identity, MARKER};
use ostler_keeper::tree::{self, Handle, Stat};

/// How often it looks, and how long it rests between.
const LOOKS: usize = 100;
const REST: Duration = Duration::from_millis(20);

/// How a sweep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::actors) enum Swept {
    /// Two looks in a row found nothing.
    Empty,
    /// Processes outlive every signal.
    Left,
}

/// Ends everything that can be found of a runtime, until two looks in a row find nothing.
///
/// # Errors
///
/// If the processes of this machine cannot be read; how many are left is then not known.
///
/// # Cancel safety
///
/// A dropped future leaves the rest to the next sweep.
pub(super) async fn sweep(identity: Option<&Identity>, runtime: &str) -> io::Result<Swept> {
    let (identity, runtime) = (identity.cloned(), runtime.to_owned());
    let mut quiet = 0;
    for _ in 0..LOOKS {
        let (identity, runtime) = (identity.clone(), runtime.clone());
        let look = move || look_and_kill(identity.as_ref(), &runtime);
        let found = tokio::task::spawn_blocking(look).await.unwrap_or_else(|error| Err(io::Error::other(error)))?;
        quiet = if found == 0 { quiet + 1 } else { 0 };
        if quiet == 2 {
            return Ok(Swept::Empty);
        }
        tokio::time::sleep(REST).await;
    }
    tracing::error!(runtime, "processes outlive every sweep");
    Ok(Swept::Left)
}

/// One look. How many were found.
fn look_and_kill(identity: Option<&Identity>, runtime: &str) -> io::Result<usize> {
    if let Some(leaf) = identity.and_then(|identity| identity.leaf.as_ref()) {
        // A leaf that is gone has nobody in it; whoever a refused write leaves alive is found below.
        let _gone = fs::write(leaf.join("cgroup.kill"), "1");
    }
    let all = processes()?;
    let found = find(identity, runtime, &all)?;
    for pid in &found {
        if let Some(handle) = all.get(pid).and_then(|stat| Handle::open(*pid, stat.start)) {
            // Gone meanwhile is what was wanted; another user's process is found again, and said.
            let _gone = handle.signal(nix::sys::signal::Signal::SIGKILL);
        }
    }
    Ok(found.len())
}

fn processes() -> io::Result<HashMap<i32, Stat>> {
    let mut all = HashMap::new();
    for pid in tree::all_pids()? {
        all.extend(Stat::look(pid)?.map(|stat| (pid, stat)));
    }
    Ok(all)
}

/// Those that are recorded or carry the marker, and whoever descends from them, whatever environment it made for itself.
fn find(identity: Option<&Identity>, runtime: &str, all: &HashMap<i32, Stat>) -> io::Result<Vec<i32>> {
    let marker = format!("{MARKER}={runtime}");
    let recorded = [identity.and_then(|identity| identity.leader), identity.map(|identity| identity.keeper)];
    let own = std::process::id() as i32;
    let mut found = Vec::new();
    for (pid, stat) in all.iter().filter(|(pid, stat)| **pid != own && !stat.is_dead()) {
        if recorded.contains(&Some((*pid, stat.start))) || has_marker(*pid, &marker)? {
            found.push(*pid);
        }
    }
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        next += 1;
        let children = all.iter().filter(|(_, stat)| stat.ppid == parent && !stat.is_dead()).map(|(pid, _)| *pid);
        let fresh: Vec<i32> = children.filter(|pid| !found.contains(pid)).collect();
        found.extend(fresh);
    }
    Ok(found)
}

/// Other users' processes, and those that hide, do not show their environment: they are found by descent alone.
fn has_marker(pid: i32, marker: &str) -> io::Result<bool> {
    let environment = match fs::read(format!("/proc/{pid}/environ")) {
        Err(error) if is_hidden_or_gone(&error) => return Ok(false),
        read => read?,
    };
    Ok(environment.split(|byte| *byte == 0).any(|variable| variable == marker.as_bytes()))
}

fn is_hidden_or_gone(error: &io::Error) -> bool {
    let gone = error.raw_os_error() == Some(nix::libc::ESRCH);
    gone || matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
}
