//! The owner dies, returns late, returns never, or is somebody else.

use std::io::Write;
use std::time::Duration;

use ostler_keeper::folder::{Identity, LastWord};
use ostler_keeper::{Auth, Exit, Order, Phase, RefusalCode, Report, StopCause};

use crate::support::keeper_client::{Client, Recipe, quick};
use crate::support::kernel::{containments, wait_until};

#[test]
fn never_returning_ends_the_tree_and_leaves_the_last_word() {
    for leaf in containments() {
        let mut recipe = Recipe::script("say unread ;; spawn setsid ;; spawn ignore-term ;; hang").with_leaf(leaf);
        recipe.open.orphan.grace_ms = 100;
        let mut client = Client::spare();
        client.hello();
        client.send(&Order::Open(Box::new(recipe.open.clone())));
        client.opened();
        let mut keeper = client.process.take().expect("spawned");
        drop(client);
        assert!(keeper.wait().expect("ends").success());
        assert_eq!(recipe.marker.alive(), vec![]);
        let word = LastWord::read(&recipe.folder()).expect("readable").expect("there");
        assert_eq!((word.state.phase, word.state.stop), (Phase::Empty, Some(StopCause::Orphaned)));
        assert!(matches!(word.state.exit, Some(Exit::Signal { .. })), "{:?}", word.state.exit);
        assert_eq!(word.stdout, b"unread\n");
    }
}

#[test]
fn returning_late_finds_the_agent_at_work() {
    let recipe = Recipe::script("say early ;; sleep 300 ;; say late ;; hang");
    let mut client = recipe.open();
    client.opened();
    let keeper = client.process.take();
    drop(client);
    std::thread::sleep(Duration::from_millis(500));
    let (mut client, state) = Client::attach(&recipe.folder(), b"secret");
    assert_eq!((state.phase, state.stop), (Phase::Running, None));
    client.process = keeper;
    client.read_from(0);
    client.heard("late");
    client.close(quick());
}

#[test]
fn an_agent_that_ended_meanwhile_is_told_by_the_last_word() {
    let recipe = Recipe::script("say result");
    let mut client = recipe.open();
    client.opened();
    let mut keeper = client.process.take().expect("spawned");
    drop(client);
    assert!(keeper.wait().expect("ends").success());
    let word = LastWord::read(&recipe.folder()).expect("readable").expect("there");
    assert_eq!((word.state.exit, word.state.stop), (Some(Exit::Code(0)), None));
    assert!(String::from_utf8_lossy(&word.stdout).ends_with("result\n") || word.state.stdout.base == 7);
}

#[test]
fn a_spare_ends_with_its_owner() {
    let mut client = Client::spare();
    client.hello();
    let mut keeper = client.process.take().expect("spawned");
    drop(client);
    assert_eq!(keeper.wait().expect("ends").code(), Some(0));
}

#[test]
fn an_owner_killed_at_every_byte_of_its_open_leaves_nothing_or_a_runtime() {
    let recipe = Recipe::script("hang");
    let frame = Order::Open(Box::new(recipe.open.clone())).encode();
    for cut in (0..frame.len()).step_by(37) {
        let mut client = Client::spare();
        client.hello();
        client.stream.write_all(&frame[..cut]).expect("written");
        let mut keeper = client.process.take().expect("spawned");
        drop(client);
        assert_eq!(keeper.wait().expect("ends").code(), Some(0));
        assert!(!recipe.folder().exists(), "a half order made a folder");
    }
    assert_eq!(recipe.marker.alive(), vec![]);
}

#[test]
fn a_wrong_secret_and_an_unknown_version_are_refused_and_change_nothing() {
    let recipe = Recipe::script("say up ;; hang");
    let mut owner = recipe.open();
    owner.heard("up");
    let refusal = |order: Order| {
        let mut stranger = Client::connect(&recipe.folder()).expect("listens");
        stranger.send(&order);
        stranger.until("refusal", |report| match report {
            Report::Refused { code, .. } => Some(*code),
            other => panic!("{other:?}"),
        })
    };
    let wrong = Order::Attach { auth: Auth::CURRENT, secret: b"guess".to_vec() };
    assert_eq!(refusal(wrong), RefusalCode::Denied);
    let newer = Order::Attach { auth: Auth { oldest: 7, newest: 9 }, secret: b"secret".to_vec() };
    assert_eq!(refusal(newer), RefusalCode::Unsupported);
    owner.close(quick());
}

#[test]
fn a_new_owner_supersedes_a_living_one() {
    let recipe = Recipe::script("say up ;; hang");
    let mut old = recipe.open();
    old.heard("up");
    let (mut new, _) = Client::attach(&recipe.folder(), b"secret");
    old.until("superseded", |report| matches!(report, Report::Superseded).then_some(()));
    assert_eq!(old.next(), None);
    new.process = old.process.take();
    new.close(quick());
}

#[test]
fn a_garbage_frame_ends_the_connection_and_not_the_keeper() {
    let recipe = Recipe::script("say up ;; hang");
    let mut client = recipe.open();
    client.heard("up");
    client.stream.write_all(&[0xff; 64]).expect("written");
    while client.next().is_some() {}
    let (mut again, state) = Client::attach(&recipe.folder(), b"secret");
    assert_eq!(state.phase, Phase::Running);
    again.process = client.process.take();
    again.close(quick());
}

#[test]
fn an_order_of_a_later_version_is_refused_by_name() {
    let recipe = Recipe::script("hang");
    let mut client = recipe.open();
    client.opened();
    let later = ostler_keeper::wire::Writer::frame(35).number(1, 80).into_frame();
    client.stream.write_all(&later).expect("written");
    let refused = client.until("refusal", |report| match report {
        Report::Refused { kind, code, .. } => Some((*kind, *code)),
        _ => None,
    });
    assert_eq!(refused, (35, RefusalCode::Unsupported));
    client.close(quick());
}

#[test]
fn the_identity_is_there_before_the_agent_and_names_it() {
    let recipe = Recipe::script("hang");
    let mut client = recipe.open();
    let pid = client.opened();
    let identity = Identity::read(&recipe.folder()).expect("readable").expect("there");
    assert_eq!(identity.leader.map(|(pid, _)| pid), Some(pid));
    assert_eq!(identity.keeper.0, client.process.as_ref().expect("spawned").id() as i32);
    let mode = std::os::unix::fs::PermissionsExt::mode(&recipe.folder().metadata().expect("there").permissions());
    assert_eq!(mode & 0o777, 0o700);
    client.close(quick());
}

#[test]
fn a_stop_goes_on_when_its_owner_dies_during_it() {
    let recipe = Recipe::script("spawn ignore-term ;; say up ;; hang");
    let mut client = recipe.open();
    client.heard("up");
    client.send(&Order::Stop(quick()));
    let mut keeper = client.process.take().expect("spawned");
    drop(client);
    assert!(keeper.wait().expect("ends").success());
    wait_until(Duration::from_secs(20), "last word", || {
        LastWord::read(&recipe.folder()).ok().flatten().map(|_| ()).ok_or_else(|| "none".into())
    });
    assert_eq!(recipe.marker.alive(), vec![]);
}
