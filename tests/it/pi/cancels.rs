//! A cancel of Pi at each stage of its task.

use std::process::Child;
use std::time::Duration;

use nix::sys::signal::Signal;

use super::support::{User, verdict, word};
use crate::support::kernel::{is_alive, wait_until};
use crate::support::shell::{Done, assert_whole, signal};

fn cancelled(run: Child) -> Done {
    signal(&run, Signal::SIGINT);
    let done: Done = run.wait_with_output().expect("ends").into();
    assert_eq!(verdict(&done), (130, "cancelled".into(), "end_report".into()), "{done:?}");
    done
}

/// A daemon, so that what is left warm can be seen.
#[test]
fn in_mid_stream_and_in_mid_tool_the_runtime_stays_warm() {
    let user = User::new();
    let daemon = user.shell.serve();
    let first = user.start("slow please");
    user.speaks();
    let done = cancelled(first);
    assert!(word(&done.json(), "/output").starts_with("one "), "{done:?}");
    let session = word(&done.json(), "/session").to_owned();
    let warm = user.agents();
    assert_eq!(warm.len(), 1, "the runtime is warm");

    let second = user.shell.spawn(&["run", "--session", &session, "--json", "--approve", "allow", "work long"]);
    let tool = user.tool();
    cancelled(second);
    assert!(!is_alive(tool), "the tool lives on");
    assert_eq!(user.agents(), warm, "the runtime stayed warm");

    let third = user.next(&session, "and now");
    assert_eq!(verdict(&third).1, "completed", "{third:?}");
    assert_eq!(user.agents(), warm);
    assert_whole(&user.shell.events(&session));
    user.shell.end(daemon);
}

#[test]
fn between_two_attempts_it_tries_no_more() {
    let user = User::new();
    let settings = user.shell.path().join("pi-home/settings.json");
    let patient = std::fs::read_to_string(&settings).expect("readable").replace("100", "60000");
    std::fs::write(&settings, patient).expect("written");
    let daemon = user.shell.serve();
    let run = user.start("overload");
    wait_until(Duration::from_secs(60), "it waits for its next attempt", || {
        let tasks = user.shell.tasks();
        let session = tasks.first().and_then(|task| task["session"].as_str()).ok_or("no task yet")?;
        let warned = user.shell.events(session).iter().any(|event| event["type"] == "ostler.warning");
        if warned { Ok(()) } else { Err("not yet".to_owned()) }
    });
    let session = word(&cancelled(run).json(), "/session").to_owned();
    assert_eq!((user.agents().len(), user.requests().len()), (1, 1));
    assert_eq!(verdict(&user.next(&session, "and now")).1, "completed");
    user.shell.end(daemon);
}
