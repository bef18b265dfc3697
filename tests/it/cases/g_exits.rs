//! An exit is never lost, at whatever step it comes.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use ostler::door::{Door, Remote};
use ostler_supervisors::contract::{TaskId, Verdict};

use super::g_attempts::{agent_of, times};
use super::socket::{block_on, delegate, door, open_session};
use super::{app_server, settled, sigkill, text};
use crate::support::kernel::wait_until;
use crate::support::shell::{Done, Shell, assert_whole, signal};

fn run_in(shell: &Shell, session: &str, prompt: &str) -> Done {
    shell.ostler(&["run", "--session", session, "--json", prompt])
}

const TURN: &str = "accept ;; say hi ;; finish";

#[test]
fn case_g11_an_exit_at_each_step_of_an_open_is_told_at_once_and_the_next_open_succeeds() {
    let shell = Shell::new();
    app_server::add(&shell, &[]);
    super::configure(&shell, |config| config.replace("ready = \"5s\"", "ready = \"60s\""));
    let daemon = shell.serve();
    let steps = ["initialize", "initialized", "thread/start", "turn/start"];
    for step in steps.iter().flat_map(|step| [format!("before {step}"), format!("after {step}")]) {
        std::fs::write(shell.work().join("die-at"), &step).expect("written");
        let asked = Instant::now();
        let done = shell.ostler(&["run", "--harness", "protocol", "--json", "accept ;; say half"]);
        assert!(asked.elapsed() < Duration::from_secs(10), "{step}: {:?}", asked.elapsed());
        assert_eq!(done.json()["outcome"]["verdict"], "failed", "{step}: {done:?}");
        std::fs::remove_file(shell.work().join("die-at")).expect("removed");
        let session = text(&done.json(), "session").to_owned();
        let next = run_in(&shell, &session, TURN);
        assert_eq!((next.code, &next.json()["output"]), (0, &"hi".into()), "{step}: {next:?}");
        assert_whole(&shell.events(&session));
    }
    shell.end(daemon);
}

/// The warm agent of a session.
fn agent(shell: &Shell) -> i32 {
    wait_until(Duration::from_secs(10), "the agent lives", || {
        shell.marker.alive().first().map(|(pid, _)| *pid).ok_or_else(|| "none".to_owned())
    })
}

/// Whether a task failed by the death of its agent; else it was completed.
fn told(done: &Done) -> bool {
    let json = done.json();
    let failed = done.code == 1 && json["outcome"]["verdict"] == "failed" && json["evidence"]["exit"]["signal"] == 9;
    assert!(failed || done.code == 0, "{done:?}");
    failed
}

#[test]
fn case_g11_an_idle_agents_death_is_not_lost_whenever_the_next_task_comes() {
    let shell = Shell::new();
    app_server::add(&shell, &[]);
    let daemon = shell.serve();
    let first = shell.ostler(&["run", "--harness", "protocol", "--json", TURN]);
    let session = text(&first.json(), "session").to_owned();
    for round in 0..20u64 {
        let agent = agent(&shell);
        // The command itself takes some milliseconds to ask: the death comes before, during and after that.
        let next = shell.spawn(&["run", "--session", &session, "--json", TURN]);
        std::thread::sleep(Duration::from_millis(round * 4));
        sigkill(agent);
        let next = super::finish(next);
        // A turn fails with the agent that it was given to, and no later one does.
        let failed = told(&next);
        let mut after = run_in(&shell, &session, TURN);
        if !failed && told(&after) {
            after = run_in(&shell, &session, TURN);
        }
        assert_eq!((after.code, &after.json()["output"]), (0, &"hi".into()), "round {round}: {next:?} {after:?}");
    }
    settled(&shell);
    assert_whole(&shell.events(&session));
    shell.end(daemon);
}

