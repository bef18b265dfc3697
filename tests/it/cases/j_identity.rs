//! A process is named by its id and its start: whoever gets the id next is a stranger, and left alone.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use ostler_keeper::ladder::{Ladder, Rung};
use ostler_keeper::tree::{self, Handle, Stat};
use ostler_keeper::{EndResult, Order, Report};

use super::{finish, kill, received, settled, sigkill};
use crate::support::keeper_client::Recipe;
use crate::support::kernel::{Marker, is_zombie, wait_until};
use crate::support::namespace;
use crate::support::shell::Shell;

/// A process that has nothing to do with any runtime, and says back what it is told.
fn stranger() -> Child {
    Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("cat")
}

/// Who was killed before says nothing any more, however soon he is asked.
fn assert_unharmed(stranger: &mut Child) {
    let mut answer = [0; 6];
    let asked = stranger.stdin.as_mut().expect("piped").write_all(b"alive\n");
    let answered = asked.and_then(|()| stranger.stdout.as_mut().expect("piped").read_exact(&mut answer));
    assert!(answered.is_ok() && &answer == b"alive\n", "a stranger was hit: {answered:?}");
}

fn start_of(pid: i32) -> u64 {
    Stat::read(pid).expect("lives").start
}

fn over(mut child: Child) {
    child.kill().expect("killed");
    child.wait().expect("reaped");
}

/// Where ids cannot be forced to come again, a record of somebody who had this one does as well.
#[test]
fn case_j8_a_record_of_an_earlier_process_of_the_same_id_costs_a_stranger_nothing() {
    let mut stranger = stranger();
    let pid = stranger.id() as i32;
    let start = start_of(pid);
    for earlier in [start - 1, 0, start + 1] {
        assert!(Handle::open(pid, earlier).is_none());
        tree::signal(pid, earlier, Signal::SIGKILL);
    }
    let recipe = Recipe::script("say up ;; hang");
    let mut client = recipe.open();
    client.heard("up");
    client.send(&Order::End { number: 1, pid, start: start - 1, grace_ms: 0 });
    let result = client.until("ended", |report| match report {
        Report::Ended { number: 1, result } => Some(*result),
        _ => None,
    });
    assert_eq!(result, EndResult::NotFound);
    assert_unharmed(&mut stranger);
    tree::signal(pid, start, Signal::SIGKILL);
    assert!(!stranger.wait().expect("reaped").success(), "the right one is hit");
    client.close(crate::support::keeper_client::quick());
}

const OWN_IDS: [&str; 4] = ["-p", "-m", "-f", "--mount-proc"];
const MAY_CHOOSE: &str = "echo 100 > /proc/sys/kernel/ns_last_pid";

#[test]
fn case_j8_whoever_gets_the_ids_of_a_killed_runtime_is_not_swept() {
    namespace::play("cases::j_identity::ids_of_a_killed_runtime", &OWN_IDS, MAY_CHOOSE);
}

#[test]
fn case_j10_whoever_gets_an_id_between_term_and_kill_is_not_killed() {
    namespace::play("cases::j_identity::ids_between_term_and_kill", &OWN_IDS, MAY_CHOOSE);
}

#[test]
fn case_j10_a_handle_that_was_opened_before_reaches_nobody_else() {
    namespace::play("cases::j_identity::a_handle_of_the_dead", &OWN_IDS, MAY_CHOOSE);
}

/// A stranger of this id, which is free. Other processes may be made meanwhile and take it first.
fn stranger_of(pid: i32) -> Child {
    wait_until(Duration::from_secs(20), "the id comes again", || {
        std::fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).expect("written");
        let stranger = stranger();
        if stranger.id() as i32 == pid {
            return Ok(stranger);
        }
        let other = stranger.id();
        over(stranger);
        Err(format!("{other} instead of {pid}"))
    })
}

/// Waits for the death of a process, and reaps it if it came to us.
fn gone(pid: i32) {
    wait_until(Duration::from_secs(20), "it is gone", || {
        if is_zombie(pid) {
            // Another's child is waited for by that one.
            let _other = waitpid(Pid::from_raw(pid), Some(WaitPidFlag::WNOHANG));
        }
        if std::path::Path::new(&format!("/proc/{pid}")).exists() { Err(pid.to_string()) } else { Ok(()) }
    });
}

