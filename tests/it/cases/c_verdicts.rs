//! A verdict follows its proof, comes once, and waits for no reader.

use std::process::Child;
use std::time::{Duration, Instant};

use ostler::ledger::{SqliteLedger, SqliteOptions};
use ostler_supervisors::ledger::Ledger;
use serde_json::Value;

use super::{configure, finish, is_terminal, kill, kill_keepers, received, settled, text};
use crate::support::kernel::wait_until;
use crate::support::shell::{Containment, Shell, assert_whole};

/// What of the agents' processes lives at the instant at which the ledger has a verdict for every task.
fn alive_at_the_verdict(shell: &Shell) -> Vec<(i32, String)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let options = SqliteOptions::new(shell.state().join("ledger.sqlite"));
        let ledger = SqliteLedger::open(options).await.expect("opens");
        let deadline = Instant::now() + Duration::from_secs(30);
        while ledger.tasks(None).await.expect("readable").iter().any(|task| task.outcome.is_none()) {
            assert!(Instant::now() < deadline, "no verdict");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        shell.marker.alive()
    })
}

/// Starts the next daemon, and looks on from before it listens.
fn next_daemon(shell: &Shell) -> (Child, Vec<(i32, String)>) {
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| alive_at_the_verdict(shell));
        let daemon = shell.serve();
        (daemon, watch.join().expect("watched"))
    })
}

fn population(shell: &Shell, count: usize) {
    wait_until(Duration::from_secs(20), "the processes are there", || {
        let alive = shell.marker.alive().len();
        if alive >= count { Ok(()) } else { Err(format!("{alive} of {count}")) }
    });
}

/// A tree that takes its time to end.
const STUBBORN: &str = "spawn ignore-term ;; spawn setsid ;; say up ;; hang";

#[test]
fn case_c2_what_killed_keepers_left_is_gone_before_the_verdict() {
    for containment in Containment::all() {
        let shell = Shell::with(containment, "");
        let daemon = shell.serve();
        let client = shell.spawn(&["run", "--harness", "scripted", STUBBORN]);
        population(&shell, 3);
        kill(daemon);
        kill_keepers(&shell);
        finish(client);
        let (daemon, alive) = next_daemon(&shell);
        assert_eq!(alive, vec![], "the verdict came before the proof");
        let outcome = &shell.tasks()[0]["outcome"];
        assert_eq!((&outcome["verdict"], &outcome["reason"]), (&"unresolved".into(), &"OBSERVATION_LOST".into()));
        shell.end(daemon);
    }
}

#[test]
fn case_c2_an_owner_that_returns_while_its_keepers_give_up_judges_after_them() {
    for late in [1100, 1300, 1600, 2200] {
        let shell = Shell::new();
        configure(&shell, |config| {
            let config = config.replace("orphan_grace = \"20s\"", "orphan_grace = \"1s\"");
            config.replace("terminate = \"200ms\"", "terminate = \"1s\"")
        });
        let daemon = shell.serve();
        let client = shell.spawn(&["run", "--harness", "scripted", STUBBORN]);
        population(&shell, 3);
        kill(daemon);
        finish(client);
        // From the end of the grace to after the end of the ladder: the instant of the return is what is tried.
        std::thread::sleep(Duration::from_millis(late));
        let (daemon, alive) = next_daemon(&shell);
        assert_eq!(alive, vec![], "after {late} ms: the verdict came before the proof");
        let outcome = &shell.tasks()[0]["outcome"];
        let said = (&outcome["verdict"], &outcome["evidence"]["note"]);
        assert_eq!(said, (&"failed".into(), &"orphaned".into()), "after {late} ms: {outcome}");
        shell.end(daemon);
    }
}

#[test]
fn case_c14_cancelled_is_said_when_nothing_is_left() {
    for containment in Containment::all() {
        let shell = Shell::with(containment, "");
        let daemon = shell.serve();
        let client = shell.spawn(&["run", "--harness", "scripted", STUBBORN]);
        population(&shell, 3);
        let task = text(&shell.tasks()[0], "id").to_owned();
        assert_eq!(shell.ostler(&["task", "cancel", &task]).code, 0);
        assert_eq!(alive_at_the_verdict(&shell), vec![], "the verdict came before the proof");
        assert_eq!(shell.tasks()[0]["outcome"]["verdict"], "cancelled");
        assert_eq!(finish(client).code, 130);
        shell.end(daemon);
    }
}

