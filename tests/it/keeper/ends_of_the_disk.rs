//! A folder that fills up, goes away, or was never writable.

use std::process::Command;
use std::time::Duration;

use ostler_keeper::folder::LastWord;
use ostler_keeper::{Order, Report};

use crate::support::keeper_client::{Client, Recipe, quick};
use crate::support::kernel::{Sweep, containments, cpu_share, wait_until};

struct Small(tempfile::TempDir);

impl Small {
    fn mount(options: &str) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "tmpfs"])
            .arg(folder.path())
            .stderr(std::process::Stdio::null())
            .status();
        mounted.is_ok_and(|status| status.success()).then_some(Self(folder))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _left = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

fn shell(text: &str) -> Recipe {
    Recipe::command(vec!["/bin/sh".into(), "-c".into(), text.into()])
}

#[test]
fn a_full_disk_at_the_last_word_is_waited_for() {
    let Some(small) = Small::mount("size=64k") else { return };
    let mut recipe = shell("head -c 200000 /dev/zero");
    recipe.open.folder = small.0.path().join("r");
    let mut client = Client::spare();
    client.hello();
    client.send(&Order::Open(Box::new(recipe.open.clone())));
    client.emptied();
    let mut keeper = client.process.take().expect("spawned");
    let _sweep = Sweep(keeper.id() as i32, recipe.marker.clone());
    drop(client);
    std::thread::sleep(Duration::from_millis(300));
    assert!(cpu_share(keeper.id() as i32, Duration::from_millis(400)) < 0.06);
    assert_eq!(keeper.try_wait().expect("asked"), None);
    let (back, state) = Client::attach(&recipe.folder(), b"secret");
    assert_eq!(state.stdout.end, 200_000);
    drop(back);
    let grown = Command::new("mount").args(["-o", "remount,size=4m"]).arg(small.0.path()).status();
    assert!(grown.is_ok_and(|status| status.success()));
    wait_until(Duration::from_secs(5), "the last word", || {
        keeper.try_wait().expect("asked").map(|_| ()).ok_or_else(|| "lives".into())
    });
    let word = LastWord::read(&recipe.folder()).expect("readable").expect("there");
    assert_eq!(word.stdout.len(), 200_000);
    assert!(!recipe.folder().join(".stdout").exists());
}

#[test]
fn a_disk_that_is_full_at_the_start_leaves_no_leaf() {
    for leaf in containments().into_iter().flatten() {
        let Some(small) = Small::mount("size=4k,nr_inodes=2") else { return };
        let mut recipe = shell("sleep 1000").with_leaf(Some(leaf.clone()));
        recipe.open.folder = small.0.path().join("r");
        let mut client = recipe.open();
        client.until("failure", |report| matches!(report, Report::OpenFailed { .. }).then_some(()));
        let left = leaf.join(format!("ostler-{}", recipe.marker.text()));
        let stays = left.exists();
        let _cleaned = std::fs::remove_dir(&left);
        assert!(!stays, "a leaf is left and no folder names it");
    }
}

#[test]
fn a_folder_removed_while_running_changes_nothing_for_the_owner() {
    let recipe = shell("cat; sleep 1000");
    let mut client = recipe.open();
    client.opened();
    std::fs::remove_dir_all(recipe.folder()).expect("removed");
    client.input(1, b"still here\n");
    client.heard("still here");
    client.close(quick());
    assert!(!recipe.folder().exists());
}

#[test]
fn a_folder_removed_while_orphaned_ends_the_keeper() {
    let mut recipe = shell("sleep 1000");
    recipe.open.orphan.grace_ms = 300;
    let mut client = recipe.open();
    client.opened();
    std::fs::remove_dir_all(recipe.folder()).expect("removed");
    let mut keeper = client.process.take().expect("spawned");
    let _sweep = Sweep(keeper.id() as i32, recipe.marker.clone());
    drop(client);
    wait_until(Duration::from_secs(5), "the end", || {
        keeper.try_wait().expect("asked").map(|_| ()).ok_or("lives".into())
    });
    assert_eq!(recipe.marker.alive(), vec![]);
}

#[test]
fn groups_that_the_agent_made_below_its_leaf_go_too() {
    for leaf in containments().into_iter().flatten() {
        let recipe = shell("").with_leaf(Some(leaf.clone()));
        let own = leaf.join(format!("ostler-{}", recipe.marker.text()));
        let text = format!(
            "cd {} && mkdir a a/b a/c && (echo 0 > a/b/cgroup.procs; setsid sleep 1000) & sleep 0.2; echo $$ > {}/a/c/cgroup.procs; \
             echo up; sleep 1000",
            own.display(),
            own.display()
        );
        let mut open = recipe.open.clone();
        open.command = vec!["/bin/sh".into(), "-c".into(), text.into()];
        let recipe = Recipe { open, ..recipe };
        let mut client = recipe.open();
        client.heard("up");
        assert!(own.join("a/b").exists());
        client.send(&Order::Stop(quick()));
        client.emptied();
        assert!(!own.exists(), "groups are left");
        client.release();
    }
}

#[test]
fn a_reattach_at_every_moment_of_the_orphans_end_finds_the_keeper_or_its_last_word() {
    for round in 0..60u64 {
        let mut recipe = shell("echo result; sleep 1000");
        recipe.open.orphan.grace_ms = 10;
        recipe.open.orphan.ladder = ostler_keeper::ladder::Ladder::kill(Duration::from_secs(5));
        let mut client = Client::spare();
        client.hello();
        client.send(&Order::Open(Box::new(recipe.open.clone())));
        client.opened();
        let mut keeper = client.process.take().expect("spawned");
        drop(client);
        std::thread::sleep(Duration::from_micros(8_000 + round * 250));
        let attached = Client::connect(&recipe.folder()).is_some_and(|mut owner| {
            use std::io::Write;
            let order = Order::Attach { auth: ostler_keeper::Auth::CURRENT, secret: b"secret".to_vec() }.encode();
            let sent = owner.stream.write_all(&order).is_ok();
            let welcome = sent && matches!(owner.next(), Some(Report::Welcome { .. }));
            if welcome {
                owner.send(&Order::Stop(quick()));
                owner.emptied();
                owner.send(&Order::Release);
                while owner.next().is_some() {}
            }
            welcome
        });
        assert!(keeper.wait().expect("ends").success());
        if !attached {
            let word = LastWord::read(&recipe.folder()).expect("readable").expect("neither keeper nor last word");
            assert_eq!(word.stdout, b"result\n");
        }
        assert_eq!(recipe.marker.alive(), vec![]);
    }
}

#[test]
fn a_limit_on_the_size_of_files_does_not_kill_the_keeper_at_its_last_word() {
    let recipe = shell("head -c 200000 /dev/zero");
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -f 100; exec \"$0\""]).arg(crate::support::programs::keeper());
    let mut client = Client::spare_by(command);
    client.hello();
    client.send(&Order::Open(Box::new(recipe.open.clone())));
    client.emptied();
    let mut keeper = client.process.take().expect("spawned");
    let _sweep = Sweep(keeper.id() as i32, recipe.marker.clone());
    drop(client);
    std::thread::sleep(Duration::from_millis(300));
    let ended = keeper.try_wait().expect("asked");
    eprintln!("{ended:?}, last word {:?}", LastWord::read(&recipe.folder()).is_ok_and(|word| word.is_some()));
    assert_eq!(ended, None, "the keeper and all unread output are lost");
}
