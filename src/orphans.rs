//! Orphans that come to a daemon: it is a subreaper, so what a killed keeper leaves becomes its child, and has to be
//! waited for by somebody.
//!
//! A child that was started here is waited for by whoever started it, within an instant. One that is still dead at a
//! second look is nobody's.

use std::collections::HashSet;
use std::io;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;
use ostler_keeper::tree::{self, Stat};
use tokio::signal::unix::{SignalKind, signal};

/// The time between two looks.
const REST: Duration = Duration::from_secs(1);

/// A dead child: its id, and when it had begun, since ids come again.
type Dead = HashSet<(i32, u64)>;

/// Makes this process the parent of orphans below it, and reaps them until it ends. Needs a running `LocalSet`.
///
/// # Errors
///
/// If the kernel lets it adopt none, or tells it of no death: they then go to the init process.
pub(crate) fn adopt() -> io::Result<()> {
    let mut deaths = signal(SignalKind::child())?;
    prctl::set_child_subreaper(true)?;
    tokio::task::spawn_local(async move {
        while deaths.recv().await.is_some() {
            let mut known = Dead::new();
            while any_dead() {
                tokio::time::sleep(REST).await;
                match tokio::task::spawn_blocking(move || reap(&known)).await {
                    Ok(seen) => known = seen,
                    Err(error) => return tracing::error!(%error, "orphans are not reaped any more"),
                }
            }
        }
    });
    Ok(())
}

/// Reaps those that were dead before. All that are dead now.
fn reap(known: &Dead) -> Dead {
    let seen = dead();
    for (pid, _) in seen.intersection(known) {
        // Any answer is fine: reaped now, or by somebody else meanwhile.
        let _reaped = waitpid(Pid::from_raw(*pid), Some(WaitPidFlag::WNOHANG));
    }
    seen
}

/// Whether any child is dead, without reaping it.
fn any_dead() -> bool {
    let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    loop {
        match waitid(Id::All, look) {
            Err(Errno::EINTR) => {}
            Ok(WaitStatus::StillAlive) | Err(_) => return false,
            Ok(_) => return true,
        }
    }
}

fn dead() -> Dead {
    let children = tree::children(std::process::id() as i32).into_iter();
    let dead = |pid| Stat::read(pid).filter(Stat::is_dead).map(|stat| (pid, stat.start));
    children.filter_map(dead).collect()
}
