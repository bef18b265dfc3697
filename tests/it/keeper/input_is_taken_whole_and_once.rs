//! Numbered messages: whole or not at all, once or not again.

use std::io::Write;

use ostler_keeper::{InputState, Order, RefusalCode, Report};

use crate::support::keeper_client::{Client, Recipe, quick};

fn cat() -> Recipe {
    Recipe::command(vec!["cat".into()])
}

fn state(client: &mut Client) -> InputState {
    client.until("input state", |report| match report {
        Report::InputState(state) => Some(*state),
        _ => None,
    })
}

#[test]
fn a_repeated_number_is_ignored_and_a_gap_refused() {
    let recipe = cat();
    let mut client = recipe.open();
    client.opened();
    client.input(1, b"one\n");
    client.input(1, b"ONE\n");
    client.input(3, b"three\n");
    let code = client.until("refusal", |report| match report {
        Report::Refused { code, .. } => Some(*code),
        _ => None,
    });
    assert_eq!(code, RefusalCode::Gap);
    client.input(2, b"two\n");
    client.heard("two\n");
    assert_eq!(client.stdout, b"one\ntwo\n");
    client.close(quick());
}

#[test]
fn a_message_cut_short_by_the_owners_death_never_counts() {
    let recipe = cat();
    let mut client = recipe.open();
    client.opened();
    client.input(1, b"one\n");
    client.heard("one\n");
    let frame = Order::Input { number: 2, bytes: b"two, never whole\n".to_vec() }.encode();
    client.stream.write_all(&frame[..frame.len() - 3]).expect("written");
    let keeper = client.process.take();
    drop(client);
    let (mut client, told) = Client::attach(&recipe.folder(), b"secret");
    assert_eq!((told.input.accepted, told.input.written), (1, 4));
    client.process = keeper;
    client.read_from(0);
    client.input(2, b"two\n");
    client.heard("two\n");
    assert_eq!(client.stdout, b"two\n", "what was acknowledged is not sent again");
    client.close(quick());
}

#[test]
fn a_message_of_five_mebibytes_arrives_byte_for_byte() {
    let recipe = cat();
    let mut client = recipe.open();
    client.opened();
    let message: Vec<u8> = (0..5 << 20).map(|i: u32| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    client.input(1, &message);
    client.send(&Order::CloseInput);
    assert_eq!(client.exited(), ostler_keeper::Exit::Code(0));
    while client.stdout.len() < message.len() {
        client.until("output", |report| matches!(report, Report::Output { .. }).then_some(()));
    }
    assert!(client.stdout == message);
    client.close(quick());
}

#[test]
fn an_agent_that_reads_nothing_bounds_the_input_and_can_be_stopped() {
    let mut recipe = Recipe::command(vec!["sleep".into(), "1000".into()]);
    recipe.open.input_capacity = 1 << 20;
    let mut client = recipe.open();
    client.opened();
    let message = vec![b'x'; 600 << 10];
    client.input(1, &message);
    client.input(2, &message);
    let refused = client.until("refusal", |report| match report {
        Report::Refused { code, text, .. } => Some((*code, text.clone())),
        _ => None,
    });
    assert_eq!(refused, (RefusalCode::Full, "message 2".to_owned()));
    client.close(quick());
}

#[test]
fn end_of_input_comes_after_what_was_accepted_and_further_input_is_refused() {
    let recipe = cat();
    let mut client = recipe.open();
    client.opened();
    client.input(1, b"last\n");
    client.send(&Order::CloseInput);
    while !state(&mut client).closed {}
    client.input(2, b"too late\n");
    let code = client.until("refusal", |report| match report {
        Report::Refused { code, .. } => Some(*code),
        _ => None,
    });
    assert_eq!(code, RefusalCode::Closed);
    client.heard("last\n");
    client.emptied();
    client.release();
}
