//! What is started while the machine is short of memory, and how a program learns of it.

use std::time::{Duration, SystemTime};

use serde_json::Value;

use super::{app_server, configure, finish, newest_task, received, session_of, settled, text};
use crate::support::kernel::wait_until;
use crate::support::shell::{Done, Shell};

/// A machine whose memory is what a test says it is.
struct Machine(Shell);

impl Machine {
    fn new(limits: &str) -> Self {
        let machine = Self(Shell::new());
        let source = machine.0.path().join("memory");
        std::fs::create_dir_all(source.join("pressure")).expect("made");
        configure(&machine.0, |config| format!("{config}[limits]\nmemory_source = {source:?}\n{limits}"));
        machine.has(8192, "0.00");
        machine
    }

    /// So many MiB are left, and so much of the time somebody waited for memory.
    fn has(&self, mib: u64, stalled: &str) {
        let source = self.0.path().join("memory");
        let write = |name: &str, text: String| {
            // Whole at any instant, as the kernel's are.
            let new = source.join("new");
            std::fs::write(&new, text).expect("written");
            std::fs::rename(new, source.join(name)).expect("renamed");
        };
        write("meminfo", format!("MemTotal: 16777216 kB\nMemAvailable: {} kB\n", mib * 1024));
        write("pressure/memory", format!("some avg10=100.00\nfull avg10={stalled} avg60=0.00 avg300=0.00 total=1\n"));
    }

    fn run(&self, prompt: &str) -> Done {
        self.0.ostler(&["run", "--harness", "scripted", "--json", prompt])
    }
}

/// Refused for this reason, in a way that a program can use, and without a task.
fn assert_refused(done: &Done, reason: &str) -> Value {
    let error = done.json()["error"].clone();
    let said = (done.code, text(&error, "code"), text(&error, "reason"));
    assert_eq!(said, (3, "harness_unavailable", reason), "{done:?}");
    assert!(error["retry_after_ms"].as_u64().is_some_and(|retry| (1000..=60_000).contains(&retry)), "{error}");
    assert!(done.stderr.contains(text(&error, "message")), "a person is told the same: {done:?}");
    error
}

#[test]
fn case_h1_h7_too_little_memory_refuses_a_start_until_there_is_more() {
    let machine = Machine::new("");
    machine.has(511, "0.00");
    let error = assert_refused(&machine.run("say on"), "memory_floor");
    assert!(text(&error, "message").contains("511 MiB") && text(&error, "message").contains("512 MiB"), "{error}");
    assert_eq!((machine.0.tasks(), machine.0.received()), (Vec::new(), 0), "nothing was accepted");
    machine.has(512, "0.00");
    assert_eq!(machine.run("say on").code, 0);
    machine.0.assert_nothing_left();
}

#[test]
fn case_h1_h7_memory_that_others_wait_for_refuses_a_start_through_the_daemon_too() {
    let machine = Machine::new("memory_pressure = 25\n");
    let daemon = machine.0.serve();
    assert!(machine.0.metrics().contains("\nostler_memory_short 0\n"), "{}", machine.0.metrics());
    machine.has(8192, "25.01");
    let error = assert_refused(&machine.run("say on"), "memory_pressure");
    assert!(text(&error, "message").contains("25.01 %") && text(&error, "message").contains("25.00 %"), "{error}");
    assert_eq!((machine.0.tasks(), machine.0.received()), (Vec::new(), 0), "nothing was accepted");
    assert!(machine.0.metrics().contains("\nostler_memory_short 1\n"), "{}", machine.0.metrics());
    let doctor = machine.0.ostler(&["doctor", "--json"]).json();
    let check = doctor.as_array().expect("a list").iter().find(|check| check["name"] == "memory").expect("a check");
    assert_eq!(check["ok"], false, "{check}");
    machine.has(8192, "25.00");
    assert_eq!(machine.run("say on").code, 0);
    machine.0.end(daemon);
}

/// A kernel without a word for pressure, a container that shows no memory.
#[test]
fn case_h1_what_cannot_be_read_refuses_nothing() {
    let machine = Machine::new("");
    machine.has(1, "99.00");
    assert_refused(&machine.run("say on"), "memory_floor");
    std::fs::remove_dir_all(machine.0.path().join("memory")).expect("removed");
    assert_eq!(machine.run("say on").code, 0);
    machine.0.assert_nothing_left();
}

