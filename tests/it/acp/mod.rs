//! `ostler` with an agent that speaks ACP, played by the scripted agent. Nothing is left after any of it.

mod a_crash_in_each_phase_has_its_verdict;
mod a_daemon_that_was_killed_goes_on;
mod a_person_is_asked_on_a_terminal;
mod a_session_is_loaded_in_a_new_process;
mod cancels_in_each_phase;
mod turns_and_their_ends;
mod what_it_cannot_is_not_tried;

use std::process::Child;
use std::time::Duration;

use serde_json::Value;

use crate::support::kernel::wait_until;
use crate::support::programs;
use crate::support::shell::{Containment, Done, Shell};

/// With a control group leaf and without one; nothing is left either way.
fn everywhere(scenario: impl Fn(&Shell)) {
    for containment in Containment::all() {
        let shell = Shell::with(containment, "");
        configure(&shell, &[("OSTLER_AGENT_HISTORY", &history(&shell))]);
        scenario(&shell);
        shell.assert_nothing_left();
    }
}

/// The same over a daemon, which ends in order.
fn over_a_daemon(scenario: impl Fn(&Shell)) {
    for containment in Containment::all() {
        let shell = Shell::with(containment, "");
        configure(&shell, &[("OSTLER_AGENT_HISTORY", &history(&shell))]);
        let daemon = shell.serve();
        scenario(&shell);
        shell.end(daemon);
    }
}

/// The folder in which the agent keeps its sessions.
pub(crate) fn history(shell: &Shell) -> String {
    let folder = shell.path().join("history");
    std::fs::create_dir_all(&folder).expect("made");
    folder.display().to_string()
}

/// The harness `acp`, with more in its environment.
pub(crate) fn configure(shell: &Shell, environment: &[(&str, &str)]) {
    let path = shell.path().join("ostler.toml");
    let config = std::fs::read_to_string(&path).expect("readable");
    let log = shell.log.display().to_string();
    let own = [("MARK", shell.marker.text()), ("OSTLER_AGENT_LOG", &log), ("OSTLER_AGENT_ROLE", "play-agent")];
    let variables = own.iter().chain(environment).map(|(name, value)| format!("{name} = {value:?}"));
    let harness = format!(
        "[harness.acp]\nadapter = \"acp\"\ncommand = {:?}\nenvironment = {{ {} }}\n\
         [harness.acp.deadlines]\ninterrupt = \"2s\"\nend_of_input = \"50ms\"\nterminate = \"200ms\"\nstray = \"100ms\"\n\
         ready = \"5s\"\n",
        programs::agent(&["acp"]),
        variables.collect::<Vec<_>>().join(", "),
    );
    std::fs::write(path, config + &harness).expect("written");
}

fn run(shell: &Shell, approve: &str, script: &str) -> Done {
    shell.ostler(&["run", "--harness", "acp", "--json", "--approve", approve, script])
}

fn start(shell: &Shell, script: &str) -> Child {
    shell.spawn(&["run", "--harness", "acp", "--json", "--approve", "allow", script])
}

fn finish(child: Child) -> Done {
    child.wait_with_output().expect("ends").into()
}

/// Code, verdict and proof.
fn verdict(done: &Done) -> (i32, String, String) {
    let json = done.json();
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (done.code, word(&json["outcome"]["verdict"]), word(&json["evidence"]["proof"]))
}

fn is(code: i32, verdict: &str, proof: &str) -> (i32, String, String) {
    (code, verdict.to_owned(), proof.to_owned())
}

fn output(done: &Done) -> String {
    done.json()["output"].as_str().unwrap_or_default().to_owned()
}

fn session(done: &Done) -> String {
    done.json()["session"].as_str().expect("an id").to_owned()
}

fn received(shell: &Shell, count: usize) {
    wait_until(Duration::from_secs(30), "prompts are received", || {
        let received = shell.received();
        if received >= count { Ok(()) } else { Err(format!("{received} of {count}")) }
    });
}

/// Waits until something of the agent runs whose command line has this text.
fn running(shell: &Shell, text: &str) -> i32 {
    wait_until(Duration::from_secs(30), "it runs", || {
        let alive = shell.marker.alive();
        let found = alive.iter().find(|(_, line)| line.contains(text)).map(|(pid, _)| *pid);
        found.ok_or_else(|| format!("{alive:?}"))
    })
}

/// The newest task, and its open request as soon as there is one.
fn open_request(shell: &Shell) -> (String, String) {
    wait_until(Duration::from_secs(30), "something is asked", || {
        let task = shell.tasks()[0]["id"].as_str().expect("an id").to_owned();
        let shown = shell.ostler(&["task", "show", &task, "--json"]).json();
        let open = shown["open_interactions"][0]["id"].as_str().map(str::to_owned);
        open.map(|open| (task, open)).ok_or_else(|| shown.to_string())
    })
}
