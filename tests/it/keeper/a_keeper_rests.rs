//! A keeper with nothing to do uses no processor time, in any phase.

use std::time::Duration;

use ostler_keeper::{Order, Report, Stream};

use crate::support::keeper_client::{Client, Recipe, quick};
use crate::support::kernel::{Sweep, containments, cpu_share};

fn shell(text: &str) -> Recipe {
    Recipe::command(vec!["/bin/sh".into(), "-c".into(), text.into()])
}

fn rests(name: &str, recipe: Recipe, prepare: impl FnOnce(&mut Client)) {
    let mut client = recipe.open();
    let pid = client.process.as_ref().expect("spawned").id() as i32;
    let _sweep = Sweep(pid, recipe.marker.clone());
    prepare(&mut client);
    std::thread::sleep(Duration::from_millis(300));
    let share = cpu_share(pid, Duration::from_millis(400));
    // Ended here, so that no leaf is left.
    client.send(&Order::Stop(ostler_keeper::ladder::Ladder::kill(Duration::from_secs(5))));
    client.once("the end", |report| matches!(report, Report::Emptied(_)).then_some(()));
    client.send(&Order::Release);
    assert!(share < 0.06, "{name}: {share:.2} of a processor");
}

#[test]
fn as_a_spare() {
    let client = Client::spare();
    let pid = client.process.as_ref().expect("spawned").id() as i32;
    assert!(cpu_share(pid, Duration::from_millis(300)) < 0.06);
}

#[test]
fn while_the_agent_idles() {
    for leaf in containments() {
        rests("idle", shell("echo up; sleep 1000").with_leaf(leaf), |client| client.heard("up"));
    }
}

#[test]
fn after_the_tree_is_empty() {
    for leaf in containments() {
        rests("empty", shell("echo up").with_leaf(leaf), |client| {
            client.emptied();
        });
    }
}

#[test]
fn after_the_tree_is_empty_with_output_unread() {
    rests("empty, unread", shell("head -c 3000000 /dev/zero"), |client| {
        client.once("exit", |report| matches!(report, Report::Emptied(_)).then_some(()));
    });
}

#[test]
fn when_the_agent_closed_its_input() {
    rests("stdin", shell("exec 0<&-; echo up; exec sleep 1000"), |client| client.heard("up"));
}

#[test]
fn when_the_agent_closed_its_input_with_messages_waiting() {
    rests("stdin", shell("echo up; sleep 0.3; exec 0<&-; exec sleep 1000"), |client| {
        client.heard("up");
        client.input(1, &vec![b'x'; 1 << 20]);
    });
}

#[test]
fn when_the_agent_closed_its_outputs() {
    rests("outputs", shell("exec 1>&- 2>&-; exec sleep 1000"), |client| {
        client.ended(Stream::Stdout);
        client.ended(Stream::Stderr);
    });
    rests("stderr", shell("exec 2>&-; exec sleep 1000"), |client| {
        client.ended(Stream::Stderr);
    });
}

#[test]
fn when_the_agent_reads_nothing() {
    rests("input waits", shell("exec sleep 1000"), |client| client.input(1, &vec![b'x'; 4 << 20]));
}

#[test]
fn when_the_owner_reads_nothing_while_a_flood_goes_on() {
    let mut recipe = shell("yes");
    recipe.open.stdout_retention = 1 << 20;
    rests("owner deaf", recipe, |client| {
        client.opened();
    });
}

#[test]
fn when_the_leader_is_gone_and_its_child_stays() {
    for leaf in containments() {
        let mut recipe = shell("sleep 1000 & echo up").with_leaf(leaf);
        recipe.open.on_leader_exit = None;
        rests("leader gone", recipe, |client| {
            client.exited();
        });
    }
}

#[test]
fn while_a_zombie_is_not_reaped_by_its_parent() {
    rests("zombies", shell("sh -c 'sleep 0.05 & exec sleep 1000' & echo up; exec sleep 1000"), |client| {
        client.heard("up");
    });
}

#[test]
fn on_a_rung_that_waits() {
    use ostler_keeper::ladder::{Ladder, Rung};
    rests("rung", shell("trap '' TERM; echo up; while :; do sleep 100; done"), |client| {
        client.heard("up");
        client.send(&Order::Stop(Ladder::new([(Rung::EndOfInput, Duration::from_secs(30))])));
    });
}

#[test]
fn while_an_end_waits_for_its_grace() {
    rests("end", shell("sh -c 'trap \"\" TERM; while :; do sleep 100; done' & echo up; wait"), |client| {
        client.heard("up");
        client.send(&Order::List { number: 1 });
        let stray = client.until("listing", |report| match report {
            Report::Listing { processes, .. } => Some(processes[1].clone()),
            _ => None,
        });
        client.send(&Order::End { number: 2, pid: stray.pid, start: stray.start, grace_ms: 20_000 });
    });
}

#[test]
fn orphaned_with_output_unread() {
    let mut recipe = shell("yes");
    recipe.open.stdout_retention = 1 << 20;
    let mut client = recipe.open();
    client.opened();
    let keeper = client.process.take().expect("spawned");
    let _sweep = Sweep(keeper.id() as i32, recipe.marker.clone());
    drop(client);
    std::thread::sleep(Duration::from_millis(300));
    let share = cpu_share(keeper.id() as i32, Duration::from_millis(400));
    assert!(share < 0.06, "{share:.2}");
    let (mut client, _) = Client::attach(&recipe.folder(), b"secret");
    client.process = Some(keeper);
    client.close(quick());
}

#[test]
fn when_every_descriptor_is_used_up_and_somebody_knocks() {
    let recipe = shell("echo up; sleep 1000");
    let mut client = recipe.open();
    client.heard("up");
    let pid = client.process.as_ref().expect("spawned").id() as i32;
    let _sweep = Sweep(pid, recipe.marker.clone());
    let open = |fd: u64| std::path::Path::new(&format!("/proc/{pid}/fd/{fd}")).is_symlink();
    // As many numbers below the limit as `poll` needs, and one stranger for each that is free.
    let limit = 10;
    let free = (0..limit).filter(|fd| !open(*fd)).count();
    let limit = nix::libc::rlimit { rlim_cur: limit, rlim_max: limit };
    // SAFETY: sets a limit of a process of ours from a plain structure.
    unsafe { nix::libc::prlimit(pid, nix::libc::RLIMIT_NOFILE, &limit, std::ptr::null_mut()) };
    let knock = |_| std::os::unix::net::UnixStream::connect(recipe.folder().join("s")).expect("connected");
    let _guests: Vec<_> = (0..free + 1).map(knock).collect();
    std::thread::sleep(Duration::from_millis(100));
    let share = cpu_share(pid, Duration::from_millis(400));
    assert!(share < 0.06, "{share:.2} of a processor with {free} strangers inside and one that cannot be let in");
}
