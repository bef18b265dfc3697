//! 10,000 opens and closes: no descriptor, zombie, socket, folder or leaf is left, and memory stays.

use std::path::PathBuf;

use crate::support::keeper_client::{Recipe, quick};
use crate::support::kernel::{containments, own_descriptors, own_resident_kib, own_zombies};

const CYCLES: usize = 10_000;

fn leaves(parent: &Option<PathBuf>, marker: &str) -> usize {
    let Some(parent) = parent else { return 0 };
    let entries = std::fs::read_dir(parent).expect("groups");
    entries.flatten().filter(|entry| entry.file_name().to_string_lossy().contains(marker)).count()
}

#[test]
fn with_every_containment() {
    let containments = containments();
    let rounds = CYCLES / containments.len();
    for leaf in containments {
        let mut recipe = Recipe::command(vec!["/bin/sleep".into(), "1000".into()]).with_leaf(leaf.clone());
        recipe.open.on_leader_exit = None;
        let (mut descriptors, mut resident) = (0, 0);
        for cycle in 0..rounds {
            let mut client = recipe.open();
            client.opened();
            client.close(quick_kill());
            if cycle == rounds / 10 {
                (descriptors, resident) = (own_descriptors(), own_resident_kib());
            }
        }
        assert_eq!(own_descriptors(), descriptors);
        assert!(own_resident_kib() < resident + 1024, "{resident} KiB grew to {} KiB", own_resident_kib());
        assert_eq!((own_zombies(), recipe.marker.alive()), (vec![], vec![]));
        assert_eq!((recipe.folder().exists(), leaves(&leaf, recipe.marker.text())), (false, 0));
    }
}

fn quick_kill() -> ostler_keeper::ladder::Ladder {
    ostler_keeper::ladder::Ladder::kill(quick().budget())
}
