//! Cancel means that nothing of the task acts any more.

use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::{everywhere_over_a_daemon, finish, session_of};
use crate::support::kernel::wait_until;
use crate::support::shell::{Containment, Done, Shell, signal};

#[test]
fn case_b1_after_cancelled_nothing_of_the_task_writes_any_more() {
    for containment in Containment::all() {
        let shell = Shell::with(containment, "");
        let beat = shell.work().join("beat");
        let script = format!("spawn heartbeat {} ;; say up ;; hang", beat.display());
        let child = shell.spawn(&["run", "--harness", "scripted", "--json", &script]);
        wait_until(Duration::from_secs(20), "it beats", || if beat.exists() { Ok(()) } else { Err(String::new()) });
        signal(&child, Signal::SIGINT);
        let done: Done = child.wait_with_output().expect("ends").into();
        assert_eq!((done.code, done.json()["outcome"]["verdict"].as_str()), (130, Some("cancelled")), "{done:?}");
        let last = std::fs::read_to_string(&beat).expect("readable");
        std::thread::sleep(Duration::from_secs(1));
        assert_eq!(std::fs::read_to_string(&beat).expect("readable"), last);
        shell.assert_nothing_left();
    }
}

#[test]
fn case_b16_a_cancel_can_be_asked_again_and_from_elsewhere() {
    for containment in Containment::all() {
        let shell = Shell::with(containment, "");
        let child = shell.spawn(&["run", "--harness", "scripted", "--json", "spawn ignore-term ;; say up ;; hang"]);
        wait_until(Duration::from_secs(20), "it runs", || {
            if shell.marker.alive().len() >= 2 { Ok(()) } else { Err(String::new()) }
        });
        let task = shell.tasks()[0]["id"].as_str().expect("id").to_owned();
        for _ in 0..3 {
            let asked = shell.ostler(&["task", "cancel", &task]);
            assert_eq!(asked.code, 0, "{asked:?}");
        }
        let done: Done = child.wait_with_output().expect("ends").into();
        assert_eq!(done.code, 130, "{done:?}");
        shell.assert_nothing_left();
    }
}

/// The agent that serves a session, while it is warm.
fn warm_agent(shell: &Shell) -> i32 {
    let alive = shell.marker.alive();
    let agents: Vec<_> = alive.iter().filter(|(_, line)| line.ends_with("app-server ")).map(|(pid, _)| *pid).collect();
    assert_eq!(agents.len(), 1, "{alive:?}");
    agents[0]
}

/// Runs a script on the warm agent, and cancels it once its file is there.
fn cancelled_at(shell: &Shell, file: &Path, script: &str) -> Done {
    let child = shell.spawn(&["run", "--harness", "warm", "--json", script]);
    wait_until(Duration::from_secs(20), "it works", || if file.exists() { Ok(()) } else { Err(String::new()) });
    signal(&child, Signal::SIGINT);
    let done = finish(child);
    assert_eq!((done.code, done.json()["outcome"]["verdict"].as_str()), (130, Some("cancelled")), "{done:?}");
    done
}

fn assert_stands_still(file: &Path) {
    let read = || std::fs::read_to_string(file).expect("readable");
    let last = read();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(read(), last, "{} is still written", file.display());
}

#[test]
fn case_b4_b12_a_cancel_is_no_close_and_the_next_task_has_the_same_process() {
    everywhere_over_a_daemon(|shell| {
        let done = cancelled_at(shell, &shell.work().join("up"), "touch up ;; hang");
        assert_eq!(done.json()["evidence"]["proof"], "end_report", "{done:?}");
        let agent = warm_agent(shell);
        for _ in 0..3 {
            let next = shell.ostler(&["run", "--session", &session_of(&done), "--json", "say next"]);
            assert_eq!((next.code, next.json()["output"].as_str()), (0, Some("next")), "{next:?}");
            assert_eq!(warm_agent(shell), agent);
        }
        assert_eq!(shell.ostler(&["session", "close", &session_of(&done)]).code, 0);
        assert_eq!(shell.marker.alive(), vec![], "a close is a close");
    });
}

#[test]
fn case_b10_an_agent_that_never_answers_a_cancel_is_stopped_and_the_next_task_is_taken() {
    everywhere_over_a_daemon(|shell| {
        let script = "ignore-cancel ;; spawn ignore-term ;; touch up ;; hang";
        let asked = Instant::now();
        let done = cancelled_at(shell, &shell.work().join("up"), script);
        assert!(asked.elapsed() < Duration::from_secs(20), "{:?}", asked.elapsed());
        assert_eq!(done.json()["evidence"]["proof"], "tree_empty", "{done:?}");
        assert_eq!(shell.marker.alive(), vec![]);
        let next = shell.ostler(&["run", "--session", &session_of(&done), "--json", "say next"]);
        assert_eq!((next.code, next.json()["output"].as_str()), (0, Some("next")), "{next:?}");
    });
}

#[test]
fn case_b15_background_work_of_a_cancelled_task_ends_and_its_agent_stays() {
    everywhere_over_a_daemon(|shell| {
        let (beat, forked) = (shell.work().join("beat"), shell.work().join("forked"));
        let in_the_background =
            "tool-left (trap '' TERM; while :; do date +%s%N > forked; sleep 0.02; done) & sleep 1000";
        let script = format!(
            "spawn heartbeat {} ;; {in_the_background} ;; tool while ! test -s beat; do sleep 0.01; done ;; hang",
            beat.display()
        );
        let done = cancelled_at(shell, &forked, &script);
        [&beat, &forked].into_iter().for_each(|file| assert_stands_still(file));
        let agent = warm_agent(shell);
        assert_eq!(shell.marker.alive().len(), 1, "nothing but the agent");
        let next = shell.ostler(&["run", "--session", &session_of(&done), "--json", "say next"]);
        assert_eq!((next.code, warm_agent(shell)), (0, agent), "{next:?}");
        [&beat, &forked].into_iter().for_each(|file| assert_stands_still(file));
    });
}
