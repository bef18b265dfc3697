//! The largest and smallest numbers, the shortest lives, and noise.

use std::io::Write;
use std::process::Command;
use std::time::Duration;

use ostler_keeper::ladder::{Ladder, Rung};
use ostler_keeper::wire::Writer;
use ostler_keeper::{Order, Report};

use crate::support::keeper_client::{Client, Recipe, quick};
use crate::support::kernel::{Sweep, cpu_share};
use crate::support::programs;

fn shell(text: &str) -> Recipe {
    Recipe::command(vec!["/bin/sh".into(), "-c".into(), text.into()])
}

fn pid(client: &Client) -> i32 {
    client.process.as_ref().expect("spawned").id() as i32
}

#[test]
fn numbers_without_end() {
    let mut recipe = shell("trap '' TERM; (sleep 1000 &) ; echo up; while :; do sleep 1000; done");
    recipe.open.stdout_retention = u64::MAX;
    recipe.open.stderr_retention = u64::MAX;
    recipe.open.input_capacity = 0;
    recipe.open.orphan.grace_ms = u64::MAX;
    let mut client = recipe.open();
    let _sweep = Sweep(pid(&client), recipe.marker.clone());
    client.heard("up");
    client.input(1, &[b'x'; 100]);
    client.input(u64::MAX, b"x");
    client.send(&Order::Ack { stream: ostler_keeper::Stream::Stdout, offset: u64::MAX });
    client.send(&Order::Read { stream: ostler_keeper::Stream::Stdout, from: u64::MAX });
    client.send(&Order::List { number: u64::MAX });
    let stray = client.until("listing", |report| match report {
        Report::Listing { processes, .. } => processes.iter().find(|p| p.ppid == pid_of_parent(processes)).cloned(),
        _ => None,
    });
    client.send(&Order::End { number: 1, pid: -1, start: 0, grace_ms: u64::MAX });
    client.send(&Order::End { number: 2, pid: stray.pid, start: stray.start, grace_ms: u64::MAX });
    let forever = Duration::from_millis(u64::MAX);
    client.send(&Order::Stop(Ladder::new([(Rung::EndOfInput, forever), (Rung::Terminate, forever)])));
    assert!(cpu_share(pid(&client), Duration::from_millis(300)) < 0.06);
    let keeper = client.process.take();
    drop(client);
    std::thread::sleep(Duration::from_millis(100));
    let (mut client, _) = Client::attach(&recipe.folder(), b"secret");
    client.process = keeper;
    client.read_from(0);
    client.close(Ladder::kill(Duration::from_secs(5)));
}

/// An agent that was told of the end of its input long ago is not told anything new by the first rung.
#[test]
fn the_end_of_an_input_that_had_ended_is_not_waited_for() {
    let recipe = Recipe::script("say up ;; hang");
    let mut client = recipe.open();
    client.heard("up");
    client.send(&Order::CloseInput);
    client.until("closed", |report| matches!(report, Report::InputState(state) if state.closed).then_some(()));
    let forever = Duration::from_millis(u64::MAX);
    client.close(Ladder::new([(Rung::EndOfInput, forever), (Rung::Terminate, forever)]));
}

fn pid_of_parent(processes: &[ostler_keeper::Process]) -> i32 {
    processes[0].pid
}

#[test]
fn a_program_that_does_not_exist_was_never_opened() {
    let mut lies = 0;
    for _ in 0..40 {
        let recipe = Recipe::command(vec!["/no/such/program".into()]);
        let mut client = Client::spare();
        client.hello();
        let open = Order::Open(Box::new(recipe.open.clone())).encode();
        client
            .stream
            .write_all(&[open, Order::Stop(Ladder::kill(Duration::from_secs(5))).encode()].concat())
            .expect("sent");
        let opened = client.until("answer", |report| match report {
            Report::Opened { .. } => Some(true),
            Report::OpenFailed { .. } => Some(false),
            _ => None,
        });
        lies += usize::from(opened);
    }
    assert_eq!(lies, 0, "of 40 starts of a missing program were reported as opened");
}

#[test]
fn noise_in_whole_frames_neither_kills_the_keeper_nor_its_tree() {
    let recipe = shell("exec sleep 1000");
    let mut client = recipe.open();
    let keeper = pid(&client);
    let _sweep = Sweep(keeper, recipe.marker.clone());
    client.opened();
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    for _ in 0..3000 {
        let kind = [2, 4, 5, 6, 9, 10, 12, 13, 32, 47, 999][(random() % 11) as usize];
        let mut writer = Writer::frame(kind);
        for _ in 0..random() % 5 {
            let tag = (random() % 5) as u16;
            writer = match random() % 4 {
                0 => writer.number(tag, random() % 4),
                1 => writer.number(tag, random()),
                2 => writer.bytes(tag, &random().to_le_bytes()[..(random() % 8) as usize]),
                _ => writer.number(tag, u64::MAX - random() % 3),
            };
        }
        let mut frame = writer.into_frame();
        if random() % 3 == 0 && frame.len() > 8 {
            let at = 6 + (random() as usize) % (frame.len() - 6);
            frame[at] ^= random() as u8;
        }
        client.stream.write_all(&frame).expect("the keeper reads");
        if random() % 16 == 0 {
            client.send(&Order::Status);
            client.until("state", |report| matches!(report, Report::State(_)).then_some(()));
        }
    }
    client.close(quick());
}

#[test]
fn standard_streams_that_were_closed_at_the_start() {
    let recipe = shell("echo out; echo err >&2; read line; echo got $line; ls -l /proc/self/fd | grep -c ' -> '");
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$0\" 1>&- 2>&-"]).arg(programs::keeper());
    let mut client = Client::spare_by(command);
    let _sweep = Sweep(pid(&client), recipe.marker.clone());
    client.hello();
    client.send(&Order::Open(Box::new(recipe.open.clone())));
    client.read_from(0);
    client.input(1, b"word\n");
    client.emptied();
    client.ended(ostler_keeper::Stream::Stdout);
    assert_eq!(String::from_utf8_lossy(&client.stdout), "out\ngot word\n4\n");
    assert_eq!(client.stderr, b"err\n");
    client.release();
}

#[test]
fn fifteen_hundred_orphans_are_reaped_while_the_leader_lives() {
    let recipe = shell("i=0; while [ $i -lt 1500 ]; do (true & ) ; i=$((i+1)); done; echo up; exec sleep 1000");
    let mut client = recipe.open();
    let keeper = pid(&client);
    let _sweep = Sweep(keeper, recipe.marker.clone());
    client.heard("up");
    std::thread::sleep(Duration::from_millis(50));
    let children = std::fs::read_to_string(format!("/proc/{keeper}/task/{keeper}/children")).unwrap_or_default();
    assert_eq!(children.split_ascii_whitespace().count(), 1, "{children}");
    client.close(quick());
}
