//! The registry never shows half a runtime: who sees a folder can read whose it is, and a place is taken once.

use std::sync::atomic::{AtomicBool, Ordering};

use ostler_keeper::folder::{Identity, SOCKET, fence};
use ostler_keeper::{Report, SetupStep};

use crate::support::keeper_client::Recipe;

/// Looks as fast as it can from before the folder is there.
fn seen_first(folder: &std::path::Path, over: &AtomicBool) -> Option<(bool, bool)> {
    while !over.load(Ordering::Relaxed) {
        if folder.exists() {
            let identity = Identity::read(folder).expect("readable");
            return Some((identity.is_some(), folder.join(SOCKET).exists()));
        }
    }
    None
}

#[test]
fn with_its_identity_and_its_socket() {
    for _ in 0..100 {
        let recipe = Recipe::script("say up ;; hang");
        let (folder, over) = (recipe.folder(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let looking = scope.spawn(|| seen_first(&folder, &over));
            let mut client = recipe.open();
            client.opened();
            let seen = looking.join().expect("looks");
            over.store(true, Ordering::Relaxed);
            assert_eq!(seen, Some((true, true)));
        });
    }
}

#[test]
fn a_fence_keeps_a_late_keeper_out() {
    let recipe = Recipe::script("say never");
    assert!(fence(&recipe.folder()).expect("fenced"));
    assert!(fence(&recipe.folder()).expect("fenced"), "an owner that was killed right after leaves a fence");
    let mut client = recipe.open();
    let failed = client.until("failure", |report| match report {
        Report::OpenFailed { step, errno, .. } => Some((*step, *errno)),
        Report::Opened { .. } => panic!("opened"),
        _ => None,
    });
    assert_eq!(failed, (SetupStep::Folder, 17));
    assert!(recipe.folder().exists());
    let left: Vec<_> = std::fs::read_dir(recipe.root()).expect("readable").collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn a_fence_comes_too_late_for_one_that_has_registered() {
    let recipe = Recipe::script("say up ;; hang");
    let mut client = recipe.open();
    client.opened();
    assert!(!fence(&recipe.folder()).expect("asked"));
    assert!(Identity::read(&recipe.folder()).expect("readable").is_some());
}
