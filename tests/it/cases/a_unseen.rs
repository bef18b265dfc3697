//! An agent of which nothing can be seen for a while is neither gone nor ended.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ostler_keeper::folder::{IDENTITY, Identity};
use serde_json::Value;

use super::{configure, end, finish, kill, newest_task, received, settled, text};
use crate::support::kernel::{is_alive, wait_until};
use crate::support::programs;
use crate::support::shell::{Containment, Shell};

/// The agent of a daemon that was killed meanwhile.
fn orphan(shell: &Shell, script: &str) -> i32 {
    let daemon = shell.serve();
    let client = shell.spawn(&["run", "--harness", "scripted", "--json", script]);
    received(shell, 1);
    kill(daemon);
    finish(client);
    agents(shell)[0]
}

fn agents(shell: &Shell) -> Vec<i32> {
    shell.marker.alive().into_iter().map(|(pid, _)| pid).collect()
}

/// The folder of its runtime.
fn folder(shell: &Shell) -> PathBuf {
    let entries = |folder: &Path| {
        let entries = std::fs::read_dir(folder).expect("a folder");
        entries.map(|entry| entry.expect("readable").path()).filter(|path| path.is_dir()).collect::<Vec<_>>()
    };
    let boots = entries(&shell.state().join("run"));
    boots.iter().flat_map(|boot| entries(boot)).next().expect("a runtime")
}

#[test]
fn one_whose_folder_cannot_be_read_goes_on_and_is_adopted_when_it_can() {
    for containment in Containment::all() {
        let shell = Shell::with(containment, "");
        let agent = orphan(&shell, "say up ;; tool until [ -e go ]; do sleep 0.1; done ;; say end");
        let (identity, aside) = (folder(&shell).join(IDENTITY), shell.path().join("aside"));
        std::fs::rename(&identity, &aside).expect("moved");
        // Not even the first user can read a folder as a file.
        std::fs::create_dir(&identity).expect("made");
        let daemon = shell.serve();
        let shown = shell.ostler(&["task", "show", &newest_task(&shell), "--json"]).json();
        assert_eq!((&shown["outcome"], is_alive(agent)), (&Value::Null, true), "{shown}");
        std::fs::write(shell.work().join("go"), "").expect("written");
        std::fs::remove_dir(&identity).expect("removed");
        std::fs::rename(&aside, &identity).expect("moved");
        let task = &settled(&shell)[0];
        assert_eq!(text(&task["outcome"], "verdict"), "completed", "{task}");
        assert!(text(&task["outcome"]["output"], "text").ends_with("end\n"), "{task}");
        end(daemon);
        shell.assert_nothing_left();
    }
}

/// It takes the half minute that a keeper gets to take its owner back.
#[test]
fn one_whose_keeper_refuses_is_unresolved_and_stays_owned() {
    let shell = Shell::new();
    configure(&shell, |config| config.replace("orphan_grace = \"20s\"", "orphan_grace = \"10m\""));
    let agent = orphan(&shell, "say up ;; hang");
    let folder = folder(&shell);
    let secret = Identity::read(&folder).expect("readable").expect("registered").secret;
    let written = std::fs::read(folder.join(IDENTITY)).expect("readable");
    let at = written.windows(secret.len()).position(|window| window == secret).expect("it is there");
    let mut other = written.clone();
    other[at] ^= 1;
    std::fs::write(folder.join(IDENTITY), other).expect("written");
    let daemon = shell.serve();
    let task = wait_until(Duration::from_secs(100), "it has a verdict", || {
        let task = shell.tasks().remove(0);
        if task["outcome"].is_object() { Ok(task) } else { Err(task.to_string()) }
    });
    assert_eq!(task["outcome"]["verdict"], "unresolved", "{task}");
    assert_eq!(task["outcome"]["evidence"]["proof"], "observation_lost", "{task}");
    assert_eq!((agents(&shell), folder.exists()), (vec![agent], true), "it is not forgotten");
    // It takes its owner back at last, who has no use for it any more.
    std::fs::write(folder.join(IDENTITY), written).expect("written");
    let session = task["session"].as_str().expect("id");
    wait_until(Duration::from_secs(30), "it is ended", || {
        let events = shell.events(session);
        let closed = events.iter().find(|event| event["type"] == "ostler.runtime.closed");
        let proven = closed.is_some_and(|event| event["data"]["tree_empty"] == true);
        if proven && agents(&shell).is_empty() { Ok(()) } else { Err(format!("{events:#?}")) }
    });
    end(daemon);
    shell.assert_nothing_left();
}

fn open_files(pid: u32) -> (String, String) {
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).expect("lives");
    let line = limits.lines().find(|line| line.starts_with("Max open files")).expect("a limit");
    let mut words = line.split_ascii_whitespace().skip(3).map(str::to_owned);
    (words.next().expect("soft"), words.next().expect("hard"))
}

/// A daemon that was allowed fewer files than it may have.
fn serve_with_few_files(shell: &Shell) -> Child {
    let child = Command::new("sh")
        .args(["-c", "ulimit -Sn 333 && exec \"$0\" serve"])
        .arg(programs::ostler())
        .current_dir(shell.work())
        .env("OSTLER_CONFIG", shell.path().join("ostler.toml"))
        .env("OSTLER_STATE", shell.state())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("runs");
    wait_until(Duration::from_secs(60), "the daemon listens", || {
        let socket = std::os::unix::net::UnixStream::connect(shell.state().join("ostler.sock"));
        socket.map(drop).map_err(|error| error.to_string())
    });
    child
}

#[test]
fn a_daemon_takes_all_the_files_it_may_have_and_its_agents_get_what_was_set() {
    let shell = Shell::new();
    let daemon = serve_with_few_files(&shell);
    let run = shell.spawn(&["run", "--harness", "scripted", "say up ;; hang"]);
    received(&shell, 1);
    let (soft, hard) = open_files(daemon.id());
    assert_eq!(soft, hard);
    assert_eq!(open_files(agents(&shell)[0] as u32), ("333".to_owned(), hard));
    end(daemon);
    drop(run.wait_with_output());
    shell.assert_nothing_left();
}
