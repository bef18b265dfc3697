//! Each limit of an order holds, or the keeper says why it does not.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ostler_keeper::{Containment, Emptiness, Exit, Limit, LimitKind, LimitStanding, LimitState, Order, Report, Stream};

use crate::support::keeper_client::{Client, Recipe, quick};
use crate::support::kernel::{Sweep, containments, wait_until};

fn limited(text: &str, limits: &[(LimitKind, u64)], leaf: Option<PathBuf>) -> Recipe {
    let mut recipe = Recipe::command(vec!["/bin/sh".into(), "-c".into(), text.into()]).with_leaf(leaf);
    recipe.open.limits = limits.iter().map(|&(kind, value)| Limit { kind, value }).collect();
    recipe
}

fn start(recipe: &Recipe) -> (Client, Sweep, Vec<LimitState>) {
    let mut client = recipe.open();
    let sweep = Sweep(client.process.as_ref().expect("spawned").id() as i32, recipe.marker.clone());
    let told = client.until("opened", |report| match report {
        Report::Opened { limits, .. } => Some(limits.clone()),
        Report::OpenFailed { step, errno, text } => panic!("open failed at {step}: {errno} {text}"),
        _ => None,
    });
    (client, sweep, told)
}

fn end(mut client: Client) -> (Exit, Emptiness, String) {
    let (exit, emptiness) = (client.exited(), client.emptied());
    client.ended(Stream::Stdout);
    let text = String::from_utf8_lossy(&client.stdout).into_owned();
    client.release();
    (exit, emptiness, text)
}

/// What the kernel offers leaves of this parent, by its own files.
fn is_given(controller: &str, parent: Option<&Path>) -> bool {
    let file = parent.map(|parent| parent.join("cgroup.controllers"));
    let given = file.and_then(|file| std::fs::read_to_string(file).ok()).unwrap_or_default();
    given.split_ascii_whitespace().any(|name| name == controller)
}

/// A limit of a leaf is in force exactly where its file in the leaf says so; otherwise the reason is the true one.
fn leaf_limit_is_true(told: &LimitState, controller: &str, file: &str, recipe: &Recipe) -> bool {
    let parent = recipe.open.leaf_parent.as_deref();
    let leaf = parent.map(|parent| parent.join(format!("ostler-{}", recipe.marker.text())));
    let held = leaf.and_then(|leaf| std::fs::read_to_string(leaf.join(file)).ok());
    let holds = held.as_deref().map(str::trim) == Some(told.value.to_string().as_str());
    let standing = match (parent, is_given(controller, parent)) {
        (None, _) => LimitStanding::NoLeaf,
        (Some(_), false) => LimitStanding::NotDelegated,
        (Some(_), true) if holds => LimitStanding::InForce,
        (Some(_), true) => LimitStanding::Refused,
    };
    assert_eq!(told.standing, standing, "{told:?}, the leaf says {held:?}");
    eprintln!("{told}, {parent:?}");
    holds
}

#[test]
fn resource_limits_bind_the_agent_and_what_it_starts() {
    for leaf in containments() {
        let limits = [
            (LimitKind::OpenFiles, 64),
            (LimitKind::FileSize, 4096),
            (LimitKind::CoreSize, 0),
            (LimitKind::CpuSeconds, 77),
            (LimitKind::AddressSpace, 1 << 30),
        ];
        let show = "for l in NOFILE FSIZE CORE CPU AS; do prlimit --noheadings --output SOFT,HARD --$( \
            echo $l | tr A-Z a-z); done";
        let recipe = limited(&format!("sh -c '{show}'"), &limits, leaf);
        let (client, _sweep, told) = start(&recipe);
        let expected: Vec<_> = limits.map(|(kind, value)| (kind, value, LimitStanding::InForce)).to_vec();
        assert_eq!(told.iter().map(|l| (l.kind, l.value, l.standing)).collect::<Vec<_>>(), expected);
        let (exit, _, text) = end(client);
        let shown: Vec<u64> = text.split_whitespace().map(|word| word.parse().expect("a number")).collect();
        assert_eq!((exit, shown), (Exit::Code(0), vec![64, 64, 4096, 4096, 0, 0, 77, 77, 1 << 30, 1 << 30]));
    }
}

