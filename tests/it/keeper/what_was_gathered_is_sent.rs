//! Output is gathered for half a millisecond and then sent, however busy the machine is at that instant.

use std::time::{Duration, Instant};

use ostler_keeper::{Order, Report, Stream};

use crate::support::keeper_client::{Client, Recipe, quick};

/// Gives an order that has no answer so much after a line went in, and waits for the line's echo.
fn echo(client: &mut Client, number: u64, after: Duration) {
    client.input(number, b"x\n");
    let from = Instant::now();
    while from.elapsed() < after {
        std::hint::spin_loop();
    }
    client.send(&Order::Ack { stream: Stream::Stdout, offset: 0 });
    client.until("the echo", |report| matches!(report, Report::Output { .. }).then_some(()));
}

fn echoes() {
    let recipe = Recipe::command(vec!["cat".into()]);
    let mut client = recipe.open();
    client.opened();
    client.stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
    for number in 1..=3000 {
        echo(&mut client, number, Duration::from_micros(number * 7 % 800));
    }
    client.close(quick());
}

#[test]
fn of_ten_thousand_echoes_none_waits_for_the_next_event() {
    // More of them than processors: each is interrupted now and then between two of its steps.
    let all: Vec<_> = (0..4).map(|_| std::thread::spawn(echoes)).collect();
    assert!(all.into_iter().all(|echoes| echoes.join().is_ok()));
}
