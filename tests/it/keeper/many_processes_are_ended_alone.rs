//! Trees with many processes: what is said to be gone is gone, and the keeper stays responsive.

use std::time::{Duration, Instant};

use ostler_keeper::{EndResult, Order, Process, Report};

use crate::support::keeper_client::{Client, Recipe, quick};
use crate::support::kernel::{Sweep, is_alive, wait_until};

fn list(client: &mut Client) -> Vec<Process> {
    client.send(&Order::List { number: 1 });
    client.until("listing", |report| match report {
        Report::Listing { processes, .. } => Some(processes.clone()),
        _ => None,
    })
}

fn end(client: &mut Client, process: &Process) -> EndResult {
    client.send(&Order::End { number: 2, pid: process.pid, start: process.start, grace_ms: 50 });
    client.until("ended", |report| match report {
        Report::Ended { number: 2, result } => Some(*result),
        _ => None,
    })
}

fn crowd(count: usize) -> Recipe {
    let python = format!(
        "import os,signal,time\nsignal.signal(signal.SIGTERM,signal.SIG_IGN)\nif os.fork()==0:\n  os.setsid()\n  \
         for i in range({count}):\n    if os.fork()==0:\n      while True: signal.pause()\n  \
         print('up',flush=True)\n  while True: signal.pause()\nwhile True: signal.pause()\n"
    );
    Recipe::command(vec!["python3".into(), "-c".into(), python.into()])
}

#[test]
fn more_processes_than_descriptors() {
    let recipe = crowd(100);
    let mut client = recipe.open();
    let leader = client.opened();
    let pid = client.process.as_ref().expect("spawned").id() as i32;
    let _sweep = Sweep(pid, recipe.marker.clone());
    client.heard("up");
    let limit = nix::libc::rlimit { rlim_cur: 64, rlim_max: 64 };
    // SAFETY: sets a limit of a process of ours from a plain structure.
    unsafe { nix::libc::prlimit(pid, nix::libc::RLIMIT_NOFILE, &limit, std::ptr::null_mut()) };
    let all = list(&mut client);
    let target = all.iter().find(|p| p.sid == p.pid && p.pid != leader).expect("the session").clone();
    let result = end(&mut client, &target);
    let left: Vec<i32> = all.iter().map(|p| p.pid).filter(|&p| p != leader && is_alive(p)).collect();
    assert!(result != EndResult::Gone || left.is_empty(), "said to be gone, but {} live", left.len());
    client.close(quick());
}

#[test]
fn six_hundred_processes_are_listed_and_stopped_in_their_time() {
    let recipe = crowd(600);
    let mut client = recipe.open();
    client.opened();
    let pid = client.process.as_ref().expect("spawned").id() as i32;
    let _sweep = Sweep(pid, recipe.marker.clone());
    client.heard("up");
    let at = Instant::now();
    assert!(list(&mut client).len() > 600);
    let listing = at.elapsed();
    let at = Instant::now();
    client.send(&Order::Stop(quick()));
    client.emptied();
    let stopping = at.elapsed();
    eprintln!("listing {listing:?}, stopping {stopping:?}");
    assert!(listing < Duration::from_secs(10), "listing took {listing:?}");
    assert!(stopping < Duration::from_secs(30), "stopping took {stopping:?}");
    client.release();
}

/// A chain in which every process forks its successor and exits: it moves away from its parent all the time.
#[test]
fn a_chain_of_forks_in_a_session_of_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("chain");
    let source = "#include <unistd.h>\n#include <signal.h>\n#include <time.h>\nint main(){time_t end=time(0)+15;\n\
        signal(SIGTERM,SIG_IGN);while(time(0)<end){if(fork())_exit(0);usleep(300);}return 0;}";
    std::fs::write(folder.path().join("chain.c"), source).expect("written");
    let built = std::process::Command::new("gcc").arg("-o").arg(&program).arg(folder.path().join("chain.c")).status();
    if !built.is_ok_and(|status| status.success()) {
        return;
    }
    let text = format!("setsid {} & echo up; sleep 1000", program.display());
    let recipe = Recipe::command(vec!["/bin/sh".into(), "-c".into(), text.into()]);
    let mut client = recipe.open();
    client.opened();
    let pid = client.process.as_ref().expect("spawned").id() as i32;
    let _sweep = Sweep(pid, recipe.marker.clone());
    client.heard("up");
    let (mut gone, mut tries) = (false, 0);
    for _ in 0..300 {
        let Some(stray) =
            list(&mut client).into_iter().find(|p| p.command.starts_with(&*program.to_string_lossy()) && p.ppid == pid)
        else {
            continue;
        };
        tries += 1;
        if end(&mut client, &stray) == EndResult::Gone {
            gone = true;
            break;
        }
    }
    std::thread::sleep(Duration::from_millis(50));
    let left: Vec<_> = (0..50)
        .flat_map(|_| list(&mut client))
        .filter(|p| p.command.starts_with(&*program.to_string_lossy()))
        .collect();
    eprintln!("gone {gone} after {tries} tries; seen alive {} times", left.len());
    client.send(&Order::Stop(quick()));
    client.emptied();
    assert_eq!(recipe.marker.alive(), vec![]);
    assert!(!gone || left.is_empty(), "said to be gone after {tries} tries, but its successor lives");
    client.release();
}

#[test]
fn children_in_other_sessions_go_with_their_parent() {
    let text = "sh -c 'setsid sh -c \"trap : TERM; sleep 1000; sleep 1000\" & setsid sleep 1000 & wait; sleep 1000' & echo up; wait; sleep 1000";
    let recipe = Recipe::command(vec!["/bin/sh".into(), "-c".into(), text.into()]);
    let mut client = recipe.open();
    let leader = client.opened();
    let pid = client.process.as_ref().expect("spawned").id() as i32;
    let _sweep = Sweep(pid, recipe.marker.clone());
    client.heard("up");
    wait_until(Duration::from_secs(5), "all are up", || {
        if recipe.marker.alive().len() >= 5 { Ok(()) } else { Err("few".into()) }
    });
    let target = list(&mut client).into_iter().find(|p| p.ppid == leader).expect("the child");
    assert_eq!(end(&mut client, &target), EndResult::Gone);
    wait_until(Duration::from_secs(20), "only the leader's are left", || {
        let left = recipe.marker.alive();
        if left.len() <= 2 { Ok(()) } else { Err(format!("{left:?}")) }
    });
    client.close(quick());
}
