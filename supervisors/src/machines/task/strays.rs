//! Strays: processes of the task outside the agent's own session, ended one by one before anything harder.

use super::{Effect, Record, StrayEnd, StrayPolicy, Strays, Task};
use crate::adapter::EndReport;

/// How many times strays are looked for again, since an ended one may have left others.
const MOST_ROUNDS: u32 = 4;

/// One process outside the agent's session, born in the task.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Stray {
    /// Its id.
    pub pid: i32,
    /// Its start time.
    pub start: u64,
    /// Its command line, for a person.
    pub command: String,
}

/// Where the search stands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Hunt {
    /// Nobody was asked for.
    #[default]
    Resting,
    /// The keeper was asked.
    Listing,
    /// These are being ended, and some would not.
    Ending { left: Vec<Stray>, alive: Vec<i32> },
}

impl Task {
    pub(super) fn hunt(&mut self, effects: &mut Vec<Effect>) {
        if self.hunt == Hunt::Resting {
            self.hunt = Hunt::Listing;
            effects.push(Effect::ListStrays);
        }
    }

    pub(super) fn strays_found(&mut self, found: Vec<Stray>, effects: &mut Vec<Effect>) {
        if self.hunt != Hunt::Listing {
            return;
        }
        let interrupted = self.facts.report == Some(EndReport::Interrupted);
        let pids = || found.iter().map(|stray| stray.pid).collect();
        self.hunt = Hunt::Resting;
        if found.is_empty() {
            self.facts.strays = Strays::None;
        } else if !interrupted && self.policy.strays == StrayPolicy::Keep {
            self.facts.strays = Strays::Left(pids());
        } else if self.rounds == MOST_ROUNDS {
            self.facts.strays = Strays::Stubborn(pids());
        } else {
            self.rounds += 1;
            effects.extend(found.iter().cloned().map(Effect::EndStray));
            self.hunt = Hunt::Ending { left: found, alive: Vec::new() };
        }
    }

    pub(super) fn stray_ended(&mut self, stray: Stray, end: StrayEnd, effects: &mut Vec<Effect>) {
        let Hunt::Ending { left, alive } = &mut self.hunt else { return };
        let Some(index) = left.iter().position(|other| *other == stray) else { return };
        left.remove(index);
        if end == StrayEnd::Alive {
            alive.push(stray.pid);
        }
        effects.push(Effect::Record(Record::Stray(stray, end)));
        if !left.is_empty() {
            return;
        }
        if !alive.is_empty() {
            self.facts.strays = Strays::Stubborn(std::mem::take(alive));
        }
        // Looked for again where all ended: they may have left others.
        self.hunt = Hunt::Resting;
    }
}
