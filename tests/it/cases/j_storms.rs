//! Agents that end again and again: how often they are started, and when.

use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::signal::Signal;

use super::j_ports::{get, operations};
use super::{app_server, configure, end, kill, session_of, sigkill};
use crate::support::kernel::wait_until;
use crate::support::shell::{Containment, Done, Shell, assert_whole, signal};

const HOUR: &str = "failures = 5\nfirst_pause = \"1h\"\nlongest_pause = \"1h\"\n";

/// Each start is noted with its time, and each ends at once.
fn crashing(restarts: &str) -> Shell {
    let harness = "[harness.crashing]\nadapter = \"codex\"\nenvironment = { MARK = \"@MARK@\" }\n\
                   command = [\"sh\", \"-c\", \"date +%s%N >> starts; exit 1\"]\n[harness.crashing.restarts]\n";
    Shell::with(Containment::Descent, &format!("{harness}{restarts}"))
}

/// When the agent was started, in milliseconds, by its own word.
fn starts(shell: &Shell) -> Vec<u64> {
    let noted = std::fs::read_to_string(shell.work().join("starts")).unwrap_or_default();
    noted.lines().map(|line| line.parse::<u64>().expect("nanoseconds") / 1_000_000).collect()
}

fn run(shell: &Shell, harness: &str, prompt: &str) -> Done {
    shell.ostler(&["run", "--harness", harness, "--json", prompt])
}

/// Whether a task was not even tried, since its harness is left alone.
fn was_refused(done: &Done) -> bool {
    let json = done.json();
    assert_eq!(json["outcome"]["verdict"], "failed", "{done:?}");
    let told = json["outcome"]["message"].as_str().is_some_and(|message| message.contains("times in a row"));
    assert_eq!(told, json["evidence"]["proof"] == "never_started", "{done:?}");
    told
}

/// Tries until it is left alone. How often it was tried.
fn exhaust(shell: &Shell, harness: &str, prompt: &str) -> usize {
    (0..20).take_while(|_| !was_refused(&run(shell, harness, prompt))).count()
}

/// Waits until the next daemon would know of so many failures.
fn is_kept(shell: &Shell, failures: u32) {
    let kept = shell.state().join("harnesses.json");
    wait_until(Duration::from_secs(10), "it is kept", || {
        let text = std::fs::read_to_string(&kept).unwrap_or_default();
        if text.contains(&format!("\"failures\":{failures}")) { Ok(()) } else { Err(text) }
    });
}

fn again(shell: &Shell, daemon: Child) -> Child {
    kill(daemon);
    shell.serve()
}

#[test]
fn case_j1_an_agent_that_exits_at_once_is_started_five_times_and_then_left_alone() {
    let shell = crashing(HOUR);
    let daemon = shell.serve();
    assert_eq!((exhaust(&shell, "crashing", "x"), starts(&shell).len()), (5, 5));
    for _ in 0..5 {
        let refused = run(&shell, "crashing", "x");
        assert!(was_refused(&refused), "{refused:?}");
        assert!(refused.stdout.contains("its agent ended (exit code 1)"), "the reason is told: {refused:?}");
    }
    assert_eq!(starts(&shell).len(), 5, "whoever is refused starts nothing");
    assert_eq!(run(&shell, "scripted", "say hi").code, 0, "others are not touched");
    is_kept(&shell, 5);
    let daemon = again(&shell, daemon);
    assert!(was_refused(&run(&shell, "crashing", "x")), "a restart of the daemon is no new chance");
    assert_eq!(starts(&shell).len(), 5);
    shell.end(daemon);
}

/// By the agent's own clock: jitter takes away at most half, and a busy machine only adds.
#[test]
fn case_j1_each_pause_is_twice_the_one_before() {
    let shell = crashing("failures = 2\nfirst_pause = \"300ms\"\nlongest_pause = \"1h\"\n");
    let daemon = shell.serve();
    let mut refused = 0;
    wait_until(Duration::from_secs(60), "it was started six times", || {
        refused += usize::from(was_refused(&run(&shell, "crashing", "x")));
        if starts(&shell).len() >= 6 { Ok(()) } else { Err(String::new()) }
    });
    let pauses: Vec<u64> = starts(&shell).windows(2).map(|pair| pair[1] - pair[0]).collect();
    let long_enough = pauses[1..].iter().zip([150, 300, 600, 1200]).all(|(pause, least)| *pause >= least);
    assert!(long_enough && refused > 0, "{pauses:?}, {refused} refused");
    shell.end(daemon);
}

#[test]
fn case_j2_an_agent_that_starts_well_and_ends_before_it_worked_is_left_alone_too() {
    let shell = Shell::new();
    app_server::add(&shell, &[]);
    configure(&shell, |config| format!("{config}[harness.protocol.restarts]\n{HOUR}"));
    let daemon = shell.serve();
    assert_eq!(exhaust(&shell, "protocol", "accept ;; say half ;; sleep 0.2 ;; exit 1"), 5);
    assert_eq!(shell.received(), 5, "each of the five was started well, and took its task");
    shell.end(daemon);
}

/// What does work is no failure, however its process ends afterwards; and it ends the row.
#[test]
fn case_j2_an_agent_that_worked_is_no_failure_however_it_ends() {
    let shell = Shell::new();
    app_server::add(&shell, &[]);
    configure(&shell, |config| format!("{config}[harness.protocol.restarts]\n{HOUR}"));
    let daemon = shell.serve();
    for round in 0..4 {
        for _ in 0..4 {
            assert!(!was_refused(&run(&shell, "protocol", "accept ;; exit 1")), "round {round}");
        }
        let done = run(&shell, "protocol", "accept ;; say hi ;; finish ;; exit 1");
        assert_eq!(done.code, 0, "round {round}: {done:?}");
    }
    shell.end(daemon);
}