#[test]
#[ignore = "played by case_j8 in namespaces of its own"]
fn ids_of_a_killed_runtime() {
    namespace::assert_inside("cases::j_identity::ids_of_a_killed_runtime");
    prctl::set_child_subreaper(true).expect("set");
    let shell = Shell::new();
    let daemon = shell.serve();
    let client = shell.spawn(&["run", "--harness", "scripted", "say up ;; hang"]);
    received(&shell, 1);
    let log = std::fs::read_to_string(&shell.log).expect("a log");
    let agent: i32 = log.split(' ').next().and_then(|pid| pid.parse().ok()).expect("a pid");
    let keeper = Stat::read(agent).expect("lives").ppid;
    kill(daemon);
    finish(client);
    sigkill(keeper);
    [keeper, agent].into_iter().for_each(gone);
    let mut strangers = [keeper, agent].map(stranger_of);
    let daemon = shell.serve();
    assert_eq!(settled(&shell)[0]["outcome"]["reason"], "OBSERVATION_LOST");
    strangers.iter_mut().for_each(assert_unharmed);
    strangers.into_iter().for_each(over);
    shell.end(daemon);
}

/// One process of the tree ends at SIGTERM and its id comes again; another is deaf, so that SIGKILL follows.
#[test]
#[ignore = "played by case_j10 in namespaces of its own"]
fn ids_between_term_and_kill() {
    namespace::assert_inside("cases::j_identity::ids_between_term_and_kill");
    let text = "setsid sleep 1111 & setsid sh -c 'trap \"\" TERM; echo deaf; while :; do sleep 1; done' & wait; wait";
    let recipe = Recipe::command(vec!["/bin/sh".into(), "-c".into(), text.into()]);
    let mut client = recipe.open();
    client.heard("deaf");
    let tool = tool(&recipe.marker);
    client.send(&Order::Stop(Ladder::new([
        (Rung::Terminate, Duration::from_secs(4)),
        (Rung::Kill, Duration::from_secs(5)),
    ])));
    gone(tool);
    let mut stranger = stranger_of(tool);
    let rung = client.until("the next rung", |report| match report {
        Report::Rung(rung) => Some(*rung),
        Report::Emptied(_) => panic!("nothing was left to be killed"),
        _ => None,
    });
    let rung = if rung == Rung::Terminate {
        client.until("SIGKILL", |report| if let Report::Rung(rung) = report { Some(*rung) } else { None })
    } else {
        rung
    };
    assert_eq!(rung, Rung::Kill, "the stranger was there before");
    client.emptied();
    assert_unharmed(&mut stranger);
    over(stranger);
    client.release();
}

fn tool(marker: &Marker) -> i32 {
    wait_until(Duration::from_secs(10), "the tool runs", || {
        let alive = marker.alive();
        let tool = alive.iter().find(|(_, line)| line.starts_with("sleep 1111"));
        tool.map(|(pid, _)| *pid).ok_or_else(|| format!("{alive:?}"))
    })
}

#[test]
#[ignore = "played by case_j10 in namespaces of its own"]
fn a_handle_of_the_dead() {
    namespace::assert_inside("cases::j_identity::a_handle_of_the_dead");
    let first = stranger();
    let pid = first.id() as i32;
    let start = start_of(pid);
    let handle = Handle::open(pid, start).expect("it lives");
    handle.signal(Signal::SIGTERM).expect("sent");
    over_by_itself(first);
    // The start is told in hundredths of a second.
    wait_until(Duration::from_secs(5), "a tick passes", || {
        let now = tree::ticks(ostler_keeper::clock::now());
        if now > start { Ok(()) } else { Err(String::new()) }
    });
    let mut second = stranger_of(pid);
    assert_eq!(handle.signal(Signal::SIGKILL), Err(nix::errno::Errno::ESRCH));
    tree::signal(pid, start, Signal::SIGKILL);
    assert_unharmed(&mut second);
    over(second);
}

fn over_by_itself(mut child: Child) {
    assert!(!child.wait().expect("reaped").success());
}
