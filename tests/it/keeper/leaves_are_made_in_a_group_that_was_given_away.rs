//! A delegated group whose processes are in a group below it: leaves are made beside that one, not in it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::programs;

/// A group that is marked as given away, and its processes' own group.
struct Delegated(PathBuf);

impl Delegated {
    fn make(parent: &Path) -> Self {
        let group = parent.join(format!("ostler-test-{}", std::process::id()));
        std::fs::create_dir_all(group.join("daemon")).expect("made");
        Self(group)
    }

    fn mark(&self) {
        let set = "import os, sys; os.setxattr(sys.argv[1], 'user.delegate', b'1')";
        let marked = Command::new("python3").args(["-c", set]).arg(&self.0).status();
        assert!(marked.expect("python3").success());
    }

    /// Where a process in the lower group would make its leaves.
    fn leaves_of_a_member(&self) -> String {
        let doctor = "echo 0 > \"$0\" && exec \"$1\" doctor --json";
        let mut command = Command::new("/bin/sh");
        command.args(["-c", doctor]).arg(self.0.join("daemon/cgroup.procs")).arg(programs::ostler());
        let state = tempfile::tempdir().expect("a folder");
        let output = command.env("OSTLER_STATE", state.path()).output().expect("runs");
        let checks: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let found = checks[0]["found"].as_str().expect("a text").to_owned();
        found.rsplit_once("below ").unwrap_or_else(|| panic!("{found}")).1.to_owned()
    }
}

impl Drop for Delegated {
    fn drop(&mut self) {
        ostler_keeper::remove_leaf(&self.0).expect("empty");
    }
}

#[test]
fn a_member_makes_them_beside_its_own_group_only_if_the_one_above_was_given_away() {
    let Some(parent) = ostler_keeper::usable_leaf_parent() else {
        eprintln!("no control group can be made here");
        return;
    };
    let group = Delegated::make(&parent);
    assert_eq!(Path::new(&group.leaves_of_a_member()), group.0.join("daemon"));
    group.mark();
    assert_eq!(Path::new(&group.leaves_of_a_member()), group.0);
}
