//! Ends, signals and arguments that a library or a parent makes strange.

use std::process::Command;
use std::time::Duration;

use ostler_keeper::{Exit, Order, Report};

use crate::support::keeper_client::{Client, Recipe, quick};
use crate::support::kernel::Sweep;
use crate::support::programs;

fn shell(text: &str) -> Recipe {
    Recipe::command(vec!["/bin/sh".into(), "-c".into(), text.into()])
}

fn sweep(client: &Client, recipe: &Recipe) -> Sweep {
    Sweep(client.process.as_ref().expect("spawned").id() as i32, recipe.marker.clone())
}

#[test]
fn a_leader_killed_by_a_real_time_signal_ended() {
    let recipe = shell("kill -40 $$");
    let mut client = recipe.open();
    let _sweep = sweep(&client, &recipe);
    assert_eq!(client.exited(), Exit::Signal { signal: 40, core: false });
    client.emptied();
    client.release();
}

#[test]
fn an_orphan_killed_by_a_real_time_signal_is_reaped() {
    let recipe =
        shell("(setsid sh -c 'sleep 0.1; kill -40 $$' &) ; (setsid sh -c 'sleep 0.1; kill -41 $$' &); sleep 0.4");
    let mut client = recipe.open();
    let _sweep = sweep(&client, &recipe);
    assert_eq!(client.exited(), Exit::Code(0));
    client.emptied();
    client.release();
}

fn start_by(mut command: Command, recipe: &Recipe) -> Client {
    command.arg(programs::keeper());
    let mut client = Client::spare_by(command);
    client.hello();
    client.send(&Order::Open(Box::new(recipe.open.clone())));
    client.read_from(0);
    client
}

#[test]
fn a_parent_that_ignored_sigchld_changes_nothing() {
    let recipe = shell("exit 3");
    let mut command = Command::new("env");
    command.arg("--ignore-signal=CHLD");
    let mut client = start_by(command, &recipe);
    let _sweep = sweep(&client, &recipe);
    assert_eq!(client.exited(), Exit::Code(3));
    client.emptied();
    client.release();
}

#[test]
fn a_parent_that_blocked_every_signal_changes_nothing() {
    let recipe = shell("kill -TERM $$; sleep 5");
    let mut command = Command::new("env");
    command.arg("--block-signal");
    let mut client = start_by(command, &recipe);
    let _sweep = sweep(&client, &recipe);
    assert_eq!(client.exited(), Exit::Signal { signal: 15, core: false });
    client.emptied();
    client.release();
}

#[test]
fn an_argument_with_a_nul_is_refused_not_dropped() {
    let recipe = Recipe::command(vec!["/bin/echo".into(), "a\0b".into(), "c".into()]);
    let mut client = recipe.open();
    let _sweep = sweep(&client, &recipe);
    let failed = client.until("answer", |report| match report {
        Report::OpenFailed { .. } => Some(true),
        Report::Exited(_) => Some(false),
        _ => None,
    });
    assert!(failed, "the agent was started with other arguments");
}

/// A container's processes often start at 1000 and may not lower it (Kubernetes BestEffort, no CAP_SYS_RESOURCE):
/// writing 500 is then refused. Where the test may not raise the floor, a value below the usual floor stands for it.
#[test]
fn an_agent_starts_where_the_score_may_not_be_lowered() {
    if !nix::unistd::Uid::current().is_root() {
        return;
    }
    let mut recipe = shell("exit 0");
    nix::unistd::chown(recipe.root(), Some(65534.into()), Some(65534.into())).expect("given");
    recipe.open.directory = "/".into();
    recipe.open.oom_score_adj = -500;
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    let mut client = start_by(command, &recipe);
    let _sweep = sweep(&client, &recipe);
    let answer = client.until("answer", |report| match report {
        Report::Opened { .. } => Some(None),
        Report::OpenFailed { step, errno, .. } => Some(Some((*step, *errno))),
        _ => None,
    });
    assert_eq!(answer, None, "the score is a wish, not a condition");
}

