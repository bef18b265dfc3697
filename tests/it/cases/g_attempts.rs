//! Attempts: each has its own output, and none is made twice.

use std::time::Duration;

use nix::sys::signal::Signal;
use ostler::door::Door;
use ostler::error::Kind;
use ostler_supervisors::contract::TaskId;
use serde_json::Value;

use super::socket::{block_on, delegation, door, open_session};
use super::{app_server, end, finish, kill, kill_keepers, received, settled, sigkill, text};
use crate::support::kernel::wait_until;
use crate::support::shell::{Shell, assert_whole, signal};

/// How often agents received a prompt with these words.
pub(super) fn times(shell: &Shell, words: &str) -> usize {
    let log = std::fs::read_to_string(&shell.log).unwrap_or_default();
    log.lines().filter(|line| line.contains(words)).count()
}

/// Waits until one received them, and says which.
pub(super) fn agent_of(shell: &Shell, words: &str) -> i32 {
    wait_until(Duration::from_secs(30), "the prompt is received", || {
        let log = std::fs::read_to_string(&shell.log).unwrap_or_default();
        let line = log.lines().find(|line| line.contains(words)).ok_or("not yet")?;
        Ok::<_, String>(line.split(' ').next().and_then(|pid| pid.parse().ok()).expect("a pid"))
    })
}

/// A first task without consequence, and its session.
fn session_of(shell: &Shell, harness: &str, prompt: &str) -> String {
    let done = shell.ostler(&["run", "--harness", harness, "--json", prompt]);
    assert_eq!(done.code, 0, "{done:?}");
    text(&done.json(), "session").to_owned()
}

#[test]
fn case_g2_a_retry_after_a_timeout_of_the_client_runs_nothing_in_the_busy_session() {
    let shell = Shell::new();
    let daemon = shell.serve();
    let session = session_of(&shell, "scripted", "say first");
    for round in 0..5 {
        let prompt = format!("say once-{round} ;; sleep 400");
        signal(&daemon, Signal::SIGSTOP);
        // It has asked, and goes away before it is answered.
        block_on(async {
            let (door, session) = (door(&shell).await, session.parse().expect("an id"));
            let task = TaskId::generate(0);
            let asked = door.start_task(&session, &task, delegation(&prompt));
            let asked = tokio::time::timeout(Duration::from_millis(300), asked);
            assert!(asked.await.is_err(), "a daemon that stands still does not answer");
        });
        let retry = shell.spawn(&["run", "--session", &session, "--json", &prompt]);
        std::thread::sleep(Duration::from_millis(100));
        signal(&daemon, Signal::SIGCONT);
        // Whichever came first, the other one is refused while it runs.
        let retry = finish(retry);
        let refused = retry.code == 3 && retry.stderr.contains("is busy with");
        assert!(refused || retry.code == 0, "round {round}: {retry:?}");
        agent_of(&shell, &format!("once-{round} "));
        let task = text(&shell.tasks()[0], "id").to_owned();
        assert_eq!(shell.ostler(&["task", "wait", &task]).code, 0);
        assert_eq!(times(&shell, &format!("once-{round} ")), 1, "round {round}");
    }
    shell.end(daemon);
}

#[test]
fn case_g2_of_many_processes_without_a_daemon_in_one_session_each_is_run_once_or_refused() {
    let shell = Shell::new();
    let session = session_of(&shell, "scripted", "say first");
    for round in 0..3 {
        let before = shell.received();
        let prompt = format!("say once-{round} ;; sleep 300");
        let runs: Vec<_> = (0..8).map(|_| shell.spawn(&["run", "--session", &session, "--json", &prompt])).collect();
        let done: Vec<_> = runs.into_iter().map(finish).collect();
        let completed = done.iter().filter(|done| done.code == 0).count();
        let refused = done.iter().filter(|done| done.code == 3).count();
        assert!(completed >= 1 && completed + refused == 8, "round {round}: {done:?}");
        assert_eq!(shell.received() - before, completed, "round {round}: {done:?}");
    }
    assert_whole(&shell.events(&session));
    shell.assert_nothing_left();
}

/// The agent has read it, and has not said that it took it.
const UNACKNOWLEDGED: &str = "sleep 1.5 ;; accept ;; say late ;; finish";

#[test]
fn case_g3_a_submission_without_an_acknowledgement_is_gone_on_with_and_not_repeated() {
    let shell = Shell::new();
    app_server::add(&shell, &[]);
    let daemon = shell.serve();
    let client = shell.spawn(&["run", "--harness", "protocol", UNACKNOWLEDGED]);
    received(&shell, 1);
    kill(daemon);
    finish(client);
    let daemon = shell.serve();
    let outcome = settled(&shell)[0]["outcome"].clone();
    assert_eq!((&outcome["verdict"], &outcome["output"]["text"]), (&"completed".into(), &"late".into()), "{outcome}");
    assert_eq!(shell.received(), 1, "it was submitted twice");
    shell.end(daemon);
}

