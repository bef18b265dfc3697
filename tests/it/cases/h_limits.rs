//! Agents that want too much: they go before anybody else does.

use std::time::Duration;

use serde_json::Value;

use super::{configure, end, everywhere_with, finish, newest_task, population, session_of, settled, text};
use crate::support::kernel::wait_until;
use crate::support::shell::Shell;

fn oom_score_adj(pid: i32) -> i32 {
    let score = std::fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).expect("lives");
    score.trim().parse().expect("a number")
}

#[test]
fn case_h3_agents_and_what_they_start_are_killed_before_daemon_and_keepers() {
    let shell = Shell::new();
    let daemon = shell.serve();
    let own = oom_score_adj(daemon.id() as i32);
    for above in [0, 200] {
        // Whoever starts the daemon may have made it a likelier victim than others.
        std::fs::write(format!("/proc/{}/oom_score_adj", daemon.id()), (own + above).to_string()).expect("raised");
        let client = shell.spawn(&["run", "--harness", "scripted", "--json", "spawn setsid ;; spawn sleep ;; hang"]);
        population(&shell, 3);
        let agents = shell.marker.alive();
        let scores: Vec<i32> = agents.iter().map(|(pid, _)| oom_score_adj(*pid)).collect();
        let expected = (own + above + 500).min(1000);
        assert!(scores.iter().all(|score| *score == expected), "{expected}: {scores:?}: {agents:?}");
        let marker = crate::support::kernel::Marker::of(&shell.state());
        let keepers: Vec<_> = marker.alive().into_iter().filter(|(_, line)| line.contains("ostler-keeper")).collect();
        assert!(!keepers.is_empty());
        assert!(keepers.iter().all(|(pid, _)| oom_score_adj(*pid) < expected), "{keepers:?}");
        assert_eq!(oom_score_adj(daemon.id() as i32), own + above);
        assert_eq!(shell.ostler(&["task", "cancel", &newest_task(&shell)]).code, 0);
        assert_eq!(finish(client).code, 130);
        shell.marker.assert_gone(Duration::from_secs(10));
    }
    shell.end(daemon);
}

/// A ceiling that holds on every machine: it is the agent that fails, and nobody else notices.
#[test]
fn case_h3_an_agent_that_wants_more_than_its_address_space_fails_alone() {
    let shell = Shell::new();
    configure(&shell, |config| {
        let mark = shell.marker.text();
        format!(
            "{config}[harness.hungry]\nadapter = \"oneshot\"\ncommand = [\"/bin/sh\", \"-c\"]\n\
             environment = {{ MARK = {mark:?} }}\n[harness.hungry.limits]\naddress_space_mib = 256\n"
        )
    });
    let daemon = shell.serve();
    let neighbour = shell.spawn(&["run", "--harness", "scripted", "--json", "stream 20 10 50"]);
    let done = shell.ostler(&["run", "--harness", "hungry", "--json", "echo begun; head -c 2048m /dev/zero | tail"]);
    assert_eq!((done.code, text(&done.json()["outcome"], "verdict")), (1, "failed"), "{done:?}");
    let limited = shell.events(&session_of(&done)).into_iter().find(|event| event["type"] == "ostler.runtime.limited");
    assert_eq!(limited.expect("told")["data"]["limits"][0]["standing"], "in_force");
    assert_eq!(finish(neighbour).code, 0);
    shell.end(daemon);
}

const BOMBED: &str = "[harness.bomb]\nadapter = \"oneshot\"\ncommand = [\"/bin/sh\", \"-c\"]\n\
     environment = { MARK = \"@MARK@\" }\n[harness.bomb.limits]\nprocesses = 32\n\
     [harness.bomb.deadlines]\nterminate = \"200ms\"\nend_of_input = \"50ms\"\n";

/// Where the kernel can hold the tree to its number it does; elsewhere that is said. All of it goes either way.
#[test]
fn case_h4_a_fork_bomb_stays_below_its_number_or_that_is_said_and_it_is_swept() {
    everywhere_with(BOMBED, |shell| {
        let daemon = shell.serve();
        let bomb = "echo begun; i=0; while [ $i -lt 150 ]; do sleep 1000 & i=$((i+1)); done; wait";
        let client = shell.spawn(&["run", "--harness", "bomb", "--json", bomb]);
        let standing = wait_until(Duration::from_secs(30), "its limit is told", || {
            let session = shell.tasks().first().map(|task| text(task, "session").to_owned()).ok_or("no task")?;
            let told = shell.events(&session).into_iter().find(|event| event["type"] == "ostler.runtime.limited");
            told.map(|event| event["data"]["limits"][0].clone()).ok_or_else(|| "not told".to_owned())
        });
        assert_eq!(standing["limit"], "processes", "{standing}");
        if standing["standing"] == "in_force" {
            let most = shell.marker.alive().len();
            assert!(most <= 32, "{most}");
        } else {
            assert!(["no_leaf", "not_delegated", "refused"].contains(&text(&standing, "standing")), "{standing}");
            population(shell, 151);
        }
        // In force, its shell may have ended by itself for want of processes.
        assert_eq!(shell.ostler(&["task", "cancel", &newest_task(shell)]).code, 0);
        finish(client);
        let verdict = settled(shell)[0]["outcome"]["verdict"].clone();
        assert!([Value::from("cancelled"), Value::from("failed")].contains(&verdict), "{verdict}");
        assert_eq!(shell.marker.alive(), vec![], "the verdict came before the proof");
        end(daemon);
    });
}

/// Each generation starts the next one and ends: no list of processes ever holds the one that has to be ended.
#[test]
fn case_h4_a_tree_that_forks_without_end_is_swept() {
    everywhere_with("", |shell| {
        let daemon = shell.serve();
        let client =
            shell.spawn(&["run", "--harness", "scripted", "--json", "spawn fork-loop ;; spawn fork-loop ;; hang"]);
        population(shell, 3);
        assert_eq!(shell.ostler(&["task", "cancel", &newest_task(shell)]).code, 0);
        assert_eq!(finish(client).code, 130);
        assert_eq!(shell.marker.alive(), vec![]);
        end(daemon);
    });
}