#[test]
fn case_g12_a_start_that_waited_for_a_cancelled_task_serves_its_successor_alone() {
    let shell = Shell::with(
        crate::support::shell::Containment::Descent,
        "[limits]\nstart_concurrency = 1\nmax_live_runtimes = 1\n",
    );
    let daemon = shell.serve();
    let session = text(&shell.run("say first").json(), "session").to_owned();
    for round in 0..5 {
        let holder = shell.spawn(&["run", "--harness", "scripted", "say holder ;; hang"]);
        super::received(&shell, 1 + round * 2 + 1);
        for _ in 0..2 {
            let waiting = shell.spawn(&["run", "--session", &session, "--json", "say cancelled ;; hang"]);
            let task = wait_until(Duration::from_secs(10), "it waits", || {
                let waits =
                    |task: &&serde_json::Value| task["session"] == session.as_str() && task["outcome"].is_null();
                shell.tasks().iter().find(waits).map(|task| text(task, "id").to_owned()).ok_or_else(String::new)
            });
            assert_eq!(shell.ostler(&["task", "cancel", &task]).code, 0);
            assert_eq!(super::finish(waiting).code, 130);
        }
        let known = shell.tasks().len();
        let next = shell.spawn(&["run", "--session", &session, "--json", &format!("say mine-{round}")]);
        wait_until(Duration::from_secs(10), "it waits", || {
            if shell.tasks().len() > known { Ok(()) } else { Err(String::new()) }
        });
        signal(&holder, Signal::SIGINT);
        assert_eq!(super::finish(holder).code, 130);
        let next = super::finish(next);
        assert_eq!((next.code, next.json()["output"].as_str()), (0, Some(&*format!("mine-{round}\n"))), "{next:?}");
        assert_eq!(shell.received(), 1 + (round + 1) * 2, "round {round}: a cancelled task ran");
    }
    shell.end(daemon);
}

/// One session whose warm agent is killed around the instant at which the next task is accepted, again and again.
async fn deaths_around_the_next_task(shell: &Shell, worker: u64) {
    let door = door(shell).await;
    let session = open_session(shell, "protocol").await;
    for round in 0..60 {
        let words = format!("warm-{worker}-{round}");
        let task = delegate(&door, &session, &format!("accept ;; say {words} ;; finish")).await;
        let warm = verdict(shell, &door, &task, &words).await;
        if !matches!(warm, Verdict::Completed { .. }) {
            // It was given to the one that was killed just now.
            continue;
        }
        let agent = agent_of(shell, &format!("{words} "));
        let instant = Duration::from_micros((worker * 60 + round) * 6151 % 12_000);
        let killer = std::thread::spawn(move || {
            std::thread::sleep(instant);
            sigkill(agent);
        });
        let words = format!("next-{worker}-{round}");
        let task = delegate(&door, &session, &format!("accept ;; say {words} ;; finish")).await;
        verdict(shell, &door, &task, &format!("{words}, killed after {instant:?}")).await;
        killer.join().expect("killed");
        assert!(times(shell, &format!("{words} ")) <= 1, "{words}");
    }
}

/// It was completed, or its agent was killed; and it is told in time.
async fn verdict(shell: &Shell, door: &Remote, task: &TaskId, what: &str) -> Verdict {
    let waited = tokio::time::timeout(Duration::from_secs(10), door.wait(task)).await;
    let waited = waited.unwrap_or_else(|_| {
        let tasks = shell.tasks();
        let task = tasks.iter().find(|known| known["id"] == task.as_str()).expect("known");
        let events = shell.events(text(task, "session"));
        let last: Vec<_> = events.iter().rev().take(12).collect();
        panic!("{what}: no verdict of {task}: newest first {last:#?}, {}", shell.ostler(&["ps", "--json"]).stdout)
    });
    let outcome = waited.expect("a verdict").outcome.expect("an outcome");
    assert!(matches!(outcome.verdict, Verdict::Completed { .. } | Verdict::Failed { .. }), "{what}: {outcome:?}");
    outcome.verdict
}

#[test]
fn case_g11_an_exit_that_meets_the_next_task_at_any_instant_is_told_to_it() {
    let shell = Shell::new();
    app_server::add(&shell, &[]);
    let daemon = shell.serve();
    block_on(async {
        let workers = |worker| deaths_around_the_next_task(&shell, worker);
        tokio::join!(workers(0), workers(1), workers(2), workers(3));
    });
    shell.end(daemon);
}
