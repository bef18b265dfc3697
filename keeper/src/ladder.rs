//! The stop ladder: rungs with deadlines, as a pure machine.

use std::fmt;
use std::time::Duration;

use crate::message::StopCause;
use crate::wire::{Fields, WireError, Writer};

/// One way to ask a tree to end, in rising order of force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Rung {
    /// The agent's standard input is closed at once; input not yet written is dropped.
    ///
    /// On a terminal in line mode the end of input is typed; in another mode nothing is, and the next rung does not wait.
    EndOfInput,
    /// The terminal hangs up: SIGHUP to its session's leader and its foreground group. What they wrote before is kept;
    /// what they write afterwards is lost. Without a terminal, the same as the end of input.
    HangUp,
    /// SIGTERM (and SIGCONT, since a stopped process takes none) to every process of the tree.
    Terminate,
    /// SIGKILL to every process of the tree, until the kernel says that it is empty.
    Kill,
}

impl Rung {
    /// The number on the wire.
    pub fn number(self) -> u64 {
        match self {
            Self::EndOfInput => 1,
            Self::Terminate => 2,
            Self::Kill => 3,
            Self::HangUp => 4,
        }
    }

    /// The rung of a number on the wire.
    pub fn from_number(number: u64) -> Option<Self> {
        match number {
            1 => Some(Self::EndOfInput),
            2 => Some(Self::Terminate),
            3 => Some(Self::Kill),
            4 => Some(Self::HangUp),
            _ => None,
        }
    }
}

impl fmt::Display for Rung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EndOfInput => "end_of_input",
            Self::HangUp => "hang_up",
            Self::Terminate => "terminate",
            Self::Kill => "kill",
        })
    }
}

/// A rung and how long the tree gets on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The rung.
    pub rung: Rung,
    /// The time before the next rung; on the last one, before the rest counts as leaked.
    pub wait: Duration,
}

/// The rungs of one harness with their deadlines.
///
/// An empty ladder is read as one that only kills, since a stop that does nothing is no stop.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ladder {
    steps: Vec<Step>,
}

impl Ladder {
    /// A ladder of these steps; steps that do not rise are dropped.
    pub fn new(steps: impl IntoIterator<Item = (Rung, Duration)>) -> Self {
        let mut rising: Vec<Step> = Vec::new();
        for (rung, wait) in steps {
            if rising.last().is_none_or(|last| last.rung < rung) {
                rising.push(Step { rung, wait });
            }
        }
        Self { steps: rising }
    }

    /// A ladder that kills at once.
    pub fn kill(wait: Duration) -> Self {
        Self::new([(Rung::Kill, wait)])
    }

    /// The steps, lowest first.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The sum of all deadlines: after it a tree is empty or reported as leaked.
    pub fn budget(&self) -> Duration {
        self.steps.iter().map(|step| step.wait).sum()
    }

    fn step(&self, index: usize) -> Step {
        const LAST: Step = Step { rung: Rung::Kill, wait: Duration::from_secs(5) };
        self.steps.get(index).copied().unwrap_or(LAST)
    }

    pub(crate) fn record(&self) -> Vec<u8> {
        let steps: Vec<_> = self
            .steps
            .iter()
            .map(|s| Writer::record().number(1, s.rung.number()).number(2, s.wait.as_millis() as u64).into_record())
            .collect();
        Writer::record().list(1, steps.iter().map(Vec::as_slice)).into_record()
    }

    pub(crate) fn from_record(bytes: &[u8]) -> Result<Self, WireError> {
        let fields = Fields::parse(bytes)?;
        let step = |bytes| {
            let step = Fields::parse(bytes)?;
            let rung = Rung::from_number(step.number(1)?).ok_or(WireError::Value(1))?;
            Ok((rung, Duration::from_millis(step.number(2)?)))
        };
        Ok(Self::new(fields.all(1).map(step).collect::<Result<Vec<_>, WireError>>()?))
    }
}

/// What a climb asks for at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClimbAction {
    /// Nothing before the next deadline.
    Wait,
    /// Do what this rung says.
    Enter(Rung),
    /// The last deadline passed: say what is left, and keep watching.
    Leaked,
}

/// A ladder being climbed. It never goes down, and it ends only with the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Climb {
    ladder: Ladder,
    index: usize,
    deadline: Duration,
    cause: StopCause,
    place: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Below,
    On,
    Beyond,
}

