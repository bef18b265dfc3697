//! Sessions that have ended leave the memory of their daemon, and a daemon that was started anew says so.

use std::time::Duration;

use ostler::door::{Door, Remote};
use ostler_supervisors::contract::{CancelCause, SessionSpec};

use super::socket::{block_on, delegate, door, open_session};
use super::{configure, kill};
use crate::support::kernel::{resident_kib, wait_until};
use crate::support::shell::Shell;

/// Sessions before the first mark, and between it and the second.
const SESSIONS: (usize, usize) = (700, 1500);
/// What the daemon may grow by over the second lot: less than 2 KiB for each.
const GROWTH_KIB: u64 = 3 << 10;
/// At once.
const ABREAST: usize = 6;
/// Sessions that are used again when they leave the memory.
const AT_THE_INSTANT: u64 = 120;

/// One session, one task, one process; every other one is closed, the rest stay open without a runtime.
async fn live_through(shell: &Shell, door: &Remote, number: usize) {
    let spec = SessionSpec { directory: shell.work(), model: None };
    let session = door.open_session("echo".parse().expect("an id"), spec).await.expect("opened");
    let task = delegate(door, &session, "x").await;
    let row = door.wait(&task).await.expect("settled");
    assert_eq!(row.outcome.expect("a verdict").verdict.word(), "completed");
    if number.is_multiple_of(2) {
        door.close_session(&session).await.expect("closed");
    }
}

fn live_through_many(shell: &Shell, count: usize) {
    let lane = |lane: usize| {
        block_on(async {
            let door = door(shell).await;
            for number in (lane..count).step_by(ABREAST) {
                live_through(shell, &door, number).await;
            }
        });
    };
    std::thread::scope(|scope| (0..ABREAST).for_each(|number| drop(scope.spawn(move || lane(number)))));
}

/// What the daemon holds once none of its sessions is loaded any more.
fn at_rest(shell: &Shell, daemon: u32) -> u64 {
    wait_until(Duration::from_secs(60), "no session is loaded", || {
        let rows = block_on(async { door(shell).await.tree().await }).map_err(|error| error.to_string())?;
        if rows.is_empty() { Ok(()) } else { Err(format!("{} are", rows.len())) }
    });
    resident_kib(daemon as i32)
}

#[test]
fn case_h6_thousands_of_ended_sessions_leave_the_memory_flat() {
    let shell = Shell::new();
    configure(&shell, |config| {
        let mark = shell.marker.text();
        format!(
            "{config}[harness.echo]\nadapter = \"oneshot\"\ncommand = [\"/bin/echo\"]\nenvironment = {{ MARK = {mark:?} }}\n"
        )
    });
    let daemon = shell.serve();
    live_through_many(&shell, SESSIONS.0);
    let first = at_rest(&shell, daemon.id());
    live_through_many(&shell, SESSIONS.1);
    let second = at_rest(&shell, daemon.id());
    eprintln!("{first} KiB after {} sessions, {second} KiB after {} more", SESSIONS.0, SESSIONS.1);
    assert!(second < first + GROWTH_KIB, "{first} KiB, then {second} KiB");
    assert_eq!(shell.tasks().len(), SESSIONS.0 + SESSIONS.1, "none is forgotten");
    shell.end(daemon);
}

/// Tasks that come around the instant at which their sessions leave. Each can be cancelled at once: it is in an actor that
/// everybody finds.
#[test]
fn case_h6_a_task_that_comes_as_its_session_leaves_is_found_by_everybody() {
    let shell = Shell::new();
    let daemon = shell.serve();
    block_on(async {
        let (door, local) = (door(&shell).await, tokio::task::LocalSet::new());
        let mut lives = Vec::new();
        for number in 0..AT_THE_INSTANT {
            let (door, session) = (door.clone(), open_session(&shell, "scripted").await);
            lives.push(local.spawn_local(async move {
                let first = delegate(&door, &session, "say on").await;
                door.wait(&first).await.expect("settled");
                // It leaves a second after it came to rest.
                tokio::time::sleep(Duration::from_millis(990 + number % 30)).await;
                let second = delegate(&door, &session, "hang").await;
                door.cancel(&second, CancelCause::Requested).await.expect("found");
                let row = door.wait(&second).await.expect("settled");
                assert_eq!(row.outcome.expect("a verdict").verdict.word(), "cancelled");
                door.close_session(&session).await.expect("closed");
            }));
        }
        let all = local.run_until(async {
            for life in lives {
                life.await.expect("it went well");
            }
        });
        tokio::time::timeout(Duration::from_secs(120), all).await.expect("nobody waits for an actor that stays");
    });
    shell.end(daemon);
}

/// A service manager that starts it again hides it from everybody who does not look here.
#[test]
fn case_h6_a_daemon_that_was_started_anew_says_so() {
    let shell = Shell::new();
    let started = || {
        let metrics = shell.metrics();
        let line = metrics.lines().find_map(|line| line.strip_prefix("ostler_start_time_seconds "));
        line.unwrap_or_else(|| panic!("{metrics}")).parse::<u64>().expect("a number")
    };
    let daemon = shell.serve();
    let first = started();
    let begun = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(first);
    assert!(begun.elapsed().is_ok_and(|ago| ago < Duration::from_secs(300)), "{first}");
    kill(daemon);
    // It is told in seconds.
    wait_until(Duration::from_secs(5), "the next second", || match begun.elapsed() {
        Ok(ago) if ago >= Duration::from_secs(1) => Ok(()),
        ago => Err(format!("{ago:?}")),
    });
    let daemon = shell.serve();
    assert!(started() > first);
    shell.end(daemon);
}