/// A process that took another user's identity (sudo): it cannot be signalled, and ends by itself after 7 seconds.
#[test]
fn a_stop_after_a_leak_is_answered_and_the_late_end_is_seen() {
    if !nix::unistd::Uid::current().is_root() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("open");
    let program = folder.path().join("foreign");
    let source = "#include <unistd.h>\n#include <sys/types.h>\nint main(){setresuid(0,0,0);setresgid(0,0,0);setsid();sleep(7);return 0;}";
    std::fs::write(folder.path().join("foreign.c"), source).expect("written");
    let built = Command::new("gcc").arg("-o").arg(&program).arg(folder.path().join("foreign.c")).status();
    if !built.is_ok_and(|status| status.success()) {
        return;
    }
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o4755)).expect("setuid");
    let mut recipe = shell(&format!("{} & echo up; sleep 1000", program.display()));
    nix::unistd::chown(recipe.root(), Some(65534.into()), Some(65534.into())).expect("given");
    recipe.open.directory = "/".into();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    let mut client = start_by(command, &recipe);
    let _sweep = sweep(&client, &recipe);
    client.heard("up");
    std::thread::sleep(Duration::from_millis(200));
    let ladder = ostler_keeper::ladder::Ladder::kill(Duration::from_millis(500));
    client.send(&Order::Stop(ladder.clone()));
    let leaked = client.until("leak", |report| match report {
        Report::Leaked(processes) => Some(processes.clone()),
        Report::Emptied(_) => panic!("it could be killed"),
        _ => None,
    });
    assert_eq!(leaked.len(), 1, "{leaked:?}");
    let share = crate::support::kernel::cpu_share(
        client.process.as_ref().expect("spawned").id() as i32,
        Duration::from_millis(500),
    );
    assert!(share < 0.06, "{share:.2} of a processor after a leak");
    client.send(&Order::Stop(ladder));
    let mut answers = 0;
    client.until("the late end", |report| match report {
        Report::Leaked(_) => {
            answers += 1;
            None
        }
        Report::Emptied(_) => Some(()),
        _ => None,
    });
    assert_eq!(answers, 1, "the second Stop had no answer until the process ended by itself");
    client.release();
}

#[test]
fn a_user_without_rights_owns_a_tree() {
    if !nix::unistd::Uid::current().is_root() {
        return;
    }
    let mut recipe = shell(
        "cat /proc/self/oom_score_adj; (setsid sleep 1000 &); sh -c 'trap \"\" TERM; sleep 1000' & echo up; sleep 1000",
    );
    nix::unistd::chown(recipe.root(), Some(65534.into()), Some(65534.into())).expect("given");
    recipe.open.directory = "/".into();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"]);
    let mut client = start_by(command, &recipe);
    let _sweep = sweep(&client, &recipe);
    client.heard("up");
    assert!(client.stdout.starts_with(b"500\n"), "{:?}", String::from_utf8_lossy(&client.stdout));
    std::thread::sleep(Duration::from_millis(100));
    client.send(&Order::List { number: 5 });
    let list = client.until("listing", |report| match report {
        Report::Listing { processes, .. } => Some(processes.clone()),
        _ => None,
    });
    assert!(list.len() >= 4, "{list:?}");
    client.send(&Order::Stop(quick()));
    client.emptied();
    assert_eq!(recipe.marker.alive(), vec![]);
    client.release();
}

