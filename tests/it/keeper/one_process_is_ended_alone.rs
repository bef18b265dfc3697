//! A stray is ended; the leader and the others go on.

use std::time::Duration;

use ostler_keeper::{EndResult, Order, Process, Report};

use crate::support::keeper_client::{Client, Recipe, quick};
use crate::support::kernel::{is_alive, wait_until};

fn list(client: &mut Client) -> Vec<Process> {
    client.send(&Order::List { number: 1 });
    client.until("listing", |report| match report {
        Report::Listing { processes, .. } => Some(processes.clone()),
        _ => None,
    })
}

fn end(client: &mut Client, process: &Process, start: u64) -> EndResult {
    client.send(&Order::End { number: 2, pid: process.pid, start, grace_ms: 50 });
    client.until("ended", |report| match report {
        Report::Ended { number: 2, result } => Some(*result),
        _ => None,
    })
}

#[test]
fn a_deaf_stray_goes_and_the_leader_stays() {
    let recipe = Recipe::script("");
    let beat = recipe.root().join("beat");
    let script = format!("spawn heartbeat {} ;; say up ;; hang", beat.display());
    let recipe = Recipe {
        open: ostler_keeper::Open {
            command: crate::support::programs::agent(&["lines", &script]),
            ..recipe.open.clone()
        },
        ..recipe
    };
    let mut client = recipe.open();
    let leader = client.opened();
    let stray = wait_until(Duration::from_secs(10), "the stray beats", || {
        let strays: Vec<_> = list(&mut client).into_iter().filter(|p| p.sid == p.pid && p.pid != leader).collect();
        if beat.exists() { strays.first().cloned().ok_or_else(|| format!("{strays:?}")) } else { Err("no beat".into()) }
    });
    assert_eq!(end(&mut client, &stray, stray.start + 1), EndResult::NotFound, "another start time is another process");
    assert!(is_alive(stray.pid));
    assert_eq!(end(&mut client, &stray, stray.start), EndResult::Gone);
    assert!(!is_alive(stray.pid));
    assert!(is_alive(leader));
    let ids: Vec<_> = list(&mut client).iter().map(|process| process.pid).collect();
    assert_eq!(ids, vec![leader]);
    client.close(quick());
}

#[test]
fn a_process_of_another_tree_is_not_found() {
    let recipe = Recipe::script("hang");
    let mut client = recipe.open();
    client.opened();
    let own = std::process::id() as i32;
    let start = ostler_keeper::tree::Stat::read(own).expect("lives").start;
    let process = Process { pid: own, start, sid: 0, ppid: 0, command: String::new() };
    assert_eq!(end(&mut client, &process, start), EndResult::NotFound);
    client.close(quick());
}