/// More events than any pipe or socket between an agent and a reader holds.
const MUCH: &str = "babble 20000";

#[test]
fn case_c6_a_stalled_client_of_the_daemon_delays_no_verdict() {
    let shell = Shell::new();
    let daemon = shell.serve();
    // Nobody reads its pipe.
    let client = shell.spawn(&["run", "--harness", "json", "--events", MUCH]);
    received(&shell, 1);
    assert_eq!(settled(&shell)[0]["outcome"]["verdict"], "completed");
    kill(client);
    shell.end(daemon);
}

#[test]
fn case_c6_followers_that_never_read_delay_no_verdict_and_no_stop() {
    let shell = Shell::new();
    let daemon = shell.serve();
    let client = shell.spawn(&["run", "--harness", "json", "--json", &format!("sleep 500 ;; {MUCH} ;; hang")]);
    received(&shell, 1);
    let task = shell.tasks()[0].clone();
    let followers: Vec<_> = (0..3).map(|_| shell.spawn(&["events", text(&task, "session"), "--follow"])).collect();
    wait_until(Duration::from_secs(30), "all was said", || {
        let said = shell.events(text(&task, "session")).len();
        if said > 20_000 { Ok(()) } else { Err(format!("{said}")) }
    });
    assert_eq!(shell.ostler(&["task", "cancel", text(&task, "id")]).code, 0);
    assert_eq!(finish(client).code, 130);
    assert_eq!(settled(&shell)[0]["outcome"]["verdict"], "cancelled");
    followers.into_iter().for_each(kill);
    shell.end(daemon);
}

#[test]
fn case_c6_a_stalled_client_of_the_daemon_delays_no_stop() {
    let shell = Shell::new();
    let daemon = shell.serve();
    let client = shell.spawn(&["run", "--harness", "json", "--events", &format!("{MUCH} ;; hang")]);
    received(&shell, 1);
    let task = text(&shell.tasks()[0], "id").to_owned();
    assert_eq!(shell.ostler(&["task", "cancel", &task]).code, 0);
    assert_eq!(settled(&shell)[0]["outcome"]["verdict"], "cancelled");
    kill(client);
    shell.end(daemon);
}

#[test]
fn case_c12_clients_that_vanish_leave_no_task_without_an_end() {
    let shell = Shell::new();
    let daemon = shell.serve();
    for round in 0..10u64 {
        let client = shell.spawn(&["run", "--harness", "scripted", "--events", "stream 20 16 10 ;; say end"]);
        std::thread::sleep(Duration::from_millis(20 + round * 25));
        kill(client);
    }
    for task in settled(&shell) {
        assert_eq!(task["outcome"]["verdict"], "completed", "{task}");
        one_end(&shell, text(&task, "session"));
    }
    idle(&shell);
    shell.end(daemon);
}

#[test]
fn case_c12_every_kind_of_error_has_one_end_and_leaves_the_session_usable() {
    let shell = Shell::new();
    let daemon = shell.serve();
    for script in
        ["say x ;; exit 3", "say x ;; crash 9", "spawn setsid ;; crash 11", "close-stdout ;; exit 1", "exit 1"]
    {
        let done = shell.run(script);
        assert_eq!((done.code, &done.json()["outcome"]["verdict"]), (1, &"failed".into()), "{script}: {done:?}");
        let session = text(&done.json(), "session").to_owned();
        one_end(&shell, &session);
        let next = shell.ostler(&["run", "--session", &session, "--json", "say next"]);
        assert_eq!((next.code, next.json()["output"].as_str()), (0, Some("next\n")), "{script}: {next:?}");
    }
    idle(&shell);
    shell.end(daemon);
}

/// A run has one terminal event, and it is the last of it.
fn one_end(shell: &Shell, session: &str) {
    let events = shell.events(session);
    assert_whole(&events);
    let of_run: Vec<&Value> = events.iter().filter(|event| event["run_id"].is_string()).collect();
    assert_eq!(of_run.iter().filter(|event| is_terminal(event)).count(), 1, "{events:#?}");
    assert!(of_run.last().is_some_and(|event| is_terminal(event)), "{events:#?}");
}

/// No session says that it is busy.
fn idle(shell: &Shell) {
    wait_until(Duration::from_secs(10), "nothing is busy", || {
        let tree = shell.ostler(&["tree", "--json"]).stdout;
        if tree.contains("\"busy\"") { Err(tree) } else { Ok(()) }
    });
}
