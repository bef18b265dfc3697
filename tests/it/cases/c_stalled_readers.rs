//! A reader of `ostler run` that reads nothing: neither the verdict nor a stop waits for it.

use std::time::Duration;

use nix::sys::signal::Signal;

use super::{app_server, finish, kill, received, settled, text};
use crate::support::shell::{Shell, signal};

/// More events than the pipe to the reader holds.
const MUCH: &str = "babble 20000";

#[test]
fn case_c6_a_stalled_reader_of_a_run_delays_no_verdict() {
    let shell = Shell::new();
    let client = shell.spawn(&["run", "--harness", "json", "--events", MUCH]);
    received(&shell, 1);
    assert_eq!(settled(&shell)[0]["outcome"]["verdict"], "completed");
    kill(client);
    shell.tasks();
    shell.assert_nothing_left();
}

#[test]
fn case_c6_a_stalled_reader_of_a_run_delays_no_stop() {
    for from_elsewhere in [true, false] {
        let shell = Shell::new();
        let client = shell.spawn(&["run", "--harness", "json", "--events", &format!("{MUCH} ;; hang")]);
        received(&shell, 1);
        let task = text(&shell.tasks()[0], "id").to_owned();
        let elsewhere = from_elsewhere.then(|| shell.spawn(&["task", "cancel", &task]));
        if !from_elsewhere {
            signal(&client, Signal::SIGINT);
        }
        shell.marker.assert_gone(Duration::from_secs(10));
        assert!(elsewhere.is_none_or(|stop| finish(stop).code == 0));
        kill(client);
        shell.tasks();
        shell.assert_nothing_left();
    }
}

#[test]
fn case_c6_an_answer_that_nobody_reads_keeps_no_process() {
    let shell = Shell::new();
    app_server::add(&shell, &[]);
    let prompt = format!("accept ;; say {} ;; finish", "x".repeat(100_000));
    let client = shell.spawn(&["run", "--harness", "protocol", &prompt]);
    received(&shell, 1);
    shell.marker.assert_gone(Duration::from_secs(10));
    kill(client);
    shell.tasks();
    shell.assert_nothing_left();
}
