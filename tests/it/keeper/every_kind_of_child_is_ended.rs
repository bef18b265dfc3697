//! Children that ignore, hide, multiply or cling: all are gone when the keeper says so.

use std::time::Duration;

use ostler_keeper::{Containment, Order, Stream};

use crate::support::keeper_client::{Recipe, quick};
use crate::support::kernel::{containments, wait_until};

const KINDS: &[&str] = &[
    "sleep",
    "ignore-term",
    "setsid",
    "double-fork",
    "env-i",
    "hold-pipes",
    "leader-thread",
    "fork-loop",
    "exec-loop",
    "stopped",
    "niced",
    "nohup",
    "spin",
    "quiet-server",
];

fn end_by_stop(kind: &str, streams: fn(Recipe) -> Recipe) {
    for leaf in containments() {
        let recipe = streams(Recipe::script("").with_leaf(leaf.clone()));
        let script = format!("spawn {kind} {} ;; say up ;; hang", recipe.marker.text());
        let mut open = recipe.open.clone();
        open.command = crate::support::programs::agent(&["lines", &script]);
        let recipe = Recipe { open, ..recipe };
        let mut client = recipe.open();
        client.opened();
        client.heard("up");
        wait_until(Duration::from_secs(10), "the child is there", || {
            let alive = recipe.marker.alive();
            if alive.len() >= 2 { Ok(()) } else { Err(format!("{alive:?}")) }
        });
        client.send(&Order::Stop(quick()));
        let emptiness = client.emptied();
        assert_eq!(recipe.marker.alive(), vec![], "{kind} outlived the proof");
        let expected = if leaf.is_some() { Containment::DescentAndLeaf } else { Containment::Descent };
        assert_eq!(emptiness.containment, expected);
        client.ended(Stream::Stdout);
        client.release();
        assert!(!recipe.folder().exists());
        let leaf = leaf.map(|parent| parent.join(format!("ostler-{}", recipe.marker.text())));
        assert!(leaf.is_none_or(|leaf| !leaf.exists()), "the leaf stays");
    }
}

macro_rules! kinds {
    ($($name:ident: $kind:literal;)+) => {
        $(#[test] fn $name() { end_by_stop($kind, |recipe| recipe); })+

        mod with_a_terminal {
            use super::*;

            $(#[test] fn $name() { end_by_stop($kind, Recipe::on_terminal); })+
        }

        #[test]
        fn every_kind_has_its_test() {
            assert_eq!(KINDS, &[$($kind),+]);
        }
    };
}

kinds! {
    sleeping: "sleep";
    deaf_to_sigterm: "ignore-term";
    in_a_session_of_its_own: "setsid";
    forked_twice: "double-fork";
    without_environment: "env-i";
    holding_the_pipes: "hold-pipes";
    whose_leader_thread_ended: "leader-thread";
    forking_in_a_loop: "fork-loop";
    executing_in_a_loop: "exec-loop";
    stopped: "stopped";
    niced: "niced";
    behind_nohup: "nohup";
    spinning: "spin";
    a_server_that_ignores_end_of_input: "quiet-server";
}

#[test]
fn when_the_leader_ends_its_descendants_follow() {
    for leaf in containments() {
        let recipe = Recipe::script("spawn setsid ;; spawn hold-pipes ;; say up ;; exit 3").with_leaf(leaf);
        let mut client = recipe.open();
        assert_eq!(client.exited(), ostler_keeper::Exit::Code(3));
        client.emptied();
        assert_eq!(recipe.marker.alive(), vec![]);
        client.ended(Stream::Stdout);
        client.release();
    }
}

#[test]
fn a_leader_killed_from_outside_is_a_typed_signal() {
    let recipe = Recipe::script("spawn setsid ;; say up ;; hang");
    let mut client = recipe.open();
    let pid = client.opened();
    client.heard("up");
    let pid = nix::unistd::Pid::from_raw(pid);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).expect("killed");
    assert_eq!(client.exited(), ostler_keeper::Exit::Signal { signal: 9, core: false });
    client.emptied();
    client.release();
}
