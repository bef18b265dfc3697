//! Cancel means that nothing of the task acts any more.

use std::time::Duration;

use nix::sys::signal::Signal;

use crate::support::kernel::wait_until;
use crate::support::shell::{Containment, Done, Shell, signal};

#[test]
fn case_b1_after_cancelled_nothing_of_the_task_writes_any_more() {
    for containment in Containment::all() {
        let shell = Shell::with(containment, "");
        let beat = shell.work().join("beat");
        let script = format!("spawn heartbeat {} ;; say up ;; hang", beat.display());
        let child = shell.spawn(&["run", "--harness", "scripted", "--json", &script]);
        wait_until(Duration::from_secs(20), "it beats", || if beat.exists() { Ok(()) } else { Err(String::new()) });
        signal(&child, Signal::SIGINT);
        let done: Done = child.wait_with_output().expect("ends").into();
        assert_eq!((done.code, done.json()["outcome"]["verdict"].as_str()), (130, Some("cancelled")), "{done:?}");
        let last = std::fs::read_to_string(&beat).expect("readable");
        std::thread::sleep(Duration::from_secs(1));
        assert_eq!(std::fs::read_to_string(&beat).expect("readable"), last);
        shell.assert_nothing_left();
    }
}

#[test]
fn case_b16_a_cancel_can_be_asked_again_and_from_elsewhere() {
    for containment in Containment::all() {
        let shell = Shell::with(containment, "");
        let child = shell.spawn(&["run", "--harness", "scripted", "--json", "spawn ignore-term ;; say up ;; hang"]);
        wait_until(Duration::from_secs(20), "it runs", || {
            if shell.marker.alive().len() >= 2 { Ok(()) } else { Err(String::new()) }
        });
        let task = shell.tasks()[0]["id"].as_str().expect("id").to_owned();
        for _ in 0..3 {
            assert_eq!(shell.ostler(&["task", "cancel", &task]).code, 0);
        }
        let done: Done = child.wait_with_output().expect("ends").into();
        assert_eq!(done.code, 130, "{done:?}");
        shell.assert_nothing_left();
    }
}
