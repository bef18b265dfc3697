//! An agent with a terminal: what it sees of it, what it is told, and what a later owner finds.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ostler_keeper::{Exit, Order, RefusalCode, Report, SetupStep, Stream, WindowSize};

use crate::support::keeper_client::{Client, Recipe, quick};
use crate::support::kernel::{Sweep, cpu_share, wait_until};
use crate::support::programs;

pub(super) fn shell(text: &str) -> Recipe {
    Recipe::command(vec!["/bin/sh".into(), "-c".into(), text.into()]).on_terminal()
}

pub(super) fn keeper_of(client: &Client) -> i32 {
    client.process.as_ref().expect("spawned").id() as i32
}

pub(super) fn sweep(client: &Client, recipe: &Recipe) -> Sweep {
    Sweep(keeper_of(client), recipe.marker.clone())
}

/// The terminals a process has open.
fn terminals(pid: i32) -> Vec<String> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("descriptors");
    let links = entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    links.map(|link| link.display().to_string()).filter(|link| link.contains("pts") || link.contains("ptmx")).collect()
}

pub(super) fn text(client: &Client) -> String {
    String::from_utf8_lossy(&client.stdout).into_owned()
}

#[test]
fn it_controls_the_agents_session_and_goes_with_it() {
    let recipe = shell("tty; stty size; echo error >&2; echo control > /dev/tty");
    let mut client = recipe.open();
    let _sweep = sweep(&client, &recipe);
    client.emptied();
    client.ended(Stream::Stdout);
    assert_eq!(client.ended(Stream::Stderr), 0, "all of it comes by one stream");
    let text = text(&client);
    let (name, rest) = text.split_once("\r\n").expect("a line");
    assert!(name.starts_with("/dev/pts/"), "{name}");
    assert_eq!(rest, "24 80\r\nerror\r\ncontrol\r\n");
    assert_eq!(terminals(keeper_of(&client)), Vec::<String>::new());
    client.release();
}

#[test]
fn its_name_is_free_again_after_the_end() {
    let recipe = shell("tty; exec sleep 1000");
    let mut client = recipe.open();
    let _sweep = sweep(&client, &recipe);
    client.heard("\n");
    let name = text(&client).trim().to_owned();
    let agent = client.opened();
    assert!(Path::new(&name).exists());
    assert_eq!(terminals(keeper_of(&client)).len(), 2, "its input and its output");
    assert_eq!(terminals(agent), vec![name.clone(); 3], "the agent has nothing but its streams");
    let before = std::fs::metadata(&name).expect("there");
    client.send(&Order::Stop(quick()));
    client.emptied();
    client.ended(Stream::Stdout);
    // Another scenario may have got the name since; then it is another terminal.
    let made = |file: std::fs::Metadata| file.created().or_else(|_| file.modified()).ok();
    let again = std::fs::metadata(&name).ok().and_then(made);
    assert!(again.is_none() || again != made(before), "{name} is still there");
    client.release();
}

/// Other scenarios have a few of their own meanwhile; two hundred would be seen.
#[test]
fn two_hundred_terminals_are_given_back() {
    let in_use = || -> u64 {
        let count = std::fs::read_to_string("/proc/sys/kernel/pty/nr").expect("a number");
        count.trim().parse().expect("a number")
    };
    let before = in_use();
    for _ in 0..200 {
        let recipe = shell("(setsid sleep 1000 &); echo up; exit 3");
        let mut client = recipe.open();
        client.emptied();
        client.release();
    }
    assert!(in_use() < before + 100, "{before} before, {} after", in_use());
}

#[test]
fn input_is_typed_once_and_output_is_what_the_terminal_makes_of_it() {
    let recipe = Recipe::command(vec!["cat".into()]).on_terminal();
    let mut client = recipe.open();
    let _sweep = sweep(&client, &recipe);
    client.opened();
    client.input(1, b"hello\n");
    client.input(1, b"again\n");
    client.heard("hello\r\nhello\r\n");
    client.input(2, b"\x03");
    assert_eq!(client.exited(), Exit::Signal { signal: 2, core: false }, "the terminal's own interrupt");
    client.emptied();
    assert!(!text(&client).contains("again"), "{:?}", text(&client));
    client.release();
}

#[test]
fn every_byte_is_relayed_as_it_was_written() {
    let recipe = shell(r"stty raw -echo; printf '\000\001\377\r\n\n\033[31m'; seq 1 200000");
    let mut client = recipe.open();
    let _sweep = sweep(&client, &recipe);
    client.emptied();
    let length = client.ended(Stream::Stdout);
    let mut expected = b"\x00\x01\xff\r\n\n\x1b[31m".to_vec();
    (1..=200_000).for_each(|number| expected.extend(format!("{number}\n").bytes()));
    assert_eq!(length, expected.len() as u64);
    assert!(client.stdout == expected, "the bytes differ");
    client.release();
}

