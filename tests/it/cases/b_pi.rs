//! What a cancel does to real Pi, whose abort was seen to be answered and to have no effect.

use std::time::Duration;

use nix::sys::signal::Signal;

use super::{end, finish, session_of};
use crate::pi::support::User;
use crate::support::kernel::wait_until;
use crate::support::shell::{Containment, signal};

/// Its abort ends its command's own group, and nothing that the command put into another session.
#[test]
fn case_b13_after_an_abort_nothing_of_the_task_writes_any_more() {
    for containment in Containment::all() {
        let user = User::with(containment);
        let daemon = user.shell.serve();
        let run = user.start("beat please");
        let beats = ["background", "foreground"].map(|name| user.shell.work().join(name));
        wait_until(Duration::from_secs(60), "both beat", || {
            if beats.iter().all(|beat| beat.exists()) { Ok(()) } else { Err(String::new()) }
        });
        let agent = user.agents();
        signal(&run, Signal::SIGINT);
        let done = finish(run);
        let read = || beats.each_ref().map(|beat| std::fs::read_to_string(beat).expect("readable"));
        let last = read();
        assert_eq!(done.json()["outcome"]["verdict"], "cancelled", "{done:?}");
        std::thread::sleep(Duration::from_secs(1));
        assert_eq!(read(), last);
        assert_eq!((user.agents(), user.shell.marker.alive().len()), (agent.clone(), 1), "it stayed, alone");
        let next = user.next(&session_of(&done), "and now");
        assert_eq!((next.code, user.agents()), (0, agent), "{next:?}");
        end(daemon);
        user.shell.assert_nothing_left();
    }
}

/// Something that an extension does first, so that a prompt is not taken at once.
const LATE: &str = r#"import { writeFileSync } from "node:fs";
export default function (pi) {
  pi.on("before_agent_start", async () => {
    writeFileSync("begun", "");
    await new Promise((resume) => setTimeout(resume, 700));
  });
}
"#;

/// It answers an abort that comes before the run, and then begins the run.
#[test]
fn case_b13_an_abort_before_the_run_has_begun_ends_it_all_the_same() {
    let user = User::new();
    let extensions = user.shell.path().join("pi-home/extensions");
    std::fs::create_dir(&extensions).expect("made");
    std::fs::write(extensions.join("late.ts"), LATE).expect("written");
    let daemon = user.shell.serve();
    let run = user.start("work long");
    let begun = user.shell.work().join("begun");
    wait_until(
        Duration::from_secs(60),
        "it has the prompt",
        || if begun.exists() { Ok(()) } else { Err(String::new()) },
    );
    let warm = user.agents();
    signal(&run, Signal::SIGINT);
    let done = finish(run);
    assert_eq!(done.json()["outcome"]["verdict"], "cancelled", "{done:?}");
    assert_eq!(done.json()["evidence"]["proof"], "end_report", "its tree had to be stopped");
    let alive = user.shell.marker.alive();
    assert_eq!((user.agents(), alive.len()), (warm.clone(), 1), "{alive:?}");
    let next = user.next(&session_of(&done), "and now");
    assert_eq!((next.code, user.agents()), (0, warm), "{next:?}");
    end(daemon);
    user.shell.assert_nothing_left();
}
