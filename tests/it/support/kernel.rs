//! What the kernel says, asked without any of Ostler's code.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A marker that is in the environment or on the command line of every process a scenario starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker(String);

impl Marker {
    /// A marker no other scenario has.
    pub fn new() -> Self {
        let file = tempfile::Builder::new().prefix("mark").tempfile().expect("a temporary file");
        let name = file.path().file_name().expect("a name").to_string_lossy().into_owned();
        Self(format!("{name}-{}", std::process::id()))
    }

    /// Whatever names this folder.
    pub fn of(folder: &Path) -> Self {
        Self(folder.display().to_string())
    }

    /// The text of it.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Every live process that carries it, with its command line.
    pub fn alive(&self) -> Vec<(i32, String)> {
        let mut found = Vec::new();
        for pid in pids() {
            let has = |file: &str| {
                let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
                bytes.windows(self.0.len()).any(|window| window == self.0.as_bytes())
            };
            if pid != std::process::id() as i32 && (has("environ") || has("cmdline")) && !is_zombie(pid) {
                let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                found.push((pid, String::from_utf8_lossy(&line).replace('\0', " ")));
            }
        }
        found
    }

    /// Kills whatever carries it: what a failed scenario leaves must not burden the next.
    pub fn sweep(&self) {
        use nix::sys::signal::{Signal, kill};
        for _ in 0..20 {
            for (pid, _) in self.alive() {
                let _gone = kill(nix::unistd::Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
    }

    /// Waits until none is alive, or says which are.
    pub fn assert_gone(&self, within: Duration) {
        wait_until(within, "processes are gone", || {
            let alive = self.alive();
            if alive.is_empty() { Ok(()) } else { Err(format!("{alive:?}")) }
        });
    }
}

/// Every process id.
pub fn pids() -> Vec<i32> {
    let entries = fs::read_dir("/proc").expect("/proc");
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Whether a process is dead and only waits to be reaped: state Z, and no thread but the first.
pub fn is_zombie(pid: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.contains("State:\tZ") && status.contains("Threads:\t1\n")
}

/// Whether the id names a process that is not a zombie.
pub fn is_alive(pid: i32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists() && !is_zombie(pid)
}

/// The zombies that are children of this process.
pub fn own_zombies() -> Vec<i32> {
    let own = format!("PPid:\t{}\n", std::process::id());
    let status = |pid: &i32| fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    pids().into_iter().filter(|pid| is_zombie(*pid) && status(pid).contains(&own)).collect()
}

/// How many descriptors this process has open.
pub fn own_descriptors() -> usize {
    fs::read_dir("/proc/self/fd").expect("descriptors").count()
}

/// Resident memory of this process, in KiB.
pub fn own_resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("status");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("VmRSS");
    line.split_ascii_whitespace().nth(1).expect("a number").parse().expect("a number")
}

/// The containments to test: without a leaf always, with one where this machine can make one.
pub fn containments() -> Vec<Option<PathBuf>> {
    let leaf = ostler_keeper::usable_leaf_parent();
    if leaf.is_none() {
        eprintln!("no control group leaf can be made here: only descent is tested");
    }
    [None, leaf].into_iter().enumerate().filter(|(index, leaf)| *index == 0 || leaf.is_some()).map(|(_, l)| l).collect()
}

/// Looks again until the check passes; fails with its last word when the time is over.
pub fn wait_until<T>(within: Duration, what: &str, mut check: impl FnMut() -> Result<T, String>) -> T {
    let until = Instant::now() + within;
    loop {
        match check() {
            Ok(value) => return value,
            Err(last) if Instant::now() > until => panic!("not within {within:?}: {what}: {last}"),
            Err(_) => std::thread::yield_now(),
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// User and system time of a process, in clock ticks (10 ms).
pub fn cpu_ticks(pid: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).expect("lives");
    let fields: Vec<&str> = text.rsplit_once(')').expect("a name").1.split_ascii_whitespace().collect();
    fields[11].parse::<u64>().expect("utime") + fields[12].parse::<u64>().expect("stime")
}

/// The share of one processor that a process uses over this time.
pub fn cpu_share(pid: i32, over: Duration) -> f64 {
    let (begin, at) = (cpu_ticks(pid), Instant::now());
    std::thread::sleep(over);
    (cpu_ticks(pid) - begin) as f64 * 0.01 / at.elapsed().as_secs_f64()
}

/// Resident memory of a process, in KiB.
pub fn resident_kib(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("status");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("VmRSS");
    line.split_ascii_whitespace().nth(1).expect("a number").parse().expect("a number")
}

/// Kills a process, and everything that carries the marker, when the scenario is over.
pub struct Sweep(pub i32, pub Marker);

impl Drop for Sweep {
    fn drop(&mut self) {
        use nix::sys::signal::{Signal, kill};
        let own = format!("PPid:\t{}\n", std::process::id());
        if fs::read_to_string(format!("/proc/{}/status", self.0)).is_ok_and(|status| status.contains(&own)) {
            let _gone = kill(nix::unistd::Pid::from_raw(self.0), Signal::SIGKILL);
        }
        self.1.sweep();
    }
}