#[test]
fn the_last_words_before_an_exit_are_heard() {
    for round in 0..40 {
        let recipe = shell(&format!("printf 'the last words of {round}'"));
        let mut client = recipe.open();
        let _sweep = sweep(&client, &recipe);
        client.emptied();
        client.ended(Stream::Stdout);
        assert_eq!(text(&client), format!("the last words of {round}"));
        client.release();
    }
}

#[test]
fn another_size_is_told_to_the_foreground_and_to_the_next_owner() {
    let recipe = shell("trap 'stty size' WINCH; echo up; while :; do sleep 0.02; done");
    let mut client = recipe.open();
    let _sweep = sweep(&client, &recipe);
    client.heard("up");
    client.send(&Order::Resize(WindowSize { rows: 50, columns: 132 }));
    client.heard("50 132");
    let process = client.process.take();
    drop(client);
    let (mut next, state) = Client::attach(&recipe.folder(), b"secret");
    assert_eq!(state.window, Some(WindowSize { rows: 50, columns: 132 }));
    next.process = process;
    next.close(quick());
}

#[test]
fn a_size_that_the_agent_gave_itself_is_told_too() {
    let recipe = shell("stty rows 11 columns 22; echo set; exec sleep 1000");
    let mut client = recipe.open();
    let _sweep = sweep(&client, &recipe);
    client.heard("set");
    client.send(&Order::Status);
    let window = client.until("state", |report| match report {
        Report::State(state) => Some(state.window),
        _ => None,
    });
    assert_eq!(window, Some(WindowSize { rows: 11, columns: 22 }));
    client.close(quick());
}

#[test]
fn what_was_shown_meanwhile_is_there_for_an_owner_who_returns() {
    let recipe = shell("echo early; sleep 0.3; echo late; exec sleep 1000");
    let mut client = Client::spare();
    client.hello();
    client.send(&Order::Open(Box::new(recipe.open.clone())));
    let _sweep = sweep(&client, &recipe);
    client.opened();
    let process = client.process.take();
    drop(client);
    let (mut next, state) = Client::attach(&recipe.folder(), b"secret");
    assert_eq!(state.window, Some(WindowSize { rows: 24, columns: 80 }));
    next.process = process;
    next.read_from(0);
    next.heard("late");
    assert_eq!(text(&next), "early\r\nlate\r\n");
    next.close(quick());
}

/// A daemon that closes its streams keeps its session's terminal, and may open it again.
#[test]
fn one_that_nobody_has_open_is_waited_for_and_costs_nothing() {
    let recipe = shell("echo up; exec 0<&- 1>&- 2>&-; sleep 1; echo again > /dev/tty; exec sleep 1000 > /dev/tty");
    let mut client = recipe.open();
    let _sweep = sweep(&client, &recipe);
    client.heard("up");
    let share = cpu_share(keeper_of(&client), Duration::from_millis(700));
    assert!(share < 0.06, "{share:.2} of a processor for a terminal that nobody has open");
    client.input(1, b"typed while nobody reads\n");
    client.heard("again");
    client.close(quick());
}

#[test]
fn without_a_terminal_its_orders_are_refused() {
    let recipe = Recipe::script("say up ;; hang");
    let mut client = recipe.open();
    client.heard("up");
    let size = WindowSize { rows: 1, columns: 1 };
    for (order, kind) in [(Order::Resize(size), 33), (Order::HangUp, 36)] {
        client.send(&order);
        let refused = client.until("refusal", |report| match report {
            Report::Refused { kind, code, .. } => Some((*kind, *code)),
            _ => None,
        });
        assert_eq!(refused, (kind, RefusalCode::State));
    }
    client.close(quick());
}

/// Its own terminal file system, with room for one, and somebody who has that.
#[test]
fn a_system_without_another_terminal_says_so() {
    if !nix::unistd::Uid::current().is_root() {
        eprintln!("not root: no terminal file system can be mounted");
        return;
    }
    let mut command = Command::new("unshare");
    let script = "mount -t devpts -o newinstance,max=1,ptmxmode=666 devpts /dev/pts \
                  && mount --bind /dev/pts/ptmx /dev/ptmx && exec 3<>/dev/ptmx && { sleep 1000 & exec \"$0\"; }";
    command.args(["-m", "sh", "-c", script]).arg(programs::keeper());
    let recipe = shell("echo never");
    command.env("MARK", recipe.marker.text());
    let mut client = Client::spare_by(command);
    let _sweep = sweep(&client, &recipe);
    client.hello();
    client.send(&Order::Open(Box::new(recipe.open.clone())));
    let failed = client.until("failure", |report| match report {
        Report::OpenFailed { step, errno, .. } => Some((*step, *errno)),
        Report::Opened { .. } => panic!("opened"),
        _ => None,
    });
    assert_eq!(failed, (SetupStep::Terminal, nix::libc::ENOSPC));
    wait_until(Duration::from_secs(5), "the folder is gone", || {
        if recipe.folder().exists() { Err("there".to_owned()) } else { Ok(()) }
    });
}
