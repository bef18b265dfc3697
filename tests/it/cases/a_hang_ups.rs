//! A terminal that goes away ends what runs in it; to a service the same signal means a new configuration.

use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;

use super::{configure, everywhere, population, settled};
use crate::support::kernel::wait_until;
use crate::support::shell::{Shell, signal};

/// A terminal, with `ostler run` in it.
fn terminal(shell: &Shell, script: &str) -> std::process::Child {
    let run = shell.command(&["run", "--harness", "scripted", script]);
    let line = [run.get_program()].into_iter().chain(run.get_args()).map(|word| format!("'{}'", word.display()));
    let mut command = Command::new("script");
    command.args(["-q", "-c", &line.collect::<Vec<_>>().join(" "), "/dev/null"]).current_dir(shell.work());
    for (name, value) in run.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("runs")
}

#[test]
fn case_a8_a_closed_terminal_leaves_no_child_behind() {
    everywhere(|shell| {
        let mut terminal = terminal(shell, "spawn ignore-term ;; spawn setsid ;; say up ;; hang");
        population(shell, 3);
        // The kernel hangs up when the last one who holds the terminal's other end is gone.
        terminal.kill().expect("killed");
        terminal.wait().expect("reaped");
        let outcome = &settled(shell)[0]["outcome"];
        assert_eq!((&outcome["verdict"], &outcome["cause"]), (&"cancelled".into(), &"consumer_cancelled".into()));
        shell.marker.assert_gone(Duration::from_secs(10));
    });
}

#[test]
fn case_a8_a_service_that_is_hung_up_on_reads_its_configuration_again() {
    let shell = Shell::new();
    let daemon = shell.serve();
    let kept = shell.run("say kept").json()["session"].clone();
    let ask = |harness: &str| shell.ostler(&["run", "--harness", harness, "--quiet", "say hi"]);
    configure(&shell, |config| {
        let scripted = config.split("[harness.json]").next().unwrap_or_default();
        let fresh = scripted.split("[harness.scripted]").nth(1).unwrap_or_default();
        let fresh = fresh.replace("harness.scripted", "harness.fresh");
        format!("{config}\n[harness.fresh]\nadapter = \"oneshot\"\n{fresh}")
    });
    let unknown = ask("fresh");
    assert_eq!(unknown.code, 3, "the daemon does not know it yet: {unknown:?}");
    signal(&daemon, Signal::SIGHUP);
    wait_until(Duration::from_secs(10), "the new harness is in force", || {
        let done = ask("fresh");
        if done.code == 0 { Ok(()) } else { Err(format!("{done:?}")) }
    });
    let mut before = String::new();
    configure(&shell, |config| {
        before = config.clone();
        format!("{config}\n[harness.fresh\n")
    });
    signal(&daemon, Signal::SIGHUP);
    let log = || std::fs::read_to_string(shell.path().join("daemon.log")).expect("readable");
    wait_until(Duration::from_secs(10), "the mistake is told", || {
        if log().contains("the configuration stays as it was") { Ok(()) } else { Err(log()) }
    });
    configure(&shell, |_| before);
    assert_eq!(ask("fresh").code, 0);
    let kept = kept.as_str().expect("an id");
    assert_eq!(shell.ostler(&["run", "--session", kept, "--quiet", "say again"]).code, 0);
    shell.end(daemon);
    shell.assert_nothing_left();
}
