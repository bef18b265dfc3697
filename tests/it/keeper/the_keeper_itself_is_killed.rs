//! SIGKILL on the keeper: its direct child dies with it, and what is left can be found.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use ostler_keeper::folder::{Identity, LastWord};

use crate::support::keeper_client::Recipe;
use crate::support::kernel::{containments, is_alive, wait_until};

#[test]
fn the_agent_dies_with_it_and_the_rest_is_found_by_the_registry() {
    for leaf in containments() {
        let recipe = Recipe::script("spawn setsid ;; say up ;; hang").with_leaf(leaf);
        let mut client = recipe.open();
        let agent = client.opened();
        client.heard("up");
        wait_until(Duration::from_secs(5), "the stray is there", || {
            let alive = recipe.marker.alive();
            if alive.len() == 2 { Ok(()) } else { Err(format!("{alive:?}")) }
        });
        let mut keeper = client.process.take().expect("spawned");
        keeper.kill().expect("killed");
        keeper.wait().expect("reaped");
        wait_until(
            Duration::from_secs(5),
            "the agent died",
            || if is_alive(agent) { Err(String::new()) } else { Ok(()) },
        );

        let identity = Identity::read(&recipe.folder()).expect("readable").expect("registered");
        assert_eq!(LastWord::read(&recipe.folder()).expect("readable"), None);
        let left = recipe.marker.alive();
        assert_eq!(left.len(), 1, "the stray is what a sweep has to find");
        if let Some(leaf) = identity.leaf {
            std::fs::write(leaf.join("cgroup.kill"), "1").expect("killed by group");
            recipe.marker.assert_gone(Duration::from_secs(5));
            wait_until(Duration::from_secs(5), "leaf removed", || {
                ostler_keeper::remove_leaf(&leaf).map_err(|error| error.to_string())
            });
        } else {
            kill(Pid::from_raw(left[0].0), Signal::SIGKILL).expect("killed by marker");
            recipe.marker.assert_gone(Duration::from_secs(5));
        }
    }
}

#[test]
fn it_is_deaf_to_the_polite_signals() {
    let recipe = Recipe::script("say up ;; hang");
    let mut client = recipe.open();
    client.heard("up");
    let pid = Pid::from_raw(client.process.as_ref().expect("spawned").id() as i32);
    for signal in [Signal::SIGINT, Signal::SIGHUP, Signal::SIGTERM, Signal::SIGPIPE] {
        kill(pid, signal).expect("sent");
    }
    client.close(crate::support::keeper_client::quick());
}

#[test]
fn a_keeper_without_a_socket_on_descriptor_zero_refuses() {
    let status = std::process::Command::new(crate::support::programs::keeper())
        .stdin(std::process::Stdio::null())
        .status()
        .expect("starts");
    assert_eq!(status.code(), Some(1));
}
