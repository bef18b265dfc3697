//! Orphans, zombies, MCP servers. Every case with a control group leaf and without one.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::{everywhere, finish, population};
use crate::support::kernel::wait_until;
use crate::support::shell::{Containment, Done, Shell, signal};

#[test]
fn case_a2_eighty_children_are_reclaimed_at_close() {
    everywhere(|shell| {
        let script = format!("{} say up ;; hang", "spawn setsid ;; ".repeat(80));
        let child = shell.spawn(&["run", "--harness", "scripted", "--json", &script]);
        population(shell, 81);
        signal(&child, Signal::SIGINT);
        let done: Done = child.wait_with_output().expect("ends").into();
        assert_eq!(done.json()["evidence"]["proof"], "tree_empty");
        assert_eq!(shell.marker.alive(), vec![]);
    });
}

#[test]
fn case_a3_mcp_servers_die_with_their_agent() {
    everywhere(|shell| {
        let done = shell.run("spawn quiet-server ;; spawn quiet-server ;; say done");
        assert_eq!(done.json()["outcome"]["verdict"], "completed", "{done:?}");
        assert_eq!(shell.marker.alive(), vec![]);
    });
}

#[test]
fn case_a5_rows_show_root_pid_group_and_size() {
    everywhere(|shell| {
        let child = shell.spawn(&["run", "--harness", "scripted", "spawn setsid ;; say up ;; hang"]);
        population(shell, 2);
        let rows = shell.ostler(&["ps", "--json"]).json();
        let row = &rows[0];
        assert!(row["root_pid"].as_i64().is_some_and(|pid| pid > 1), "{row}");
        assert!(row["tree_size"].as_u64().is_some_and(|size| size >= 2), "{row}");
        assert!(row["processes"][0]["start"].as_u64().is_some_and(|start| start > 0), "{row}");
        signal(&child, Signal::SIGINT);
        child.wait_with_output().expect("ends");
    });
}

#[test]
fn case_a6_a_hundred_opens_and_closes_leave_a_constant_count() {
    everywhere(|shell| {
        for _ in 0..50 {
            assert_eq!(shell.run("spawn setsid ;; say x").code, 0);
        }
        assert_eq!(shell.marker.alive(), vec![]);
    });
}

#[test]
fn case_a7_a_sigterm_of_the_daemon_runs_the_ladder_on_all() {
    everywhere(|shell| {
        let mut daemon = shell.serve();
        let runs: Vec<_> = (0..20)
            .map(|_| shell.spawn(&["run", "--harness", "scripted", "--json", "spawn ignore-term ;; say up ;; hang"]))
            .collect();
        population(shell, 40);
        signal(&daemon, Signal::SIGTERM);
        let asked = Instant::now();
        assert!(daemon.wait().expect("ends").success());
        assert!(asked.elapsed() < Duration::from_secs(15), "{:?}", asked.elapsed());
        assert_eq!(shell.marker.alive(), vec![]);
        runs.into_iter().for_each(|run| drop(run.wait_with_output()));
        for task in shell.tasks() {
            assert_eq!(task["outcome"]["cause"], "shutdown", "{task}");
        }
    });
}

#[test]
fn case_a9_agents_of_a_killed_daemon_are_adopted_or_end_within_the_grace() {
    for restart in [true, false] {
        for containment in Containment::all() {
            let shell = Shell::with(containment, "");
            let config = std::fs::read_to_string(shell.path().join("ostler.toml")).expect("readable");
            let short = config.replace("orphan_grace = \"20s\"", "orphan_grace = \"3s\"");
            std::fs::write(shell.path().join("ostler.toml"), if restart { config } else { short }).expect("written");
            let mut daemon = shell.serve();
            let runs: Vec<_> = (0..20)
                .map(|_| shell.spawn(&["run", "--harness", "scripted", "--json", "say up ;; sleep 2500 ;; say end"]))
                .collect();
            population(&shell, 20);
            daemon.kill().expect("killed");
            daemon.wait().expect("reaped");
            runs.into_iter().for_each(|run| drop(run.wait_with_output()));
            if restart {
                let mut daemon = shell.serve();
                wait_until(Duration::from_secs(30), "all are settled", || {
                    let open = shell.tasks().iter().filter(|task| task["outcome"].is_null()).count();
                    if open == 0 { Ok(()) } else { Err(format!("{open} open")) }
                });
                for task in shell.tasks() {
                    assert_eq!(task["outcome"]["output"]["text"], "up\nend\n", "{task}");
                }
                signal(&daemon, Signal::SIGTERM);
                daemon.wait().expect("ends");
            } else {
                shell.marker.assert_gone(Duration::from_secs(20));
                let mut daemon = shell.serve();
                signal(&daemon, Signal::SIGTERM);
                daemon.wait().expect("ends");
            }
            shell.assert_nothing_left();
        }
    }
}