/// It was accepted while there was memory: it is neither started without nor lost.
#[test]
fn case_h1_a_start_that_waits_already_waits_for_memory_too() {
    let machine = Machine::new("max_live_runtimes = 1\n");
    let shell = &machine.0;
    let daemon = shell.serve();
    let first = shell.spawn(&["run", "--harness", "scripted", "--json", "hang"]);
    received(shell, 1);
    let running = newest_task(shell);
    let second = shell.spawn(&["run", "--harness", "scripted", "--json", "say on"]);
    wait_until(Duration::from_secs(30), "it waits", || {
        let metrics = shell.metrics();
        if metrics.contains("\nostler_starts_waiting 1\n") { Ok(()) } else { Err(metrics) }
    });
    machine.has(100, "0.00");
    assert_eq!(shell.ostler(&["task", "cancel", &running]).code, 0);
    assert_eq!(finish(first).code, 130);
    shell.marker.assert_gone(Duration::from_secs(10));
    wait_until(Duration::from_secs(30), "its place is the next one's", || {
        let metrics = shell.metrics();
        let taken = ["\nostler_runtimes 1\n", "\nostler_starts_waiting 1\n"].iter().all(|line| metrics.contains(line));
        if taken { Ok(()) } else { Err(metrics) }
    });
    let lifted = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs_f64();
    machine.has(8192, "0.00");
    let second = finish(second);
    assert_eq!(second.code, 0, "{second:?}");
    let events = shell.events(&session_of(&second));
    let opened = events.iter().find(|event| event["type"] == "ostler.runtime.opened").expect("opened");
    assert!(opened["timestamp"].as_f64().expect("a time") >= lifted - 0.001, "it was started without memory: {opened}");
    shell.end(daemon);
}

/// Idle ones give way, one after the other, and go on later; whoever is warm needs no start.
#[test]
fn case_h1_idle_runtimes_give_their_memory_back() {
    let machine = Machine::new("");
    let shell = &machine.0;
    app_server::add(shell, &[]);
    let daemon = shell.serve();
    let prompt = "accept ;; say on ;; finish";
    let sessions = [0; 2].map(|_| session_of(&shell.ostler(&["run", "--harness", "protocol", "--json", prompt])));
    machine.has(100, "0.00");
    shell.marker.assert_gone(Duration::from_secs(20));
    for session in &sessions {
        let events = shell.events(session);
        let why = events.iter().find(|event| event["type"] == "ostler.session.hibernated").expect("hibernated");
        assert_eq!(why["data"]["why"], "memory_short");
        assert_refused(&shell.ostler(&["run", "--session", session, "--json", prompt]), "memory_floor");
    }
    machine.has(8192, "0.00");
    for session in &sessions {
        let next = shell.ostler(&["run", "--session", session, "--json", prompt]);
        assert_eq!(next.code, 0, "{next:?}");
        let resumed = shell.events(session).into_iter().rfind(|event| event["type"] == "ostler.runtime.opened");
        assert_eq!(resumed.expect("opened")["data"]["resume"], "exact-resume");
    }
    shell.end(daemon);
}

#[test]
fn case_h7_a_full_queue_refuses_and_says_when_to_ask_again() {
    let shell =
        Shell::with(crate::support::shell::Containment::Descent, "[limits]\nmax_live_runtimes = 1\nstart_queue = 1\n");
    let daemon = shell.serve();
    let first = shell.spawn(&["run", "--harness", "scripted", "--json", "hang"]);
    received(&shell, 1);
    let running = newest_task(&shell);
    let second = shell.spawn(&["run", "--harness", "scripted", "--json", "say on"]);
    wait_until(Duration::from_secs(30), "it waits", || {
        let metrics = shell.metrics();
        if metrics.contains("\nostler_starts_waiting 1\n") { Ok(()) } else { Err(metrics) }
    });
    let third = || shell.ostler(&["run", "--harness", "scripted", "--json", "say too"]);
    let error = assert_refused(&third(), "start_queue_full");
    assert!(text(&error, "message").contains("1 starts wait"), "{error}");
    assert_eq!(shell.tasks().len(), 2, "a refused one is no task");
    assert_eq!(shell.ostler(&["task", "cancel", &running]).code, 0);
    assert_eq!((finish(first).code, finish(second).code), (130, 0));
    settled(&shell);
    assert_eq!(third().code, 0);
    shell.end(daemon);
}

/// Every verb that prints JSON does so for its failures; the others leave the output empty.
#[test]
fn case_h7_a_failure_is_an_object_where_the_output_is_one() {
    let shell = Shell::new();
    assert_eq!(shell.run("say on").code, 0);
    for (arguments, code, exit) in [
        (&["run", "--harness", "none", "x"][..], "not_found", 3),
        (&["run", "--harness", "scripted", ""], "invalid_input", 2),
        (&["task", "show", "task_none"], "not_found", 3),
        (&["session", "close", "sess_none"], "not_found", 3),
    ] {
        let words = shell.ostler(arguments);
        assert_eq!((words.code, words.stdout.as_str()), (exit, ""), "{words:?}");
        let verb = arguments.len().min(if arguments[0] == "run" { 1 } else { 2 });
        let with_json = [&arguments[..verb], &["--json"], &arguments[verb..]].concat();
        let object = shell.ostler(&with_json);
        let error = object.json()["error"].clone();
        assert_eq!((object.code, text(&error, "code")), (exit, code), "{object:?}");
        assert_eq!((&error["reason"], &error["retry_after_ms"]), (&Value::Null, &Value::Null), "it does not pass");
        assert!(words.stderr.contains(text(&error, "message")), "{words:?}: {error}");
    }
    shell.assert_nothing_left();
}
