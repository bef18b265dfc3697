//! Terminals go with their runtimes, and where there are none left, that is said.

use std::ffi::OsString;
use std::time::Duration;

use ostler_keeper::{Report, SetupStep, Stream};

use crate::support::keeper_client::{Client, Recipe, quick};
use crate::support::kernel::{own_descriptors, own_zombies, wait_until};
use crate::support::namespace;
use crate::support::shell::{Containment, Shell};

const CYCLES: usize = 600;
/// So few terminals are there that one which is lost is missed.
const TERMINALS: usize = 4;
/// A terminal file system with room for so many, in the place of the machine's.
const FEW: &str = "mount -t devpts -o newinstance,max=4,ptmxmode=666 devpts /dev/pts \
                   && mount --bind /dev/pts/ptmx /dev/ptmx";

fn on_terminal(text: &str) -> Recipe {
    let command: Vec<OsString> = vec!["/bin/sh".into(), "-c".into(), text.into()];
    Recipe::command(command).on_terminal()
}

/// The terminals that are there, by the kernel's own list.
fn terminals() -> Vec<String> {
    let entries = std::fs::read_dir("/dev/pts").expect("a terminal file system");
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(|name| name.parse::<u32>().is_ok()).collect()
}

/// The step and the error of a start that fails; its keeper ends.
fn refused(recipe: &Recipe) -> (SetupStep, i32) {
    let mut client = recipe.open();
    let failed = client.until("failure", |report| match report {
        Report::OpenFailed { step, errno, .. } => Some((*step, *errno)),
        Report::Opened { .. } => panic!("opened"),
        _ => None,
    });
    let code = client.process.take().expect("spawned").wait().expect("ends").code();
    assert_eq!((code, recipe.folder().exists()), (Some(2), false));
    failed
}

#[test]
fn case_j12_six_hundred_terminals_opened_and_closed_leave_none() {
    namespace::play("cases::j_terminals::six_hundred_terminals", &["-m"], FEW);
}

#[test]
#[ignore = "played by case_j12 in namespaces of its own"]
fn six_hundred_terminals() {
    namespace::assert_inside("cases::j_terminals::six_hundred_terminals");
    let (ends, stays) = (on_terminal("echo up"), on_terminal("echo up; exec sleep 1000"));
    let mut descriptors = 0;
    for cycle in 0..CYCLES {
        let recipe = if cycle % 2 == 0 { &ends } else { &stays };
        let mut client = recipe.open();
        client.opened();
        match cycle % 2 {
            0 => {
                client.emptied();
                client.ended(Stream::Stdout);
                client.release();
            }
            _ => client.close(quick()),
        }
        assert_eq!(terminals(), Vec::<String>::new(), "cycle {cycle}");
        if cycle == CYCLES / 10 {
            descriptors = own_descriptors();
        }
    }
    assert_eq!((own_descriptors(), own_zombies()), (descriptors, vec![]));
}

/// What a daemon opens and closes has no part in it either: it has no terminal, and gives none away.
#[test]
fn case_j12_a_daemon_holds_no_descriptor_of_a_runtime_that_is_over() {
    let shell = Shell::with(Containment::Descent, "");
    let daemon = shell.serve();
    let descriptors = || {
        let entries = std::fs::read_dir(format!("/proc/{}/fd", daemon.id())).expect("lives");
        let links = entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
        links.map(|link| link.display().to_string()).collect::<Vec<_>>()
    };
    let mut first = 0;
    for round in 0..40 {
        assert_eq!(shell.run("say hi").code, 0);
        if round == 5 {
            first = wait_until(Duration::from_secs(10), "it rests", || at_rest(&descriptors));
        }
    }
    // A few come and go with the store; one for each runtime would be 34.
    wait_until(Duration::from_secs(10), "about as many as before", || {
        let now = descriptors();
        if now.len() < first + 10 { Ok(()) } else { Err(format!("{} of {first}: {now:?}", now.len())) }
    });
    assert!(!descriptors().iter().any(|link| link.contains("/dev/pts") || link.contains("ptmx")));
    shell.end(daemon);
}

/// How many there are once two looks in a row see as many.
fn at_rest(descriptors: &impl Fn() -> Vec<String>) -> Result<usize, String> {
    let before = descriptors().len();
    std::thread::sleep(Duration::from_millis(200));
    let now = descriptors().len();
    if before == now { Ok(now) } else { Err(format!("{before}, then {now}")) }
}

#[test]
fn case_j13_a_system_without_another_terminal_refuses_clearly_until_one_is_free() {
    namespace::play("cases::j_terminals::no_terminal_left", &["-m"], FEW);
}

/// A hundred who ask in vain leave nothing, and the next one is served as soon as one is given back.
#[test]
#[ignore = "played by case_j13 in namespaces of its own"]
fn no_terminal_left() {
    namespace::assert_inside("cases::j_terminals::no_terminal_left");
    let recipes: Vec<_> = (0..TERMINALS).map(|_| on_terminal("echo up; exec sleep 1000")).collect();
    let mut clients: Vec<Client> = recipes.iter().map(Recipe::open).collect();
    let agents: Vec<i32> = clients.iter_mut().map(Client::opened).collect();
    assert_eq!(agents.len(), TERMINALS);
    assert_eq!(terminals().len(), TERMINALS);
    let another = on_terminal("echo up; exec sleep 1000");
    let descriptors = own_descriptors();
    for _ in 0..100 {
        assert_eq!(refused(&another), (SetupStep::Terminal, nix::libc::ENOSPC));
    }
    assert_eq!((terminals().len(), own_descriptors(), own_zombies()), (TERMINALS, descriptors, vec![]));
    assert_eq!(another.marker.alive(), vec![]);
    clients.pop().expect("one").close(quick());
    let mut served = another.open();
    served.opened();
    clients.push(served);
    clients.into_iter().for_each(|client| client.close(quick()));
    assert_eq!(terminals(), Vec::<String>::new());
}

/// Every step of a start that fails is the same to a daemon, a terminal's as well: it asks five times, and then not for a
/// while.
#[test]
fn case_j14_starts_that_fail_are_no_loop() {
    let shell = Shell::with(
        Containment::Descent,
        "[harness.missing]\nadapter = \"codex\"\ncommand = [\"/no/such/agent\"]\n\
         [harness.missing.restarts]\nfirst_pause = \"1h\"\nlongest_pause = \"1h\"\n",
    );
    let daemon = shell.serve();
    let mut tried = 0;
    for round in 0..12 {
        let done = shell.ostler(&["run", "--harness", "missing", "--json", "x"]);
        assert_eq!(done.json()["evidence"]["proof"], "never_started", "{done:?}");
        assert!(done.stdout.contains("/no/such/agent"), "round {round}: the reason is told: {done:?}");
        let events = shell.events(&super::session_of(&done));
        tried += events.iter().filter(|event| event["type"] == "ostler.runtime.opened").count();
    }
    assert_eq!(tried, 5);
    shell.end(daemon);
}
