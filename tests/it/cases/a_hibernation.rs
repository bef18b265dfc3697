//! A session outlives its runtimes: those without work make room, and come back with the session's past.

use std::time::Duration;

use serde_json::Value;

use super::{app_server, configure, kill, text};
use crate::support::kernel::wait_until;
use crate::support::shell::{Containment, Shell};

/// Agents that can resume, closed when they were idle for so long.
fn shell(containment: Containment, limits: &str, idle: &str) -> Shell {
    let shell = Shell::with(containment, limits);
    let history = shell.path().join("history");
    std::fs::create_dir(&history).expect("made");
    configure(&shell, |config| {
        let (others, warm) = config.split_once("[harness.warm]\n").expect("there is one");
        let log = format!("OSTLER_AGENT_HISTORY = {:?}, OSTLER_AGENT_LOG", history.display().to_string());
        format!("{others}[harness.warm]\nidle_timeout = {idle:?}\n{}", warm.replacen("OSTLER_AGENT_LOG", &log, 1))
    });
    shell
}

fn turn(shell: &Shell, session: Option<&str>, prompt: &str) -> Value {
    let whose = session.map_or(["--harness", "warm"], |session| ["--session", session]);
    let done = shell.ostler(&["run", whose[0], whose[1], "--json", prompt]);
    assert_eq!(done.code, 0, "{done:?}");
    done.json()
}

/// The agents that live now.
fn agents(shell: &Shell) -> usize {
    shell.marker.alive().iter().filter(|(_, line)| line.ends_with("app-server ")).count()
}

fn of_kind(shell: &Shell, session: &str, kind: &str) -> Vec<Value> {
    shell.events(session).into_iter().filter(|event| event["type"] == kind).map(|event| event["data"].clone()).collect()
}

#[test]
fn case_a1_fifty_sessions_without_work_hold_no_process() {
    for containment in Containment::all() {
        let shell = shell(containment, "", "1s");
        let daemon = shell.serve();
        let sessions: Vec<_> = (0..50).map(|_| text(&turn(&shell, None, "say hi"), "session").to_owned()).collect();
        wait_until(Duration::from_secs(30), "no agent is left", || match agents(&shell) {
            0 => Ok(()),
            left => Err(left.to_string()),
        });
        let listed = shell.ostler(&["session", "list", "--json"]).json();
        assert_eq!(listed.as_array().expect("a list").len(), 50);
        for session in [&sessions[0], &sessions[49]] {
            assert_eq!(of_kind(&shell, session, "ostler.session.hibernated")[0]["why"], "idle_timeout");
            turn(&shell, Some(session), "say again");
            let opened = of_kind(&shell, session, "ostler.runtime.opened");
            assert_eq!((&opened[0]["resume"], &opened[1]["resume"]), (&Value::Null, &"exact-resume".into()));
        }
        shell.end(daemon);
        shell.assert_nothing_left();
    }
}

#[test]
fn case_a24_a_full_pool_suspends_who_was_idle_longest_and_resumes_him() {
    for containment in Containment::all() {
        let shell = shell(containment, "[limits]\nmax_live_runtimes = 3\n", "1h");
        let daemon = shell.serve();
        let open = || text(&turn(&shell, None, "say hi"), "session").to_owned();
        let sessions: Vec<_> = (0..3).map(|_| open()).collect();
        // Used again, the first is not the one that was idle longest.
        turn(&shell, Some(&sessions[0]), "say again");
        assert_eq!(agents(&shell), 3);
        let fourth = open();
        let suspended = |session: &str| of_kind(&shell, session, "ostler.session.hibernated").len();
        assert_eq!(sessions.iter().map(|id| suspended(id)).collect::<Vec<_>>(), [0, 1, 0]);
        assert_eq!(of_kind(&shell, &sessions[1], "ostler.session.hibernated")[0]["why"], "place_wanted");
        // All of them go round in a pool that is too small for them.
        for session in sessions.iter().chain([&fourth]).cycle().take(12) {
            turn(&shell, Some(session), "say round");
            assert!(agents(&shell) <= 3);
        }
        shell.end(daemon);
        shell.assert_nothing_left();
    }
}

