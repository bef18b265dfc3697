//! Addresses that other programs have: said, never shared, and nobody there is taken for Ostler.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::time::Duration;

use super::{kill, text};
use crate::support::kernel::wait_until;
use crate::support::shell::Shell;

/// Where a daemon said that it can be asked how it does.
pub(super) fn operations(shell: &Shell) -> SocketAddr {
    wait_until(Duration::from_secs(10), "the address is printed", || {
        let said = std::fs::read_to_string(shell.path().join("daemon.log")).unwrap_or_default();
        let address = said.lines().rev().find_map(|line| line.split_once("http://"));
        address.and_then(|(_, address)| address.trim().parse().ok()).ok_or(said)
    })
}

/// What is answered to a plain request.
pub(super) fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("somebody listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("asked");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    answer
}

#[test]
fn case_j15_a_port_that_is_taken_is_named_and_nothing_is_started() {
    let shell = Shell::new();
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = other.local_addr().expect("bound").to_string();
    let refused = shell.ostler(&["serve", "--operations", &address]);
    assert_eq!(refused.code, 2, "{refused:?}");
    let told = refused.stderr.contains(&address) && refused.stderr.contains("another program listens there");
    assert!(told, "{refused:?}");
    assert!(!shell.state().join("ostler.sock").exists(), "nobody may take it for a daemon");
    other.set_nonblocking(true).expect("set");
    assert!(other.accept().is_err(), "whoever listens there was not spoken to");
    drop(other);
    shell.assert_nothing_left();
}

#[test]
fn case_j15_a_daemon_that_is_refused_its_port_leaves_a_survivor_of_the_last_one_alone() {
    let shell = Shell::new();
    let daemon = shell.serve();
    let gate = "tool while ! test -e go; do sleep 0.01; done";
    let client = shell.spawn(&["run", "--harness", "scripted", &format!("say up ;; {gate} ;; say end")]);
    super::received(&shell, 1);
    let task = super::newest_task(&shell);
    kill(daemon);
    super::finish(client);
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    let refused = shell.ostler(&["serve", "--operations", &other.local_addr().expect("bound").to_string()]);
    assert_eq!(refused.code, 2, "{refused:?}");
    let daemon = shell.serve();
    std::fs::write(shell.work().join("go"), "").expect("written");
    let survivor = shell.ostler(&["task", "wait", &task, "--json"]).json();
    assert_eq!(survivor["outcome"]["verdict"], "completed", "{survivor}");
    shell.end(daemon);
}

#[test]
fn case_j15_port_zero_prints_the_port_that_was_chosen() {
    let shell = Shell::new();
    let daemon = shell.serve();
    let address = operations(&shell);
    assert_ne!(address.port(), 0);
    for (path, expected) in [("/healthz", "ok"), ("/readyz", "ready"), ("/metrics", "ostler_sessions")] {
        let answer = get(address, path);
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains(expected), "{path}: {answer}");
    }
    shell.end(daemon);
    assert!(TcpStream::connect(address).is_err(), "it is given back");
}

/// Ostler attaches to no port; the one address that it attaches to is the socket in its own folder.
#[test]
fn case_j15_whoever_listens_in_a_daemons_place_is_not_taken_for_it() {
    let shell = Shell::new();
    std::fs::create_dir_all(shell.state()).expect("made");
    // As an earlier daemon leaves it.
    std::fs::write(shell.state().join("serve.lock"), "").expect("written");
    let foreign = UnixListener::bind(shell.state().join("ostler.sock")).expect("bound");
    foreign.set_nonblocking(true).expect("set");
    let mut run = shell.spawn(&["run", "--harness", "scripted", "--json", "say hi"]);
    wait_until(Duration::from_secs(30), "it waits for no answer of a stranger", || {
        run.try_wait().expect("a child").map(drop).ok_or_else(String::new)
    });
    let done = super::finish(run);
    assert_eq!((done.code, text(&done.json(), "output")), (0, "hi\n"), "{done:?}");
    let told: Vec<u8> = std::iter::from_fn(|| foreign.accept().ok())
        .flat_map(|(mut stream, _)| {
            let mut told = Vec::new();
            stream.read_to_end(&mut told).expect("readable");
            told
        })
        .collect();
    assert_eq!(told, b"", "it was told something");
    drop(foreign);
    std::fs::remove_file(shell.state().join("ostler.sock")).expect("removed");
    shell.assert_nothing_left();
}
