//! However a tree is killed, its leader's exit is told, once, and before it is told that the tree is empty.

use std::time::Duration;

use ostler_keeper::ladder::Ladder;
use ostler_keeper::{Exit, Order, Report};

use crate::support::keeper_client::Recipe;

#[test]
fn a_tree_of_many() {
    for round in 0..20 {
        let script = format!("{} say up ;; hang", "spawn sleep ;; ".repeat(round * 2));
        let recipe = Recipe::script(&script);
        let mut client = recipe.open();
        client.opened();
        client.heard("up");
        client.send(&Order::Stop(Ladder::kill(Duration::from_secs(5))));
        let mut exits = Vec::new();
        client.until("emptied", |report| {
            exits.extend(match report {
                Report::Exited(exit) => Some(*exit),
                _ => None,
            });
            matches!(report, Report::Emptied(_)).then_some(())
        });
        assert_eq!(exits, [Exit::Signal { signal: 9, core: false }], "{} children", round * 2);
        client.release();
    }
}
