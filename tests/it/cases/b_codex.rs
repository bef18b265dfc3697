//! What a cancel does to real Codex, which calls a turn interrupted while its command runs on.

use std::path::Path;
use std::time::Duration;

use nix::sys::signal::Signal;

use super::{end, finish, session_of};
use crate::codex::support::User;
use crate::support::kernel::wait_until;
use crate::support::shell::{Containment, signal};

fn read(file: &Path) -> String {
    std::fs::read_to_string(file).expect("readable")
}

#[test]
fn case_b2_a_background_terminal_stops_before_the_task_is_cancelled() {
    for containment in Containment::all() {
        let user = User::with(containment);
        let daemon = user.shell.serve();
        let run = user.shell.spawn(&["run", "--harness", "codex", "--json", "--approve", "allow", "beat please"]);
        let beats = ["background", "foreground"].map(|name| user.shell.work().join(name));
        wait_until(Duration::from_secs(30), "both beat", || {
            if beats.iter().all(|beat| beat.exists()) { Ok(()) } else { Err(String::new()) }
        });
        let agent = user.processes("app-server");
        signal(&run, Signal::SIGINT);
        let done = finish(run);
        let last = beats.each_ref().map(|beat| read(beat));
        assert_eq!(done.json()["outcome"]["verdict"], "cancelled", "{done:?}");
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(beats.each_ref().map(|beat| read(beat)), last);
        assert_eq!((user.processes("app-server"), user.shell.marker.alive().len()), (agent, 1), "it stayed, alone");
        end(daemon);
        user.shell.assert_nothing_left();
    }
}

#[test]
fn case_b4_b12_one_stop_keeps_the_warm_codex_for_the_next_task() {
    for containment in Containment::all() {
        let user = User::with(containment);
        let daemon = user.shell.serve();
        let run = user.shell.spawn(&["run", "--harness", "codex", "--json", "slow please"]);
        wait_until(Duration::from_secs(30), "it is asked", || {
            if user.requests().is_empty() { Err("no request yet".into()) } else { Ok(()) }
        });
        signal(&run, Signal::SIGINT);
        let done = finish(run);
        assert_eq!(done.json()["evidence"]["proof"], "end_report", "{done:?}");
        let agent = user.processes("app-server");
        let next = user.shell.ostler(&["run", "--session", &session_of(&done), "--json", "and now"]);
        assert_eq!(next.json()["outcome"]["verdict"], "completed", "{next:?}");
        assert_eq!((agent.len(), user.processes("app-server")), (1, agent));
        end(daemon);
        user.shell.assert_nothing_left();
    }
}