#[test]
fn case_j3_a_harness_that_is_left_alone_costs_no_healthy_agent_over_a_restart() {
    let shell = Shell::new();
    app_server::add(&shell, &[]);
    configure(&shell, |config| format!("{config}[harness.protocol.restarts]\n{HOUR}"));
    let daemon = shell.serve();
    let done = run(&shell, "protocol", "accept ;; say first ;; finish");
    let session = session_of(&done);
    assert_eq!(exhaust(&shell, "protocol", "accept ;; exit 1"), 5);
    is_kept(&shell, 5);
    let daemon = again(&shell, daemon);
    let next = shell.ostler(&["run", "--session", &session, "--json", "accept ;; say second ;; finish"]);
    assert_eq!((next.code, &next.json()["output"]), (0, &"second".into()), "{next:?}");
    let agents = agents(&shell);
    assert_eq!(agents.first(), agents.last(), "the agent that lived on took it");
    assert!(was_refused(&run(&shell, "protocol", "accept ;; say third ;; finish")), "no other is started");
    shell.end(daemon);
}

/// The agents that received prompts, in order.
fn agents(shell: &Shell) -> Vec<String> {
    let log = std::fs::read_to_string(&shell.log).unwrap_or_default();
    log.lines().filter_map(|line| Some(line.split_once(' ')?.0.to_owned())).collect()
}

#[test]
fn case_j3_what_is_stale_in_the_store_keeps_nobody_from_starting() {
    let shell = crashing(HOUR);
    let daemon = shell.serve();
    exhaust(&shell, "crashing", "x");
    is_kept(&shell, 5);
    kill(daemon);
    let kept = shell.state().join("harnesses.json");
    let text = std::fs::read_to_string(&kept).expect("kept");
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("readable").trim().replace('-', "");
    let stale = [text.replace(&boot, "of-another-boot"), "no JSON".to_owned()];
    for (round, stale) in stale.iter().enumerate() {
        assert_ne!(*stale, text);
        std::fs::write(&kept, stale).expect("written");
        let daemon = shell.serve();
        assert!(!was_refused(&run(&shell, "crashing", "x")), "{stale}");
        assert_eq!(starts(&shell).len(), 6 + round);
        kill(daemon);
    }
    let daemon = shell.serve();
    shell.end(daemon);
}

#[test]
fn case_j3_a_configuration_that_was_read_again_is_a_new_chance() {
    let shell = crashing(HOUR);
    let daemon = shell.serve();
    exhaust(&shell, "crashing", "x");
    signal(&daemon, Signal::SIGHUP);
    wait_until(Duration::from_secs(10), "it is tried again", || {
        let done = run(&shell, "crashing", "x");
        if was_refused(&done) { Err(done.stdout) } else { Ok(()) }
    });
    assert_eq!(starts(&shell).len(), 6);
    shell.end(daemon);
}

/// Asks for health and metrics as fast as it goes.
struct HealthChecks {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<usize>,
}

impl HealthChecks {
    fn start(shell: &Shell) -> Self {
        let (address, stop) = (operations(shell), Arc::new(AtomicBool::new(false)));
        let stopped = stop.clone();
        let checks = move || {
            let mut answered = 0;
            while !stopped.load(Ordering::SeqCst) {
                answered += ["/readyz", "/metrics"].map(|path| get(address, path)).len();
            }
            answered
        };
        Self { stop, thread: std::thread::spawn(checks) }
    }

    /// How often it was answered.
    fn stop(self) -> usize {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.join().expect("answered")
    }
}

/// Whoever watches only looks: readers, waiters, the tree and health are asked for all the while.
#[test]
fn case_j6_an_exit_that_many_watch_makes_one_start() {
    let shell = Shell::new();
    app_server::add(&shell, &[]);
    let daemon = shell.serve();
    let session = session_of(&run(&shell, "protocol", "accept ;; say first ;; finish"));
    for round in 0..3 {
        let followers: Vec<_> = (0..4).map(|_| shell.spawn(&["events", "--follow", &session])).collect();
        let lookers: Vec<_> = (0..4).map(|_| shell.spawn(&["tree", "--json"])).collect();
        let health = HealthChecks::start(&shell);
        let before = agents(&shell);
        sigkill(before.last().expect("one").parse().expect("a pid"));
        let clients: Vec<_> = (0..6)
            .map(|_| shell.spawn(&["run", "--session", &session, "--json", "accept ;; say again ;; finish"]))
            .collect();
        let done: Vec<Done> = clients.into_iter().map(super::finish).collect();
        lookers.into_iter().for_each(|looker| assert_eq!(super::finish(looker).code, 0));
        followers.into_iter().for_each(kill);
        assert!(health.stop() > 0, "nobody asked for its health");
        let last = shell.ostler(&["run", "--session", &session, "--json", "accept ;; say last ;; finish"]);
        assert_eq!(last.code, 0, "round {round}: {last:?}, after {done:?}");
        let new: std::collections::BTreeSet<_> =
            agents(&shell).into_iter().filter(|pid| !before.contains(pid)).collect();
        assert_eq!(new.len(), 1, "round {round}: {new:?}");
        let events = shell.events(&session);
        assert_whole(&events);
        let opened = events.iter().filter(|event| event["type"] == "ostler.runtime.opened").count();
        assert_eq!(opened, round + 2, "one start for each exit");
    }
    end(daemon);
    shell.assert_nothing_left();
}