impl Climb {
    /// Stands below the first rung.
    pub fn new(ladder: Ladder, cause: StopCause, now: Duration) -> Self {
        Self { ladder, index: 0, deadline: now, cause, place: Place::Below }
    }

    /// Who asked first.
    pub fn cause(&self) -> StopCause {
        self.cause
    }

    /// The rung it stands on, if it has entered one.
    pub fn rung(&self) -> Option<Rung> {
        (self.place != Place::Below).then(|| self.ladder.step(self.index).rung)
    }

    /// The instant of the next change; `None` once the last deadline has passed.
    pub fn deadline(&self) -> Option<Duration> {
        (self.place != Place::Beyond).then_some(self.deadline)
    }

    /// A second stop: joins this climb, unless it starts on a higher rung, which it then takes over at once.
    pub fn join(&mut self, ladder: Ladder, now: Duration) {
        if self.rung().is_none_or(|rung| ladder.step(0).rung > rung) {
            *self = Self { cause: self.cause, ..Self::new(ladder, self.cause, now) };
        }
    }

    /// The rung it stands on had nothing to do: the next one does not wait for it.
    pub fn hurry(&mut self, now: Duration) {
        self.deadline = self.deadline.min(now);
    }

    /// Moves on if the deadline has passed.
    pub fn advance(&mut self, now: Duration) -> ClimbAction {
        if self.place == Place::Beyond || now < self.deadline {
            return ClimbAction::Wait;
        }
        if self.place == Place::On {
            if self.index + 1 >= self.ladder.steps.len() && self.ladder.step(self.index).rung == Rung::Kill {
                self.place = Place::Beyond;
                return ClimbAction::Leaked;
            }
            self.index += 1;
        }
        let step = self.ladder.step(self.index);
        self.place = Place::On;
        self.deadline = now + step.wait;
        ClimbAction::Enter(step.rung)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(value: u64) -> Duration {
        Duration::from_millis(value)
    }

    fn full() -> Ladder {
        Ladder::new([(Rung::EndOfInput, ms(10)), (Rung::Terminate, ms(20)), (Rung::Kill, ms(30))])
    }

    #[test]
    fn every_rung_has_its_deadline() {
        let mut climb = Climb::new(full(), StopCause::Ordered, ms(0));
        let mut seen = Vec::new();
        for now in 0..=70 {
            match climb.advance(ms(now)) {
                ClimbAction::Wait => {}
                action => seen.push((now, action)),
            }
        }
        let expected = [
            (0, ClimbAction::Enter(Rung::EndOfInput)),
            (10, ClimbAction::Enter(Rung::Terminate)),
            (30, ClimbAction::Enter(Rung::Kill)),
            (60, ClimbAction::Leaked),
        ];
        assert_eq!(seen, expected);
        assert_eq!(climb.deadline(), None);
    }

    #[test]
    fn a_rung_that_had_nothing_to_do_is_not_waited_for() {
        let mut climb = Climb::new(full(), StopCause::Ordered, ms(0));
        climb.advance(ms(0));
        climb.hurry(ms(1));
        assert_eq!(climb.advance(ms(1)), ClimbAction::Enter(Rung::Terminate));
        assert_eq!(climb.advance(ms(2)), ClimbAction::Wait);
    }

    #[test]
    fn a_ladder_without_kill_still_kills() {
        for ladder in [Ladder::default(), Ladder::new([(Rung::Terminate, ms(1))])] {
            let mut climb = Climb::new(ladder, StopCause::Ordered, ms(0));
            let entered: Vec<_> = (0..10).map(|now| climb.advance(ms(now))).collect();
            assert!(entered.contains(&ClimbAction::Enter(Rung::Kill)), "{entered:?}");
        }
    }

    #[test]
    fn joining_never_goes_down_and_may_go_up() {
        let mut climb = Climb::new(full(), StopCause::Orphaned, ms(0));
        climb.advance(ms(0));
        climb.advance(ms(10));
        climb.join(full(), ms(11));
        assert_eq!(climb.rung(), Some(Rung::Terminate));
        climb.join(Ladder::kill(ms(5)), ms(12));
        assert_eq!(climb.advance(ms(12)), ClimbAction::Enter(Rung::Kill));
        assert_eq!(climb.cause(), StopCause::Orphaned);
    }

    #[test]
    fn a_ladder_survives_the_wire() {
        assert_eq!(Ladder::from_record(&full().record()), Ok(full()));
        assert_eq!(full().budget(), ms(60));
    }
}
