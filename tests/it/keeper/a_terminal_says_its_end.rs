//! The ends a terminal has: typed, hung up, and by the ladder.

use std::time::Duration;

use ostler_keeper::ladder::{Ladder, Rung};
use ostler_keeper::{Exit, Order, Phase, Report, Stream};

use super::a_terminal_is_the_agents_own::{shell, sweep, text};
use crate::support::keeper_client::{Client, quick};

fn by_hanging_up() -> Ladder {
    Ladder::new([
        (Rung::EndOfInput, Duration::from_secs(10)),
        (Rung::HangUp, Duration::from_secs(10)),
        (Rung::Terminate, Duration::from_secs(1)),
        (Rung::Kill, Duration::from_secs(5)),
    ])
}

fn phase(client: &mut Client) -> Phase {
    client.send(&Order::Status);
    client.until("state", |report| match report {
        Report::State(state) => Some(state.phase),
        _ => None,
    })
}

fn closed(client: &mut Client) {
    client.once("closed input", |report| match report {
        Report::InputState(state) if state.closed && state.pending == 0 => Some(()),
        _ => None,
    });
}

fn reads_to_the_end(input: &[u8]) {
    let recipe = shell("echo up; cat > got; echo ended; exec sleep 1000");
    let mut client = recipe.open();
    let _sweep = sweep(&client, &recipe);
    client.heard("up");
    if !input.is_empty() {
        client.input(1, input);
    }
    client.send(&Order::CloseInput);
    client.heard("ended");
    closed(&mut client);
    assert_eq!(std::fs::read(recipe.root().join("got")).expect("written"), input);
    client.close(quick());
}

#[test]
fn input_ends_at_the_start_of_a_line() {
    reads_to_the_end(b"");
    reads_to_the_end(b"a whole line\n");
}

#[test]
fn input_ends_in_the_middle_of_a_line() {
    reads_to_the_end(b"half a line");
}

#[test]
fn input_that_the_terminal_cannot_hold_at_once_arrives_whole_and_then_ends() {
    let recipe = shell("stty -echo; echo up; sleep 0.5; cat > got; echo ended; exec sleep 1000");
    let mut client = recipe.open();
    let _sweep = sweep(&client, &recipe);
    client.heard("up");
    let input: Vec<u8> = (0..40_000).flat_map(|number| format!("{number}\n").into_bytes()).collect();
    client.input(1, &input);
    client.send(&Order::CloseInput);
    client.heard("ended");
    closed(&mut client);
    assert!(std::fs::read(recipe.root().join("got")).expect("written") == input, "something was lost");
    client.close(quick());
}

#[test]
fn where_no_character_means_the_end_none_is_typed() {
    let recipe = shell("stty raw -echo; echo up; timeout 0.5 od -An -c -N1; echo over; exec sleep 1000");
    let mut client = recipe.open();
    let _sweep = sweep(&client, &recipe);
    client.heard("up");
    client.send(&Order::CloseInput);
    closed(&mut client);
    client.heard("over");
    assert_eq!(text(&client), "up\nover\n");
    client.close(quick());
}

#[test]
fn hanging_up_is_told_by_sighup_after_what_was_shown_was_read() {
    let recipe = shell("trap 'echo heard > hup; exit 7' HUP; echo before; while :; do sleep 0.02; done");
    let mut client = recipe.open();
    let _sweep = sweep(&client, &recipe);
    client.heard("before");
    client.send(&Order::HangUp);
    assert_eq!(client.exited(), Exit::Code(7));
    client.emptied();
    client.ended(Stream::Stdout);
    assert_eq!(std::fs::read(recipe.root().join("hup")).expect("written"), b"heard\n");
    client.release();
}

#[test]
fn hanging_up_ends_nobody_who_does_not_mind() {
    let recipe = shell("trap '' HUP; echo up; exec sleep 1000");
    let mut client = recipe.open();
    let _sweep = sweep(&client, &recipe);
    client.heard("up");
    client.send(&Order::HangUp);
    client.ended(Stream::Stdout);
    assert_eq!(phase(&mut client), Phase::Running);
    client.send(&Order::Input { number: 1, bytes: b"x".to_vec() });
    client.until("refusal", |report| matches!(report, Report::Refused { kind: 6, .. }).then_some(()));
    client.close(by_hanging_up());
}

#[test]
fn the_ladder_types_the_end_first() {
    let recipe = shell("echo up; cat; echo by itself; exit 5");
    let mut client = recipe.open();
    let _sweep = sweep(&client, &recipe);
    client.heard("up");
    client.send(&Order::Stop(by_hanging_up()));
    assert_eq!(client.exited(), Exit::Code(5));
    client.emptied();
    client.ended(Stream::Stdout);
    assert!(text(&client).ends_with("by itself\r\n"), "{:?}", text(&client));
    client.release();
}

#[test]
fn the_ladder_hangs_up_at_once_where_no_end_can_be_typed() {
    let recipe = shell("stty raw -echo; echo up; exec sleep 1000");
    let mut client = recipe.open();
    let _sweep = sweep(&client, &recipe);
    client.heard("up");
    let from = std::time::Instant::now();
    client.send(&Order::Stop(by_hanging_up()));
    assert_eq!(client.exited(), Exit::Signal { signal: 1, core: false });
    assert!(from.elapsed() < Duration::from_secs(5), "the end of input was waited for: {:?}", from.elapsed());
    client.emptied();
    client.release();
}

#[test]
fn a_child_that_holds_the_terminal_of_an_ended_leader_is_ended_with_it() {
    let recipe = shell("trap '' HUP; setsid sleep 1000 & sleep 1001 & echo up; exit 3");
    let mut client = recipe.open();
    let _sweep = sweep(&client, &recipe);
    assert_eq!(client.exited(), Exit::Code(3));
    client.emptied();
    client.ended(Stream::Stdout);
    assert_eq!(recipe.marker.alive(), vec![]);
    assert_eq!(text(&client), "up\r\n");
    client.release();
}
