//! Limits that hold where nobody has configured any.

use std::time::Duration;

use ostler::door::Door;
use ostler_supervisors::contract::{CancelCause, TaskId};

use super::socket::{block_on, delegate, door, open_session};
use super::{app_server, configure, session_of};
use crate::support::kernel::wait_until;
use crate::support::shell::Shell;

/// As many as are started without a limit in the configuration; the shipped example names it.
const MOST: usize = 256;

/// The agents themselves, without their keepers, as the kernel shows them.
fn agents(shell: &Shell) -> usize {
    shell.marker.alive().iter().filter(|(_, line)| line.starts_with("sleep ")).count()
}

#[test]
fn case_h5_more_agents_than_the_shipped_limit_wait_for_a_place() {
    let shell = Shell::new();
    configure(&shell, |config| {
        let mark = shell.marker.text();
        format!(
            "{config}[harness.sleeper]\nadapter = \"oneshot\"\ncommand = [\"sleep\"]\nenvironment = {{ MARK = {mark:?} }}\n"
        )
    });
    let daemon = shell.serve();
    let tasks: Vec<TaskId> = block_on(async {
        let door = door(&shell).await;
        let mut tasks = Vec::new();
        for _ in 0..=MOST {
            let session = open_session(&shell, "sleeper").await;
            tasks.push(delegate(&door, &session, "1000").await);
        }
        tasks
    });
    wait_until(Duration::from_secs(120), "the place of each is taken", || {
        let (alive, metrics) = (agents(&shell), shell.metrics());
        let full = metrics.contains("\nostler_tasks{state=\"admitted\"} 1\n");
        if full && alive == MOST { Ok(()) } else { Err(format!("{alive} agents: {metrics}")) }
    });
    // It was the limit that held the last one back: with one place free, it has it.
    let waiting = shell.tasks().into_iter().find(|task| task["state"] == "admitted").expect("one waits");
    let other = tasks.iter().find(|task| waiting["id"] != task.as_str()).expect("another");
    block_on(async { door(&shell).await.cancel(other, CancelCause::Requested).await.expect("requested") });
    wait_until(Duration::from_secs(60), "the last one has its place", || {
        let (alive, metrics) = (agents(&shell), shell.metrics());
        let none_waits = metrics.contains("\nostler_tasks{state=\"admitted\"} 0\n");
        if none_waits && alive == MOST { Ok(()) } else { Err(format!("{alive} agents: {metrics}")) }
    });
    shell.end(daemon);
}

/// Nothing in this configuration speaks of it.
#[test]
fn case_h5_an_idle_runtime_has_its_end_before_it() {
    let shell = Shell::new();
    app_server::add(&shell, &[]);
    let daemon = shell.serve();
    let done = shell.ostler(&["run", "--harness", "protocol", "--json", "accept ;; say on ;; finish"]);
    let session = session_of(&done);
    let left = wait_until(Duration::from_secs(20), "it is idle", || {
        let rows = block_on(async { door(&shell).await.tree().await }).map_err(|error| error.to_string())?;
        let row = rows.iter().find(|row| row.session.as_str() == session).ok_or("not loaded")?;
        row.hibernates_in_ms.ok_or_else(|| format!("{row:?}"))
    });
    assert!((1..=15 * 60 * 1000).contains(&left), "{left} ms");
    // And it is the timer that ends it: with a shorter one, it does.
    shell.end(daemon);
    configure(&shell, |config| {
        config.replace("[harness.protocol]\n", "[harness.protocol]\nidle_timeout = \"300ms\"\n")
    });
    let daemon = shell.serve();
    let done = shell.ostler(&["run", "--session", &session, "--json", "accept ;; say on ;; finish"]);
    assert_eq!(done.code, 0, "{done:?}");
    shell.marker.assert_gone(Duration::from_secs(20));
    shell.end(daemon);
}
