//! Closes: during an open, by many, and for good.

use std::time::Duration;

use super::{app_server, configure, end, finish, received, text};
use crate::support::kernel::wait_until;
use crate::support::shell::{Shell, assert_whole};

/// Deaf to SIGTERM, and ready a second after it was asked to be.
const SLOW: [(&str, &str); 2] = [("OPEN_AFTER", "1"), ("DEAF", "yes")];

#[test]
fn case_g8_a_start_that_succeeds_during_the_close_is_closed_and_closed_is_final() {
    for wait in [0, 300, 950] {
        let shell = Shell::new();
        app_server::add(&shell, &SLOW);
        // The late answer comes while the ladder is climbed.
        configure(&shell, |config| {
            config.replace("end_of_input = \"50ms\"\nterminate", "end_of_input = \"1500ms\"\nterminate")
        });
        let daemon = shell.serve();
        let client = shell.spawn(&["run", "--harness", "protocol", "--json", "accept ;; say no ;; finish"]);
        wait_until(Duration::from_secs(20), "it starts", || {
            if shell.marker.alive().is_empty() { Err(String::new()) } else { Ok(()) }
        });
        let session = text(&shell.tasks()[0], "session").to_owned();
        std::thread::sleep(Duration::from_millis(wait));
        assert_eq!(shell.ostler(&["session", "close", &session]).code, 0);
        assert_eq!(shell.marker.alive(), vec![], "closed before the proof");
        assert_eq!(finish(client).code, 130, "{wait}");
        closed(&shell, &session);
        end(daemon);
        let daemon = shell.serve();
        closed(&shell, &session);
        assert_eq!(shell.received(), 0, "{wait}");
        shell.end(daemon);
    }
}

/// Nothing runs in it any more.
fn closed(shell: &Shell, session: &str) {
    let next = shell.ostler(&["run", "--session", session, "--json", "accept ;; say next ;; finish"]);
    assert_eq!(next.code, 3, "{next:?}");
    let shown = shell.ostler(&["session", "show", session, "--json"]).json();
    assert_eq!(shown["session"]["state"], "closed");
    assert_whole(&shell.events(session));
}

/// A tree that takes its time to end.
const STUBBORN: &str = "spawn ignore-term ;; spawn setsid ;; say up ;; hang";

#[test]
fn case_g8_a_session_whose_task_waits_for_its_start_closes_at_once_and_never_starts() {
    let limits = "[limits]\nstart_concurrency = 1\nmax_live_runtimes = 1\n";
    let shell = Shell::with(crate::support::shell::Containment::Descent, limits);
    let daemon = shell.serve();
    let session = text(&shell.run("say first").json(), "session").to_owned();
    let holder = shell.spawn(&["run", "--harness", "scripted", "say holder ;; sleep 1500"]);
    received(&shell, 2);
    let waiting = shell.spawn(&["run", "--session", &session, "--json", "say no"]);
    wait_until(Duration::from_secs(20), "it is accepted", || {
        if shell.tasks().len() == 3 { Ok(()) } else { Err(String::new()) }
    });
    assert_eq!(shell.ostler(&["session", "close", &session]).code, 0);
    assert_eq!(finish(waiting).code, 130);
    assert_eq!(finish(holder).code, 0);
    assert_eq!(shell.run("say after").code, 0);
    assert_eq!(shell.received(), 3, "the closed one ran");
    shell.end(daemon);
}

#[test]
fn case_g8_many_closers_join_one_close_and_each_is_told_after_the_proof() {
    for daemon in [true, false] {
        let shell = Shell::new();
        let daemon = daemon.then(|| shell.serve());
        let client = shell.spawn(&["run", "--harness", "scripted", STUBBORN]);
        received(&shell, 1);
        let session = text(&shell.tasks()[0], "session").to_owned();
        let closers: Vec<_> = (0..6).map(|_| shell.spawn(&["session", "close", &session])).collect();
        for closer in closers {
            assert_eq!(finish(closer).code, 0);
            assert_eq!(shell.marker.alive(), vec![], "closed before the proof");
        }
        assert_eq!(finish(client).code, 130);
        closed(&shell, &session);
        daemon.into_iter().for_each(end);
        shell.assert_nothing_left();
    }
}

#[test]
fn case_g8_a_closed_session_says_that_it_is_closed() {
    let shell = Shell::new();
    let daemon = shell.serve();
    let session = text(&shell.run("say hi").json(), "session").to_owned();
    assert_eq!(shell.ostler(&["session", "close", &session]).code, 0);
    let next = shell.ostler(&["run", "--session", &session, "--json", "say next"]);
    assert!(next.code == 3 && next.stderr.contains("is closed; start a new one"), "{next:?}");
    shell.end(daemon);
}