#[test]
fn namespaces_subreapers_and_closed_descriptors_hide_nobody() {
    let reaper = "import ctypes,os,time\nctypes.CDLL(None).prctl(36,1,0,0,0)\n\
        p=os.fork()\nif p==0:\n  os.setsid()\n  if os.fork()==0: time.sleep(1000)\n  os._exit(0)\n\
        os.closerange(0,1000)\ntime.sleep(1000)\n";
    let text = format!(
        "unshare -fp --kill-child=0 sh -c 'setsid sleep 1001 & setsid sh -c \"trap : TERM INT HUP; sleep 1002; sleep 1003\" & sleep 1004' & \
         unshare -fp sh -c 'trap \"\" TERM; sleep 1006 & sleep 1005; sleep 1007' & python3 -c '{reaper}' & echo up; exec 0<&- 1>&- 2>&-; sleep 1000"
    );
    let text = text.replace(" --kill-child=0", "");
    let recipe = shell(&text);
    let mut client = recipe.open();
    let _sweep = sweep(&client, &recipe);
    client.heard("up");
    std::thread::sleep(Duration::from_millis(700));
    assert!(recipe.marker.alive().len() >= 8, "{:#?}", recipe.marker.alive());
    client.send(&Order::Stop(quick()));
    client.send(&Order::Stop(quick()));
    client.send(&Order::Release);
    client.send(&Order::Stop(quick()));
    client.emptied();
    assert_eq!(recipe.marker.alive(), vec![]);
    client.release();
}

#[test]
fn stop_at_every_moment_of_the_start() {
    for round in 0..150u64 {
        let recipe = shell("sleep 1000 & sleep 1000");
        let mut client = Client::spare();
        client.hello();
        client.send(&Order::Open(Box::new(recipe.open.clone())));
        std::thread::sleep(Duration::from_micros(round * 20));
        client.send(&Order::Stop(ostler_keeper::ladder::Ladder::kill(Duration::from_secs(5))));
        // Killed before `exec`, it was never started; after it, it ended.
        let ended = client.until("end", |report| match report {
            Report::Emptied(_) => Some(true),
            Report::OpenFailed { .. } => Some(false),
            _ => None,
        });
        assert_eq!(recipe.marker.alive(), vec![]);
        if ended {
            client.release();
        } else {
            assert!(!recipe.folder().exists());
            client.process.take().expect("spawned").wait().expect("ends");
        }
    }
}

#[test]
fn a_stop_of_an_empty_tree_is_answered() {
    let recipe = shell("exit 0");
    let mut client = recipe.open();
    let _sweep = sweep(&client, &recipe);
    client.emptied();
    client.send(&Order::Stop(quick()));
    client.send(&Order::Status);
    let answered = client.until("answer", |report| match report {
        Report::Emptied(_) => Some(true),
        Report::State(_) => Some(false),
        _ => None,
    });
    assert!(answered, "no answer to Stop");
    client.release();
}

#[test]
fn whole_orders_before_the_owners_death_count_even_if_it_left_output_unread() {
    let mut recipe = shell("yes");
    recipe.open.orphan.grace_ms = 15_000;
    let mut client = recipe.open();
    let _sweep = sweep(&client, &recipe);
    client.opened();
    std::thread::sleep(Duration::from_millis(200));
    let mut keeper = client.process.take().expect("spawned");
    let pid = nix::unistd::Pid::from_raw(keeper.id() as i32);
    // The keeper gets no turn between the order and its owner's death.
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGSTOP).expect("stopped");
    std::thread::sleep(Duration::from_millis(20));
    client.send(&Order::Stop(quick()));
    drop(client);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGCONT).expect("goes on");
    crate::support::kernel::wait_until(Duration::from_secs(5), "the stop is carried out", || {
        keeper.try_wait().expect("asked").map(|_| ()).ok_or_else(|| "the keeper lives: the order was lost".into())
    });
}

#[test]
fn a_second_open_after_a_failed_one_starts_nothing() {
    use std::io::Write;
    let mut bad = shell("exit 0");
    bad.open.folder = "/no/such/parent/r".into();
    let good = shell("touch started; sleep 1000");
    let mut client = Client::spare();
    let _sweep = sweep(&client, &good);
    client.hello();
    let both = [Order::Open(Box::new(bad.open.clone())).encode(), Order::Open(Box::new(good.open.clone())).encode()];
    client.stream.write_all(&both.concat()).expect("sent");
    while client.next().is_some() {}
    std::thread::sleep(Duration::from_millis(100));
    assert!(!good.folder().exists(), "a folder without a keeper is left");
}