#[test]
fn a_file_that_grows_too_large_and_a_loop_that_takes_too_long_are_ended() {
    let recipe = limited("exec head -c 100000 /dev/zero > large", &[(LimitKind::FileSize, 4096)], None);
    let (client, _sweep, _) = start(&recipe);
    assert!(matches!(end(client).0, Exit::Signal { signal: nix::libc::SIGXFSZ, .. }));
    assert_eq!(std::fs::metadata(recipe.root().join("large")).expect("there").len(), 4096);

    let recipe = limited("while :; do :; done", &[(LimitKind::CpuSeconds, 1)], None);
    let (client, _sweep, _) = start(&recipe);
    let exit = end(client).0;
    let by_time = [nix::libc::SIGXCPU, nix::libc::SIGKILL];
    assert!(matches!(exit, Exit::Signal { signal, .. } if by_time.contains(&signal)), "{exit:?}");
}

#[test]
fn more_than_was_allowed_before_is_not_given() {
    let (_, hard) = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE).expect("known");
    let recipe = limited("ulimit -Hn", &[(LimitKind::OpenFiles, u64::MAX)], None);
    let (client, _sweep, told) = start(&recipe);
    assert_eq!((told[0].value, told[0].standing), (hard, LimitStanding::InForce));
    assert_eq!(end(client).2.trim(), hard.to_string());
}

#[test]
fn the_number_of_a_users_processes_binds_all_but_root() {
    let recipe = limited("prlimit --noheadings --output SOFT --nproc", &[(LimitKind::UserProcesses, 50_000)], None);
    let (client, _sweep, told) = start(&recipe);
    let root = nix::unistd::Uid::current().is_root();
    let standing = if root { LimitStanding::Exempt } else { LimitStanding::InForce };
    assert_eq!(told[0].standing, standing);
    assert_eq!(end(client).2.trim(), told[0].value.to_string());
}

/// Under a limit that holds, only the agent dies and the kernel says of what; elsewhere it is said that none holds.
#[test]
fn case_h3_too_much_memory_ends_the_agent_alone_or_is_said_to_be_unlimited() {
    for leaf in containments() {
        let limits = [(LimitKind::Memory, 64 << 20), (LimitKind::Swap, 0)];
        let recipe = limited("read go; exec head -c 256m /dev/zero | tail", &limits, leaf);
        let (mut client, _sweep, told) = start(&recipe);
        let holds = leaf_limit_is_true(&told[0], "memory", "memory.max", &recipe);
        leaf_limit_is_true(&told[1], "memory", "memory.swap.max", &recipe);
        if holds {
            client.input(1, b"go\n");
        } else {
            client.send(&Order::Stop(quick()));
        }
        let (exit, emptiness, _) = end(client);
        match (holds, emptiness.oom_kills) {
            (true, Some(count)) => assert!(count > 0, "{exit:?}"),
            (false, None | Some(0)) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn case_h4_a_fork_bomb_stays_below_its_number_or_the_number_is_said_not_to_hold() {
    for leaf in containments() {
        let recipe = limited(
            "read go; i=0; while [ $i -lt 60 ]; do sleep 1000 & i=$((i+1)); done; wait",
            &[(LimitKind::Processes, 20)],
            leaf,
        );
        let (mut client, _sweep, told) = start(&recipe);
        let holds = leaf_limit_is_true(&told[0], "pids", "pids.max", &recipe);
        client.input(1, b"go\n");
        if !holds {
            wait_until(Duration::from_secs(20), "all of them live", || {
                let alive = recipe.marker.alive().len();
                if alive > 60 { Ok(()) } else { Err(alive.to_string()) }
            });
        }
        assert!(!holds || recipe.marker.alive().len() <= 20);
        client.send(&Order::Stop(quick()));
        let expected =
            if recipe.open.leaf_parent.is_some() { Containment::DescentAndLeaf } else { Containment::Descent };
        assert_eq!(end(client).1.containment, expected);
        assert_eq!(recipe.marker.alive(), vec![]);
    }
}

#[test]
fn a_later_owner_is_told_what_holds() {
    for leaf in containments() {
        let recipe = limited("exec sleep 1000", &[(LimitKind::CoreSize, 0), (LimitKind::Memory, 1 << 30)], leaf);
        let (mut client, _sweep, told) = start(&recipe);
        let process = client.process.take();
        drop(client);
        let (mut next, state) = Client::attach(&recipe.folder(), b"secret");
        assert_eq!(state.limits, told);
        next.process = process;
        next.close(quick());
    }
}

#[test]
fn without_a_leaf_nothing_is_known_of_the_memory_killer() {
    let recipe = limited("kill -KILL $$", &[], None);
    let (client, _sweep, told) = start(&recipe);
    let (exit, emptiness, _) = end(client);
    assert_eq!((exit, emptiness.oom_kills, told), (Exit::Signal { signal: 9, core: false }, None, vec![]));
}