/// The pool is as large as before, also where a daemon finds more in it than it would have let in.
#[test]
fn a_restart_makes_the_pool_no_larger_and_no_start_waits_for_who_is_idle() {
    for most in [3, 2, 1] {
        let shell = shell(Containment::Descent, "[limits]\nmax_live_runtimes = 3\n", "1h");
        let daemon = shell.serve();
        let open = || text(&turn(&shell, None, "say hi"), "session").to_owned();
        let sessions: Vec<_> = (0..3).map(|_| open()).collect();
        kill(daemon);
        configure(&shell, |config| config.replace("runtimes = 3", &format!("runtimes = {most}")));
        let daemon = shell.serve();
        assert_eq!(agents(&shell), 3, "they were adopted");
        let fourth = open();
        assert!(agents(&shell) <= most, "{} of {most}", agents(&shell));
        for session in sessions.iter().chain([&fourth]) {
            turn(&shell, Some(session), "say again");
            assert!(agents(&shell) <= most, "{} of {most}", agents(&shell));
        }
        let suspended = of_kind(&shell, &sessions[0], "ostler.session.hibernated");
        assert!(suspended.iter().all(|data| data["why"] == "place_wanted"), "{suspended:?}");
        shell.end(daemon);
        shell.assert_nothing_left();
    }
}

#[test]
fn what_a_task_left_running_on_purpose_keeps_its_runtime() {
    let shell = shell(Containment::Descent, "", "500ms");
    let daemon = shell.serve();
    let keeps = text(&turn(&shell, None, "tool-left sleep 1000 ;; say done"), "session").to_owned();
    let idle = text(&turn(&shell, None, "say hi"), "session").to_owned();
    wait_until(Duration::from_secs(20), "the later one is hibernated", || {
        let told = of_kind(&shell, &idle, "ostler.session.hibernated").len();
        if told == 1 && agents(&shell) == 1 { Ok(()) } else { Err(format!("{told}, {} agents", agents(&shell))) }
    });
    assert_eq!(of_kind(&shell, &keeps, "ostler.session.hibernated").len(), 0);
    assert!(shell.marker.alive().iter().any(|(_, line)| line.starts_with("sleep 1000")));
    shell.end(daemon);
    shell.assert_nothing_left();
}

#[test]
fn a_session_that_the_harness_has_lost_fails_by_name_or_begins_anew_once() {
    for (policy, code) in [("fail", 3), ("fresh", 0)] {
        let shell = Shell::new();
        app_server::add(&shell, &[]);
        configure(&shell, |config| {
            let more = format!("[harness.protocol]\nidle_timeout = \"100ms\"\non_lost_session = {policy:?}\n");
            config.replace("[harness.protocol]\n", &more)
        });
        let daemon = shell.serve();
        let first = shell.ostler(&["run", "--harness", "protocol", "--json", "accept ;; say one ;; finish"]);
        let session = text(&first.json(), "session").to_owned();
        wait_until(Duration::from_secs(20), "it is hibernated", || {
            let alive = shell.marker.alive();
            if alive.is_empty() { Ok(()) } else { Err(format!("{alive:?}")) }
        });
        std::fs::write(shell.work().join("lost"), "").expect("written");
        let next = shell.ostler(&["run", "--session", &session, "--json", "accept ;; say two ;; finish"]);
        assert_eq!(next.code, code, "{policy}: {next:?}");
        let lost = of_kind(&shell, &session, "ostler.session.native_lost");
        let opened = of_kind(&shell, &session, "ostler.runtime.opened");
        let kinds: Vec<_> = opened.iter().map(|data| data["resume"].as_str()).collect();
        match policy {
            "fail" => {
                assert!(next.json()["outcome"]["message"].to_string().contains("has lost its session"), "{next:?}");
                assert_eq!((lost.len(), kinds), (0, vec![None, Some("exact-resume")]));
            }
            _ => {
                assert_eq!(text(&next.json(), "output"), "two");
                assert_eq!((lost.len(), kinds), (1, vec![None, Some("exact-resume"), Some("fresh-session")]));
            }
        }
        assert_eq!(shell.received(), 1 + usize::from(code == 0), "nothing was submitted twice");
        shell.end(daemon);
        shell.assert_nothing_left();
    }
}
