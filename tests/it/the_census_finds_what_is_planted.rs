//! The census itself: one escapee of each kind is planted, and found.

use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;

use crate::support::census::{census, found};
use crate::support::kernel::{Marker, wait_until};

/// What a drop of the test's own values does not remove; it goes with the test, however that ends.
struct Planted {
    children: Vec<Child>,
    leaf: Option<PathBuf>,
}

impl Drop for Planted {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ended = child.kill();
            let _reaped = child.wait();
        }
        let _removed = self.leaf.iter().try_for_each(std::fs::remove_dir);
    }
}

#[test]
fn one_of_each_kind() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().canonicalize().expect("a path");
    let marker = Marker::new();
    let leaves = format!("ostler-{}", marker.text());
    assert_eq!(found(&census(&[marker.text()], &folder, &leaves)), Vec::<&str>::new());

    // It never waits for its first child, which becomes a zombie.
    let by_environment =
        Command::new("sh").args(["-c", "true & exec sleep 1000"]).env("MARK", marker.text()).spawn().expect("runs");
    let by_command = Command::new("tail")
        .args(["-f", "/dev/null", "--sleep-interval", "1000"])
        .arg0(marker.text())
        .env_clear()
        .spawn()
        .expect("runs");
    let mut planted = Planted { children: vec![by_environment, by_command], leaf: None };
    std::fs::create_dir_all(folder.join("run/boot/rt_1")).expect("made");
    let file = std::fs::File::create(folder.join("held")).expect("made");
    let socket = UnixListener::bind(folder.join("x.sock")).expect("bound");
    let leaf = ostler_keeper::usable_leaf_parent().map(|parent| parent.join(&leaves));
    leaf.iter().for_each(|leaf| std::fs::create_dir(leaf).expect("made"));
    planted.leaf.clone_from(&leaf);

    let count = wait_until(Duration::from_secs(10), "a zombie", || {
        let count = census(&[marker.text()], &folder, &leaves);
        let zombies = count["zombies"].as_array().map(Vec::len);
        if zombies == Some(1) { Ok(count) } else { Err(count.to_string()) }
    });
    assert_eq!(count["processes"].as_array().map(Vec::len), Some(2), "{count}");
    assert_eq!(count["descriptors"].as_array().map(Vec::len), Some(1), "{count}");
    assert_eq!(count["sockets"].as_array().map(Vec::len), Some(1), "{count}");
    assert_eq!(count["folders"].as_array().map(Vec::len), Some(1), "{count}");
    assert_eq!(count["leaves"].as_array().map(Vec::len), Some(usize::from(leaf.is_some())), "{count}");

    drop((file, socket));
}
