//! Replacing, resuming, cancelling and starting again: never two agents at once in one context.
//!
//! The agents tell by a lock that only living processes hold: whoever finds it free works alone.

use std::time::Duration;

use nix::sys::signal::Signal;

use super::{end, everywhere, everywhere_over_a_daemon, finish, kill, newest_task, received, session_of, was_refused};
use crate::support::kernel::{is_alive, wait_until};
use crate::support::shell::{Done, Shell, signal};

/// Works alone, or says nothing.
const ALONE: &str = "tool flock -n alone sleep 0.2 && echo was alone";
/// The same, and leaves somebody behind who is deaf and works on.
const ALONE_AND_LEAVES: &str = "tool flock -n alone true && echo was alone ;; \
    tool-left trap '' TERM; flock alone sleep 1000 ;; tool while flock -n alone true; do sleep 0.01; done ;; say left";

fn resume(shell: &Shell, session: &str, script: &str) -> Done {
    shell.ostler(&["run", "--session", session, "--json", "--timeout", "20s", script])
}

/// Whether its tool said so: in the answer of a plain program, in the progress of one that reports tools.
fn was_alone(done: &Done) -> bool {
    let json = done.json();
    let answer = json["output"].as_str().unwrap_or_default();
    answer.lines().chain(done.stderr.lines()).any(|line| line.trim() == "was alone")
}

fn assert_was_alone(done: &Done) {
    assert!(done.code == 0 && was_alone(done), "{done:?}");
}

/// Two clients resume at once; how they ended.
fn two_resume(shell: &Shell, session: &str) -> Vec<Done> {
    let clients = [(); 2].map(|()| shell.spawn(&["run", "--session", session, "--json", ALONE]));
    clients.into_iter().map(finish).collect()
}

#[test]
fn case_a14_twenty_runtimes_of_one_session_are_one_tree_at_a_time() {
    everywhere_over_a_daemon(|shell| {
        let first = shell.run(ALONE_AND_LEAVES);
        assert_was_alone(&first);
        for _ in 0..19 {
            assert_was_alone(&resume(shell, &session_of(&first), ALONE_AND_LEAVES));
        }
    });
}

#[test]
fn case_a14_a_killed_runtime_is_replaced_when_what_it_left_is_gone() {
    everywhere_over_a_daemon(|shell| {
        let first = shell.ostler(&["run", "--harness", "warm", "--json", "say up"]);
        for _ in 0..20 {
            let alive = shell.marker.alive();
            let (agent, _) = alive.iter().find(|(_, line)| line.contains("app-server")).expect("it is warm");
            assert_was_alone(&resume(shell, &session_of(&first), ALONE_AND_LEAVES));
            nix::sys::signal::kill(nix::unistd::Pid::from_raw(*agent), Signal::SIGKILL).expect("killed");
            let next = wait_until(Duration::from_secs(20), "the session is resumed", || {
                let done = resume(shell, &session_of(&first), "tool flock -n alone true && echo was alone");
                // One that met the death of the agent is a failure, and told.
                if done.code == 1 { Err(format!("{done:?}")) } else { Ok(done) }
            });
            assert_was_alone(&next);
        }
    });
}

#[test]
fn case_a20_of_clients_that_resume_at_once_one_has_the_session() {
    everywhere(|shell| {
        for over_a_daemon in [false, true] {
            let daemon = over_a_daemon.then(|| shell.serve());
            let (session, before) = (session_of(&shell.run("say first")), shell.received());
            let mut asked = 0;
            for _ in 0..5 {
                let (refused, worked): (Vec<_>, Vec<_>) =
                    two_resume(shell, &session).into_iter().partition(was_refused);
                worked.iter().for_each(assert_was_alone);
                assert!(!worked.is_empty(), "{refused:?}");
                asked += worked.len();
            }
            assert_eq!(shell.received() - before, asked, "each that worked was asked once, and no other");
            daemon.into_iter().for_each(end);
        }
    });
}

#[test]
fn case_a20_what_a_killed_run_left_is_gone_before_its_session_is_resumed() {
    everywhere(|shell| {
        let first = shell.spawn(&[
            "run",
            "--harness",
            "scripted",
            "spawn ignore-term ;; tool-left trap '' TERM; flock alone sleep 1000 ;; say up ;; hang",
        ]);
        received(shell, 1);
        let session = shell.tasks()[0]["session"].as_str().expect("id").to_owned();
        kill(first);
        wait_until(Duration::from_secs(20), "the session is resumed", || {
            let (refused, worked): (Vec<_>, Vec<_>) = two_resume(shell, &session).into_iter().partition(was_refused);
            worked.iter().for_each(assert_was_alone);
            if worked.is_empty() { Err(format!("{refused:?}")) } else { Ok(()) }
        });
        let of_the_killed = shell.tasks().pop().expect("the first");
        assert_eq!(of_the_killed["outcome"]["evidence"]["note"], "orphaned", "{of_the_killed}");
    });
}

