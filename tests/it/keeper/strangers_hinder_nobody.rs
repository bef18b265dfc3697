//! Whoever connects without the secret costs nothing and keeps nobody out.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use ostler_keeper::wire;
use ostler_keeper::{Auth, Order, Report};

use crate::support::keeper_client::{Client, Recipe, quick};
use crate::support::kernel::{Sweep, cpu_share, resident_kib};

fn runtime() -> (Recipe, Client, i32) {
    let recipe = Recipe::command(vec!["/bin/sleep".into(), "1000".into()]);
    let mut client = recipe.open();
    client.opened();
    let pid = client.process.as_ref().expect("spawned").id() as i32;
    (recipe, client, pid)
}

#[test]
fn a_flood_of_connections_does_not_keep_the_owner_out() {
    let (recipe, mut client, pid) = runtime();
    let _sweep = Sweep(pid, recipe.marker.clone());
    let folder = recipe.folder();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let attached = std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let path = folder.join("s");
                let mut held = std::collections::VecDeque::new();
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    held.extend(UnixStream::connect(&path));
                    if held.len() > 200 {
                        held.clear();
                    }
                }
            });
        }
        std::thread::sleep(Duration::from_millis(100));
        let mut good = 0;
        for _ in 0..20 {
            let mut owner = Client::connect(&folder).expect("listens");
            let sent =
                owner.stream.write_all(&Order::Attach { auth: Auth::CURRENT, secret: b"secret".to_vec() }.encode());
            let welcomed = sent.is_ok() && matches!(owner.next(), Some(Report::Welcome { .. }));
            good += usize::from(welcomed);
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        good
    });
    eprintln!("{attached} of 20");
    assert!(attached >= 18, "only {attached} of 20 owners were let in");
    let (mut owner, _) = Client::attach(&recipe.folder(), b"secret");
    owner.process = client.process.take();
    owner.close(quick());
}

#[test]
fn half_an_attach_of_64_mebibytes_is_not_buffered() {
    let (recipe, client, pid) = runtime();
    let _sweep = Sweep(pid, recipe.marker.clone());
    let before = resident_kib(pid);
    let mut strangers = Vec::new();
    for _ in 0..4 {
        let mut stranger = UnixStream::connect(recipe.folder().join("s")).expect("listens");
        stranger.set_write_timeout(Some(Duration::from_secs(3))).expect("a timeout");
        let mut head = (wire::MAX_FRAME as u32).to_le_bytes().to_vec();
        head.extend_from_slice(&2u16.to_le_bytes());
        let piece = vec![0u8; 1 << 20];
        let _refused = stranger.write_all(&head);
        for _ in 0..60 {
            if stranger.write_all(&piece).is_err() {
                break;
            }
        }
        strangers.push(stranger);
    }
    let after = resident_kib(pid);
    assert!(after < before + 1024, "{before} KiB grew to {after} KiB for strangers");
    client.close(quick());
}

#[test]
fn orders_that_follow_an_attach_at_once_are_obeyed() {
    let (recipe, mut client, pid) = runtime();
    let _sweep = Sweep(pid, recipe.marker.clone());
    let mut owner = Client::connect(&recipe.folder()).expect("listens");
    let attach = Order::Attach { auth: Auth::CURRENT, secret: b"secret".to_vec() }.encode();
    owner.stream.write_all(&[attach, Order::List { number: 9 }.encode()].concat()).expect("sent");
    owner.until("state", |report| matches!(report, Report::State(_)).then_some(()));
    owner.send(&Order::Status);
    let listed = owner.until("listing", |report| match report {
        Report::Listing { .. } => Some(true),
        Report::State(_) => Some(false),
        _ => None,
    });
    owner.process = client.process.take();
    assert!(listed, "the order after Attach was lost without an answer");
    owner.close(quick());
}

#[test]
fn a_silent_and_a_slow_stranger_are_sent_away_and_cost_no_time() {
    let (recipe, client, pid) = runtime();
    let _sweep = Sweep(pid, recipe.marker.clone());
    let mut slow = Client::connect(&recipe.folder()).expect("listens");
    let frame = Order::Attach { auth: Auth::CURRENT, secret: b"secret".to_vec() }.encode();
    slow.stream.write_all(&frame[..frame.len() / 2]).expect("sent");
    let mut silent = Client::connect(&recipe.folder()).expect("listens");
    let at = Instant::now();
    assert!(cpu_share(pid, Duration::from_millis(400)) < 0.05);
    assert_eq!((slow.next(), silent.next()), (None, None));
    assert!(at.elapsed() < Duration::from_secs(7));
    client.close(quick());
}

#[test]
fn descriptors_do_not_leak_over_many_attaches() {
    let (recipe, mut client, pid) = runtime();
    let _sweep = Sweep(pid, recipe.marker.clone());
    let count = || std::fs::read_dir(format!("/proc/{pid}/fd")).expect("fds").count();
    let before = count();
    let mut last = None;
    for _ in 0..300 {
        drop(Client::connect(&recipe.folder()));
        last = Some(Client::attach(&recipe.folder(), b"secret").0);
    }
    std::thread::sleep(Duration::from_millis(50));
    assert!(count() <= before + 1, "{before} grew to {}", count());
    let mut owner = last.expect("attached");
    owner.process = client.process.take();
    owner.close(quick());
}
