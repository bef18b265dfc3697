//! `ostler events`: a session's events as JSON lines, from any position, without a gap.

use clap::Args;
use ostler_supervisors::contract::{Position, SessionId};

use super::route::Wants;
use super::{print_line, route};
use crate::config::Settings;
use crate::door::Door;
use crate::error::Failure;

#[derive(Debug, Args)]
pub(super) struct EventsVerb {
    /// The session
    session: SessionId,

    /// The first position wanted
    #[arg(long, default_value_t = 1, value_name = "N")]
    from: u64,

    /// Goes on as events come
    #[arg(long, short)]
    follow: bool,

    /// Has no effect: events are JSON already
    #[arg(long)]
    json: bool,
}

pub(super) async fn events(verb: EventsVerb, settings: &Settings) -> Result<u8, Failure> {
    let route = route::session(settings, &verb.session, Wants::Reading).await?;
    let _always_json = verb.json;
    route.ask(async |door| print(door, &verb).await).await.map(|()| 0)
}

async fn print(door: &dyn Door, verb: &EventsVerb) -> Result<(), Failure> {
    let mut events = door.events(&verb.session, Position(verb.from)).await?;
    loop {
        let found = events.next().await?;
        for event in &found {
            if print_line(event.text()).is_err() {
                // Whoever read them has enough.
                return Ok(());
            }
        }
        if found.is_empty() && (!verb.follow || !events.changed().await) {
            return Ok(());
        }
    }
}
