//! Every kind of child that a supervisor has to end.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};
use nix::unistd::setsid;

/// The Python text of a process whose first thread ends while another lives: it shows as a zombie and is none.
const LEADER_THREAD: &str = "
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(1000,)).start()
ctypes.CDLL(None).pthread_exit(None)
";

/// Starts a child of a kind and does not wait for it.
pub(crate) fn spawn(arguments: &[String]) {
    if command(arguments).spawn().is_err() {
        eprintln!("ostler-agent: the child could not be started");
    }
}

fn command(arguments: &[String]) -> Command {
    let kind = arguments.first().map(String::as_str).unwrap_or("sleep");
    let mut command = match kind {
        "leader-thread" => {
            let mut python = Command::new("python3");
            python.args(["-c", LEADER_THREAD]);
            python
        }
        "nohup" => {
            let mut shell = Command::new("sh");
            shell.args(["-c", "nohup sh -c 'sleep 1000; true' >/dev/null 2>&1 &"]);
            shell
        }
        _ => {
            let program = std::env::current_exe().unwrap_or_else(|_| "ostler-agent".into());
            let mut own = Command::new(program);
            // The program may be one that plays the agent among other roles.
            own.arg0("ostler-agent").args(std::env::var("OSTLER_AGENT_ROLE").ok()).arg("child").args(arguments);
            own
        }
    };
    if kind == "env-i" {
        command.env_clear();
    }
    if !matches!(kind, "hold-pipes" | "quiet-server") {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    }
    command
}

/// Plays the child.
pub(crate) fn play(arguments: &[String]) -> ExitCode {
    match arguments.first().map(String::as_str).unwrap_or("sleep") {
        "setsid" => own_session(),
        "late-setsid" => {
            std::thread::sleep(Duration::from_millis(100));
            own_session();
        }
        "run-setsid" => return run_in_own_session(arguments.get(1)),
        "double-fork" => {
            spawn(&["setsid".to_owned()]);
            return ExitCode::SUCCESS;
        }
        "ignore-term" | "quiet-server" => ignore_term(),
        "fork-loop" => return fork_loop(),
        "exec-loop" => return exec_loop(),
        "stopped" => stop_self(),
        "niced" => nice(),
        "spin" => loop {
            std::hint::spin_loop();
        },
        "heartbeat" => return heartbeat(arguments.get(1)),
        _ => {}
    }
    std::thread::sleep(Duration::from_secs(1000));
    ExitCode::SUCCESS
}

fn run_in_own_session(command: Option<&String>) -> ExitCode {
    own_session();
    let Some(command) = command else { return ExitCode::from(2) };
    let error = Command::new("sh").args(["-c", command]).exec();
    eprintln!("ostler-agent: {error}");
    ExitCode::FAILURE
}

fn own_session() {
    // Fails only for a process that leads its group, which is then as far away as it can be.
    let _already = setsid();
}

/// Blocking is enough to be deaf, and needs no handler.
fn ignore_term() {
    let mut mask = SigSet::empty();
    [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT].into_iter().for_each(|signal| mask.add(signal));
    if mask.thread_block().is_err() {
        eprintln!("ostler-agent: signals cannot be blocked");
    }
}

/// Each generation starts the next one and ends: there is never the same process twice to kill.
fn fork_loop() -> ExitCode {
    own_session();
    std::thread::sleep(Duration::from_millis(2));
    spawn(&["fork-loop".to_owned()]);
    ExitCode::SUCCESS
}

fn exec_loop() -> ExitCode {
    std::thread::sleep(Duration::from_millis(2));
    let error = command(&["exec-loop".to_owned()]).exec();
    eprintln!("ostler-agent: {error}");
    ExitCode::FAILURE
}

fn stop_self() {
    own_session();
    let _stopped_until_continued = nix::sys::signal::raise(Signal::SIGSTOP);
}

fn nice() {
    own_session();
    let renice = Command::new("renice").args(["-n", "19", "-p", &std::process::id().to_string()]).output();
    if renice.is_err() {
        eprintln!("ostler-agent: renice is not installed");
    }
    loop {
        std::hint::spin_loop();
    }
}

fn heartbeat(path: Option<&String>) -> ExitCode {
    own_session();
    ignore_term();
    let Some(path) = path else { return ExitCode::from(2) };
    for beat in 0u64.. {
        if std::fs::write(path, beat.to_string()).is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    ExitCode::SUCCESS
}
