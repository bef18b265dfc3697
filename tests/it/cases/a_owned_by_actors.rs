//! The owner of a tree is an actor: not a wrapper, not a request, not a client.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;

use super::{end, everywhere_over_a_daemon, everywhere_with, finish, kill, newest_task, population, received};
use crate::support::kernel::wait_until;
use crate::support::programs;
use crate::support::shell::{Shell, assert_whole, signal};

/// A deaf child in the agent's own session, and one in a session of its own.
const BUSY: &str = "spawn ignore-term ;; spawn setsid ;; say up ;; hang";

/// Reads a session's events as they come.
struct Follower {
    reader: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Follower {
    /// One that reads already.
    fn of(shell: &Shell, session: &str) -> Self {
        let mut command = shell.command(&["events", session, "--follow"]);
        let mut reader = command.stderr(Stdio::null()).spawn().expect("runs");
        let mut lines = BufReader::new(reader.stdout.take().expect("piped")).lines();
        lines.next().expect("an event").expect("read");
        Self { reader, lines }
    }

    /// Looks at the instant at which an event of this type shows.
    fn at<T>(mut self, kind: &str, look: impl FnOnce() -> T) -> T {
        let is_it = |line: &String| serde_json::from_str::<Value>(line).expect("JSON")["type"] == kind;
        self.lines.by_ref().map(|line| line.expect("read")).find(is_it).expect("it shows");
        let seen = look();
        kill(self.reader);
        seen
    }
}

fn session(shell: &Shell) -> String {
    shell.tasks()[0]["session"].as_str().expect("id").to_owned()
}

#[test]
fn case_a24_a_full_pool_of_wrapped_agents_ends_as_trees_and_makes_room() {
    let agent = programs::agent(&["lines"]);
    let wrapped = format!(
        "[limits]\nmax_live_runtimes = 10\nstart_concurrency = 10\n\
         [harness.wrapped]\nadapter = \"oneshot\"\n\
         command = [\"sh\", \"-c\", '\"$@\"; true', \"wrapper\", {:?}, \"play-agent\", \"lines\"]\n\
         environment = {{ MARK = \"@MARK@\", OSTLER_AGENT_LOG = \"@LOG@\", OSTLER_AGENT_ROLE = \"play-agent\" }}\n\
         [harness.wrapped.deadlines]\nterminate = \"200ms\"\nend_of_input = \"50ms\"\n",
        agent[0],
    );
    everywhere_with(&wrapped, |shell| {
        let daemon = shell.serve();
        let run = || shell.spawn(&["run", "--harness", "wrapped", "--json", "spawn ignore-term ;; say up ;; hang"]);
        let mut runs: Vec<_> = (0..10).map(|_| run()).collect();
        population(shell, 30);
        runs.push(run());
        wait_until(Duration::from_secs(20), "one more is accepted", || {
            if shell.tasks().len() == 11 { Ok(()) } else { Err(String::new()) }
        });
        assert_eq!((shell.received(), shell.marker.alive().len()), (10, 30), "a full pool starts nothing");
        let sessions: Vec<_> =
            shell.tasks().iter().map(|task| task["session"].as_str().expect("id").to_owned()).collect();
        assert_eq!(shell.ostler(&["session", "close", &sessions[10]]).code, 0);
        received(shell, 11);
        population(shell, 30);
        assert_eq!(shell.marker.alive().len(), 30, "the closed one's tree went whole");
        let closing: Vec<_> = sessions[..10].iter().map(|id| shell.spawn(&["session", "close", id])).collect();
        closing.into_iter().for_each(|close| assert_eq!(finish(close).code, 0));
        assert_eq!(shell.marker.alive(), vec![]);
        runs.into_iter().for_each(|run| assert_eq!(finish(run).code, 130));
        end(daemon);
    });
}

/// What a client asked of a daemon is the daemon's: the loss of a reader changes no run (rules 3).
#[test]
fn case_a26_a_client_killed_at_any_stage_of_its_run_takes_nothing_with_it() {
    everywhere_over_a_daemon(|shell| {
        for round in 0..24u64 {
            let before = shell.received();
            let client =
                shell.spawn(&["run", "--harness", "scripted", "spawn setsid ;; say up ;; sleep 100 ;; say end"]);
            if round % 2 == 0 {
                received(shell, before + 1);
            }
            std::thread::sleep(Duration::from_millis(round * 6));
            kill(client);
        }
        // What a killed client has sent may be heard after its end.
        let tasks = wait_until(Duration::from_secs(30), "all are settled, and each was asked once", || {
            let tasks = shell.tasks();
            let open: Vec<_> = tasks.iter().filter(|task| task["outcome"].is_null()).collect();
            let received = shell.received();
            if open.is_empty() && received == tasks.len() { Ok(tasks) } else { Err(format!("{received}, {open:?}")) }
        });
        for task in &tasks {
            assert_eq!(task["outcome"]["output"]["text"], "up\nend\n", "{task}");
            assert_whole(&shell.events(task["session"].as_str().expect("id")));
        }
        assert!(tasks.len() >= 12, "{}", tasks.len());
        shell.marker.assert_gone(Duration::from_secs(10));
    });
}

#[test]
fn case_a26_a_cancel_goes_on_when_the_client_that_asked_for_it_is_killed() {
    everywhere_over_a_daemon(|shell| {
        for round in 0..8u64 {
            let client = shell.spawn(&["run", "--harness", "scripted", BUSY]);
            received(shell, round as usize + 1);
            let task = newest_task(shell);
            let cancel = shell.spawn(&["task", "cancel", &task]);
            let follower = Follower::of(shell, &session(shell));
            follower.at("ostler.cancel.requested", || kill(cancel));
            std::thread::sleep(Duration::from_millis(round * 40));
            kill(client);
            let waited = shell.ostler(&["task", "wait", &task, "--json"]);
            assert_eq!(waited.json()["outcome"]["evidence"]["proof"], "tree_empty", "{waited:?}");
            assert_eq!(waited.json()["outcome"]["verdict"], "cancelled", "{waited:?}");
            assert_eq!(shell.marker.alive(), vec![]);
        }
    });
}

#[test]
fn case_a26_a_close_goes_on_when_the_client_that_asked_for_it_is_killed() {
    everywhere_over_a_daemon(|shell| {
        for round in 0..8u64 {
            let client = shell.spawn(&["run", "--harness", "scripted", BUSY]);
            received(shell, round as usize + 1);
            let session = session(shell);
            let close = shell.spawn(&["session", "close", &session]);
            std::thread::sleep(Duration::from_millis(round * 40));
            kill(close);
            // Asked again it joins the close that is under way, or begins it.
            assert_eq!(shell.ostler(&["session", "close", &session]).code, 0);
            assert_eq!(shell.marker.alive(), vec![]);
            assert_eq!(finish(client).code, 130);
        }
    });
}

#[test]
fn case_a29_cancelled_is_written_when_the_tree_is_empty() {
    everywhere_over_a_daemon(|shell| {
        for round in 0..5 {
            let client = shell.spawn(&["run", "--harness", "scripted", "--json", BUSY]);
            received(shell, round + 1);
            let follower = Follower::of(shell, &session(shell));
            signal(&client, Signal::SIGINT);
            assert_eq!(follower.at("run.cancelled", || shell.marker.alive()), vec![]);
            assert_eq!(finish(client).code, 130);
        }
    });
}

#[test]
fn case_a29_failed_is_written_when_the_tree_is_empty() {
    everywhere_over_a_daemon(|shell| {
        let gate = "tool while ! test -e go; do sleep 0.01; done";
        let script = format!("spawn ignore-term ;; spawn setsid ;; say up ;; {gate} ;; crash 9");
        let client = shell.spawn(&["run", "--harness", "scripted", "--json", &script]);
        received(shell, 1);
        let follower = Follower::of(shell, &session(shell));
        std::fs::write(shell.work().join("go"), "").expect("written");
        assert_eq!(follower.at("run.failed", || shell.marker.alive()), vec![]);
        assert_eq!(finish(client).code, 1);
    });
}

#[test]
fn case_a29_closed_is_written_when_the_tree_of_a_busy_session_is_empty() {
    everywhere_over_a_daemon(|shell| {
        let client = shell.spawn(&["run", "--harness", "scripted", "--json", BUSY]);
        received(shell, 1);
        let session = session(shell);
        let follower = Follower::of(shell, &session);
        let close = shell.spawn(&["session", "close", &session]);
        assert_eq!(follower.at("ostler.session.closed", || shell.marker.alive()), vec![]);
        assert_eq!((finish(close).code, finish(client).code), (0, 130));
    });
}

#[test]
fn case_a29_closed_is_written_when_the_tree_of_an_idle_session_is_empty() {
    everywhere_over_a_daemon(|shell| {
        let done = shell.ostler(&["run", "--harness", "warm", "spawn ignore-term ;; say up"]);
        assert_eq!(done.code, 0, "{done:?}");
        let session = session(shell);
        let follower = Follower::of(shell, &session);
        let close = shell.spawn(&["session", "close", &session]);
        assert_eq!(follower.at("ostler.session.closed", || shell.marker.alive()), vec![]);
        assert_eq!(finish(close).code, 0);
    });
}