#[test]
fn case_g3_an_unknown_acceptance_blocks_its_context_and_is_not_repeated() {
    let shell = Shell::new();
    app_server::add(&shell, &[]);
    let daemon = shell.serve();
    let client = shell.spawn(&["run", "--harness", "protocol", UNACKNOWLEDGED]);
    received(&shell, 1);
    kill(daemon);
    kill_keepers(&shell);
    finish(client);
    for _ in 0..2 {
        let daemon = shell.serve();
        let task = settled(&shell)[0].clone();
        assert_eq!(task["outcome"]["verdict"], "unresolved", "{task}");
        let next =
            shell.ostler(&["run", "--session", text(&task, "session"), "--json", "accept ;; say next ;; finish"]);
        assert!(next.code == 3 && next.stderr.contains("blocked"), "{next:?}");
        assert_eq!(shell.received(), 1, "it was submitted twice");
        end(daemon);
    }
    let elsewhere = shell.ostler(&["run", "--harness", "protocol", "--json", "accept ;; say other ;; finish"]);
    assert_eq!((elsewhere.code, &elsewhere.json()["output"]), (0, &"other".into()), "{elsewhere:?}");
    shell.assert_nothing_left();
}

#[test]
fn case_g3_a_death_on_either_side_of_the_submission_submits_at_most_once() {
    let prompts =
        [("scripted", "say up ;; sleep 300 ;; say end"), ("protocol", "accept ;; say up ;; sleep 0.3 ;; finish")];
    for (harness, prompt) in prompts {
        for instant in ["before:task.Submit", "after:task.Submit"] {
            let shell = Shell::new();
            app_server::add(&shell, &[]);
            let mut daemon = shell.serve_with(&[("OSTLER_DIE_AT", instant)]);
            let client = shell.spawn(&["run", "--harness", harness, prompt]);
            daemon.wait().expect("it dies");
            finish(client);
            let daemon = shell.serve();
            assert_eq!(settled(&shell)[0]["outcome"]["verdict"], "completed", "{harness} {instant}");
            assert_eq!(shell.received(), 1, "{harness} {instant}");
            shell.end(daemon);
        }
    }
}

/// Agents that are killed in mid-turn, at many instants of it; the next task of the session follows at once.
fn killed_in_mid_turn(harness: &str, first: &str, script: impl Fn(u64) -> String, whole: impl Fn(u64) -> String) {
    let shell = Shell::new();
    app_server::add(&shell, &[]);
    // So many deaths in a row are the test's, and not the agent's.
    super::configure(&shell, |config| format!("{config}[harness.{harness}.restarts]\nfailures = 1000\n"));
    let daemon = shell.serve();
    let session = session_of(&shell, harness, first);
    for round in 0..25 {
        let client = shell.spawn(&["run", "--session", &session, "--json", &script(round)]);
        let agent = agent_of(&shell, &format!("mine-{round} "));
        std::thread::sleep(Duration::from_millis(round * 2));
        sigkill(agent);
        let done = finish(client);
        let json = done.json();
        assert_eq!((done.code, &json["outcome"]["verdict"]), (1, &"failed".into()), "round {round}: {done:?}");
        assert_eq!(json["evidence"]["exit"]["signal"], 9, "round {round}: {done:?}");
        let output = json["output"].as_str().unwrap_or_default();
        assert!(whole(round).starts_with(output), "round {round}: {done:?}");
        assert_eq!(times(&shell, &format!("mine-{round} ")), 1, "round {round}");
    }
    let events = shell.events(&session);
    assert_whole(&events);
    let late: Vec<&Value> = events.iter().filter(|event| event["type"] == "ostler.late_fact").collect();
    assert!(late.is_empty(), "{late:#?}");
    shell.end(daemon);
}

#[test]
fn case_g12_a_killed_programs_successor_has_only_its_own_output() {
    // What holds the pipes of the killed one is still there when its successor is asked for.
    let script = |round| format!("spawn hold-pipes ;; say mine-{round} ;; stream 40 12 1 ;; hang");
    let stream: String = (0..40).map(|piece| format!("{piece:07} xxxx\n")).collect();
    killed_in_mid_turn("scripted", "say first", script, |round| format!("mine-{round}\n{stream}"));
}

#[test]
fn case_g12_a_killed_app_servers_successor_has_only_its_own_turn() {
    let script = |round| format!("accept ;; say mine-{round} ;; sleep 0.02 ;; say -on ;; hang");
    killed_in_mid_turn("protocol", "accept ;; say first ;; finish", script, |round| format!("mine-{round}-on"));
}

/// The same id again is the same task: at once, after its end, and for the next daemon.
#[test]
fn case_g1_g4_a_task_that_is_asked_for_again_is_the_same_task() {
    let shell = Shell::new();
    let daemon = shell.serve();
    let task = TaskId::generate(0);
    let session = block_on(open_session(&shell, "scripted"));
    let ask = || {
        block_on(async {
            let door = door(&shell).await;
            door.start_task(&session, &task, delegation("say once")).await.expect("accepted");
            door.wait(&task).await.expect("a verdict");
        });
    };
    std::thread::scope(|scope| (0..8).for_each(|_| drop(scope.spawn(ask))));
    ask();
    kill(daemon);
    let daemon = shell.serve();
    block_on(async {
        let door = door(&shell).await;
        door.start_task(&session, &task, delegation("say once")).await.expect("the same task");
        let other = door.start_task(&session, &task, delegation("say twice")).await.expect_err("another task");
        assert_eq!(other.kind, Kind::InvalidInput, "{other}");
        let elsewhere = open_session(&shell, "scripted").await;
        let other = door.start_task(&elsewhere, &task, delegation("say once")).await.expect_err("another session");
        assert_eq!(other.kind, Kind::InvalidInput, "{other}");
    });
    let tasks = shell.tasks();
    assert_eq!((tasks.len(), shell.received()), (1, 1), "{tasks:?}");
    shell.end(daemon);
}
