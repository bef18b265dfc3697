//! Output has offsets, is kept, is bounded, and is never made up.

use ostler_keeper::ladder::Ladder;
use ostler_keeper::{Order, Report, Stream};

use crate::support::keeper_client::{Client, Recipe, quick};
use crate::support::kernel::wait_until;
use std::time::Duration;

#[test]
fn a_new_owner_reads_again_from_where_the_old_one_was_safe() {
    let recipe = Recipe::script("say first ;; say second ;; hang");
    let mut client = Client::spare();
    client.hello();
    client.send(&Order::Open(Box::new(recipe.open.clone())));
    client.send(&Order::Read { stream: Stream::Stdout, from: 0 });
    let mut got = Vec::new();
    while got.len() < 13 {
        match client.next().expect("the keeper speaks") {
            Report::Output { bytes, .. } => got.extend_from_slice(&bytes),
            _ => continue,
        }
    }
    client.send(&Order::Ack { stream: Stream::Stdout, offset: 6 });
    client.send(&Order::Status);
    client.until("state", |report| matches!(report, Report::State(state) if state.stdout.base == 6).then_some(()));
    let keeper = client.process.take();
    drop(client);
    let (mut client, state) = Client::attach(&recipe.folder(), b"secret");
    assert_eq!((state.stdout.base, state.stdout.end), (6, 13));
    client.process = keeper;
    client.read_from(state.stdout.base);
    client.heard("second\n");
    assert_eq!(client.stdout, b"second\n");
    client.close(quick());
}

fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("lives");
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_ascii_whitespace().next());
    resident.expect("VmRSS").parse().expect("a number")
}

#[test]
fn without_an_owner_a_flood_waits_in_the_agent_and_loses_nothing() {
    let mut recipe = Recipe::script("flood 200000");
    recipe.open.stdout_retention = 1 << 20;
    let mut client = Client::spare();
    client.hello();
    client.send(&Order::Open(Box::new(recipe.open.clone())));
    client.opened();
    let keeper = client.process.take().expect("spawned");
    let pid = keeper.id();
    drop(client);
    wait_until(Duration::from_secs(20), "the retention is full", || {
        let (mut client, state) = Client::attach(&recipe.folder(), b"secret");
        client.send(&Order::Status);
        if state.stdout.end >= 1 << 20 { Ok(()) } else { Err(format!("{state:?}")) }
    });
    assert!(resident_kib(pid) < 16 << 10, "{} KiB for a retention of 1 MiB", resident_kib(pid));
    let (mut client, _) = Client::attach(&recipe.folder(), b"secret");
    client.process = Some(keeper);
    client.read_from(0);
    client.emptied();
    client.ended(Stream::Stdout);
    let lines: Vec<&[u8]> = client.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
    assert_eq!(lines.len(), 200_000);
    for (number, line) in lines.iter().enumerate() {
        assert_eq!(line, &format!("{number:07} ").as_bytes());
    }
    client.release();
}

/// What was read and not yet sent when an agent is stopped has to be read before its verdict.
#[test]
fn an_owner_who_reads_slowly_is_not_read_far_ahead_of() {
    let mut recipe = Recipe::script("flood 100000000");
    recipe.open.stdout_retention = 64 << 20;
    let mut client = recipe.open();
    let agent = client.opened();
    client.heard("0000000");
    // Nothing is read from here on: the agent waits for its pipe.
    wait_until(Duration::from_secs(20), "the agent waits", || {
        let place = std::fs::read_to_string(format!("/proc/{agent}/wchan")).unwrap_or_default();
        if place.contains("pipe") { Ok(()) } else { Err(place) }
    });
    let keeper = client.process.as_ref().expect("spawned").id();
    assert!(resident_kib(keeper) < 8 << 10, "{} KiB", resident_kib(keeper));
    client.send(&Order::Stop(Ladder::kill(Duration::from_secs(5))));
    client.emptied();
    assert!(client.ended(Stream::Stdout) < 4 << 20);
    client.release();
}

#[test]
fn ten_mebibytes_of_stderr_do_not_stop_the_agent_and_leave_their_tail() {
    let recipe = Recipe::script("stderr 10485760 ;; say done");
    let mut client = recipe.open();
    client.heard("done");
    client.emptied();
    let end = client.ended(Stream::Stderr);
    assert_eq!(end, 10 << 20);
    assert!(client.stderr.len() >= 256 << 10);
    client.release();
}

#[test]
fn the_bytes_before_a_crash_are_read_to_their_end() {
    let recipe = Recipe::script("half no-newline ;; crash 11");
    let mut client = recipe.open();
    assert!(matches!(client.exited(), ostler_keeper::Exit::Signal { signal: 11, .. }));
    client.emptied();
    client.ended(Stream::Stdout);
    assert_eq!(client.stdout, b"no-newline");
    client.release();
}