#[test]
fn case_a20_a_survivor_of_a_daemon_is_adopted_and_its_session_stays_busy() {
    everywhere(|shell| {
        let daemon = shell.serve();
        let gate = "tool flock alone sh -c 'while ! test -e go; do sleep 0.01; done'";
        let client = shell.spawn(&["run", "--harness", "scripted", &format!("say up ;; {gate} ;; say end")]);
        received(shell, 1);
        let session = shell.tasks()[0]["session"].as_str().expect("id").to_owned();
        let task = newest_task(shell);
        kill(daemon);
        finish(client);
        let daemon = shell.serve();
        let refused = two_resume(shell, &session);
        assert!(refused.iter().all(was_refused), "{refused:?}");
        std::fs::write(shell.work().join("go"), "").expect("written");
        let survivor = shell.ostler(&["task", "wait", &task, "--json"]).json();
        assert_eq!(survivor["outcome"]["verdict"], "completed", "{survivor}");
        assert_was_alone(&resume(shell, &session, ALONE));
        assert_eq!(shell.received(), 2);
        end(daemon);
    });
}

/// Only a daemon goes on with a daemon's work: until it is back, others leave it alone.
#[test]
fn case_a20_a_client_that_is_refused_leaves_a_daemons_survivor_alone() {
    everywhere(|shell| {
        let daemon = shell.serve();
        let gate = "tool while ! test -e go; do sleep 0.01; done";
        let client = shell.spawn(&["run", "--harness", "scripted", &format!("say up ;; {gate} ;; say end")]);
        received(shell, 1);
        let session = shell.tasks()[0]["session"].as_str().expect("id").to_owned();
        let task = newest_task(shell);
        kill(daemon);
        finish(client);
        let refused = resume(shell, &session, ALONE);
        assert_eq!((refused.code, shell.received()), (3, 1), "{refused:?}");
        let daemon = shell.serve();
        std::fs::write(shell.work().join("go"), "").expect("written");
        let survivor = shell.ostler(&["task", "wait", &task, "--json"]).json();
        assert_eq!(survivor["outcome"]["verdict"], "completed", "{survivor}");
        end(daemon);
    });
}

/// A child of the old agent, if it lives when one of the new agent's was seen.
fn overlap(shell: &Shell) -> Option<String> {
    let alive = shell.marker.alive();
    let new = alive.iter().find(|(_, line)| line.contains("was alone"))?;
    let is_old = |line: &str| line.contains("child heartbeat") || line.contains("child ignore-term");
    let old = alive.iter().find(|(pid, line)| is_old(line) && is_alive(*pid))?;
    Some(format!("{old:?} beside {new:?}"))
}

#[test]
fn case_a30_a_new_task_right_after_a_cancel_starts_when_the_old_tree_is_empty() {
    everywhere_over_a_daemon(|shell| {
        for (round, harness) in ["scripted", "warm"].into_iter().enumerate() {
            let beat = shell.work().join(format!("beat-{harness}"));
            let script = format!("ignore-cancel ;; spawn ignore-term ;; spawn heartbeat {} ;; hang", beat.display());
            let first = shell.spawn(&["run", "--harness", harness, "--json", &script]);
            wait_until(Duration::from_secs(20), "it beats", || if beat.exists() { Ok(()) } else { Err(String::new()) });
            assert_eq!(shell.ostler(&["task", "cancel", &newest_task(shell)]).code, 0);
            let session = shell.tasks()[0]["session"].as_str().expect("id").to_owned();
            let next = next_task(shell, &session);
            let last_beat = beat.metadata().and_then(|file| file.modified()).expect("a file");
            let second_prompt = shell.log.metadata().and_then(|file| file.modified()).expect("a log");
            assert!(last_beat < second_prompt, "the old agent's child outlived the new agent's start");
            assert_was_alone(&next);
            assert_eq!((finish(first).code, shell.received()), (130, 2 * round + 2));
        }
    });
}

/// Asks until the session takes it, and looks at the processes meanwhile.
fn next_task(shell: &Shell, session: &str) -> Done {
    wait_until(Duration::from_secs(30), "the session takes the next task", || {
        let mut next = shell.spawn(&["run", "--session", session, "--json", ALONE]);
        while next.try_wait().expect("a child").is_none() {
            assert_eq!(overlap(shell), None);
        }
        let done = finish(next);
        if was_refused(&done) { Err(done.stderr) } else { Ok(done) }
    })
}

#[test]
fn a_lock_of_a_living_process_is_seen() {
    let shell = Shell::new();
    let holder = shell.spawn(&["run", "--harness", "scripted", "tool-left flock alone sleep 1000 ;; say up ;; hang"]);
    received(&shell, 1);
    wait_until(Duration::from_secs(20), "it is held", || {
        if shell.marker.alive().iter().any(|(_, line)| line.starts_with("flock")) { Ok(()) } else { Err(String::new()) }
    });
    let other = shell.run(ALONE);
    assert!(!was_alone(&other), "{other:?}");
    signal(&holder, Signal::SIGINT);
    finish(holder);
    shell.assert_nothing_left();
}