#[test]
fn case_a11_runtimes_started_through_a_shell_end_as_trees() {
    for containment in Containment::all() {
        let shell = Shell::with(
            containment,
            "[harness.wrapped]\nadapter = \"oneshot\"\ncommand = [\"sh\", \"-c\", \"sleep 1000 & sleep 1000; true\"]\n\
             environment = { MARK = \"@MARK@\" }\n\
             [harness.wrapped.deadlines]\nend_of_input = \"10ms\"\nterminate = \"100ms\"\n",
        );
        for _ in 0..10 {
            let run = shell.spawn(&["run", "--harness", "wrapped", "--json", "x"]);
            population(&shell, 3);
            signal(&run, Signal::SIGINT);
            let done = finish(run);
            assert_eq!(done.json()["evidence"]["proof"], "tree_empty", "{done:?}");
        }
        shell.assert_nothing_left();
    }
}

#[test]
fn case_a15_the_ladder_goes_on_after_end_of_input() {
    everywhere(|shell| {
        let done = shell.ostler(&[
            "run",
            "--harness",
            "scripted",
            "--json",
            "--timeout",
            "200ms",
            "spawn ignore-term ;; ignore-cancel ;; say up ;; hang",
        ]);
        assert_eq!(done.json()["outcome"]["verdict"], "cancelled", "{done:?}");
    });
}

#[test]
fn case_a16_a_spinning_agent_ends_with_its_killed_owner() {
    everywhere(|shell| {
        let mut run = shell.spawn(&["run", "--harness", "scripted", "spawn spin ;; say up ;; hang"]);
        population(shell, 2);
        run.kill().expect("killed");
        run.wait().expect("reaped");
        shell.marker.assert_gone(Duration::from_secs(10));
    });
}

#[test]
fn case_a19_a_restart_that_leaves_them_keeps_the_agents() {
    everywhere(|shell| {
        let mut daemon = shell.serve();
        let run = shell.spawn(&["run", "--harness", "scripted", "say up ;; sleep 1500 ;; say end"]);
        population(shell, 1);
        signal(&daemon, Signal::SIGUSR1);
        assert!(daemon.wait().expect("ends").success());
        drop(run.wait_with_output());
        let mut daemon = shell.serve();
        let task = shell.tasks()[0]["id"].as_str().expect("id").to_owned();
        let waited = shell.ostler(&["task", "wait", &task, "--json"]);
        assert_eq!(waited.json()["outcome"]["output"]["text"], "up\nend\n", "{waited:?}");
        signal(&daemon, Signal::SIGTERM);
        daemon.wait().expect("ends");
    });
}

#[test]
fn case_a21_a_tool_left_in_its_own_session_belongs_to_the_tree() {
    everywhere(|shell| {
        let done = shell.run("tool-left sleep 1000 ;; say done");
        assert_eq!(done.json()["outcome"]["verdict"], "completed");
        assert_eq!(shell.marker.alive(), vec![]);
    });
}

#[test]
fn case_a25_an_agent_that_is_never_ready_is_owned_until_it_is_gone() {
    for containment in Containment::all() {
        let shell = Shell::with(
            containment,
            "[harness.mute]\nadapter = \"codex\"\ncommand = [\"sh\", \"-c\", \"sleep 1000 & sleep 1000\"]\n\
             environment = { MARK = \"@MARK@\" }\n\
             [harness.mute.deadlines]\nready = \"500ms\"\nend_of_input = \"10ms\"\nterminate = \"100ms\"\n",
        );
        let done = shell.ostler(&["run", "--harness", "mute", "--json", "x"]);
        assert_eq!((done.code, done.json()["outcome"]["verdict"].as_str()), (3, Some("failed")), "{done:?}");
        assert!(done.json()["outcome"]["message"].as_str().is_some_and(|text| text.contains("not ready")), "{done:?}");
        shell.assert_nothing_left();
    }
}

#[test]
fn case_a27_when_the_root_is_killed_its_helpers_follow() {
    everywhere(|shell| {
        let done = shell.run("spawn quiet-server ;; spawn setsid ;; say up ;; crash 9");
        let json = done.json();
        assert_eq!((&json["outcome"]["verdict"], &json["evidence"]["proof"]), (&"failed".into(), &"tree_empty".into()));
        assert_eq!(json["evidence"]["exit"]["signal"], 9);
    });
}

#[test]
fn case_a28_what_was_started_behind_nohup_is_found() {
    everywhere(|shell| {
        assert_eq!(shell.run("spawn nohup ;; say done").code, 0);
        assert_eq!(shell.marker.alive(), vec![]);
    });
}

#[test]
fn case_a31_a_child_that_writes_on_after_its_owner_was_killed_ends() {
    everywhere(|shell| {
        let mut run = shell.spawn(&["run", "--harness", "json", "--quiet", "flood 100000000"]);
        population(shell, 1);
        std::thread::sleep(Duration::from_millis(300));
        run.kill().expect("killed");
        run.wait().expect("reaped");
        shell.marker.assert_gone(Duration::from_secs(10));
    });
}
