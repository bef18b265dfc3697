//! One request of a task for a response (AHP 3.2): answered once, or closed with its true reason.

use crate::contract::{ClearReason, InteractionResolution, InteractionResponse};

/// Where an interaction stands.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum State<R = InteractionResponse> {
    /// It waits for an answer.
    Open,
    /// An answer is on its way; it stays pending until the agent has confirmed it.
    InFlight(R),
    /// It is closed; final.
    Closed,
}

/// What happens to an interaction.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Input<R = InteractionResponse> {
    /// The caller answers; whether the answer fits was checked before.
    Respond(R),
    /// The agent confirmed the answer.
    Confirmed,
    /// The answer is proven not to have been delivered.
    Undelivered,
    /// The answer was sent, and its acceptance is unknown.
    AcceptanceLost,
    /// It closes without an answer.
    Clear(ClearReason),
}

/// What follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect<R = InteractionResponse> {
    /// Deliver this answer.
    Deliver(R),
    /// Tell the one who answered: it was taken.
    Accepted,
    /// Tell the one who answered: it was not delivered, and may be given again.
    NotDelivered,
    /// Tell the one who answered: nobody knows whether it was taken.
    Unconfirmed,
    /// Tell the one who answered just now: this request takes no answer.
    Refused,
    /// It is closed; exactly once.
    Resolved(Resolution<R>),
}

/// How it closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolution<R = InteractionResponse> {
    /// By an answer whose acceptance is confirmed.
    Responded(R),
    /// Without one.
    Cleared(ClearReason),
}

impl From<Resolution> for InteractionResolution {
    fn from(resolution: Resolution) -> Self {
        match resolution {
            Resolution::Responded(response) => Self::Responded { response },
            Resolution::Cleared(reason) => Self::Cleared { reason },
        }
    }
}

/// Moves an interaction on.
pub fn step<R: Clone>(state: State<R>, input: Input<R>) -> (State<R>, Vec<Effect<R>>) {
    use Effect::*;
    match (state, input) {
        (State::Open, Input::Respond(response)) => (State::InFlight(response.clone()), vec![Deliver(response)]),
        (state, Input::Respond(_)) => (state, vec![Refused]),
        (State::InFlight(response), Input::Confirmed) => {
            (State::Closed, vec![Resolved(Resolution::Responded(response)), Accepted])
        }
        (State::InFlight(_), Input::Undelivered) => (State::Open, vec![NotDelivered]),
        (State::InFlight(_), Input::AcceptanceLost) => {
            (State::Closed, vec![Resolved(Resolution::Cleared(ClearReason::ResponseUnconfirmed)), Unconfirmed])
        }
        (State::InFlight(_), Input::Clear(reason)) => {
            (State::Closed, vec![Resolved(Resolution::Cleared(reason)), Unconfirmed])
        }
        (State::Open, Input::Clear(reason)) => (State::Closed, vec![Resolved(Resolution::Cleared(reason))]),
        (state, _) => (state, Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INPUTS: [Input<u8>; 6] = [
        Input::Respond(1),
        Input::Confirmed,
        Input::Undelivered,
        Input::AcceptanceLost,
        Input::Clear(ClearReason::CancellationRequested),
        Input::Clear(ClearReason::TaskEnded),
    ];

    /// Every sequence of up to seven inputs.
    fn explore(state: State<u8>, log: &mut Vec<Effect<u8>>, depth: usize, seen: &mut usize) {
        *seen += 1;
        let resolved = log.iter().filter(|effect| matches!(effect, Effect::Resolved(_))).count();
        assert_eq!(resolved, usize::from(state == State::Closed), "resolved exactly once, when closed: {log:?}");
        let delivered = log.iter().filter(|effect| matches!(effect, Effect::Deliver(_))).count();
        let told = |wanted: &[Effect<u8>]| log.iter().filter(|effect| wanted.contains(effect)).count();
        let answers = told(&[Effect::Accepted, Effect::NotDelivered, Effect::Unconfirmed]);
        let open = usize::from(matches!(state, State::InFlight(_)));
        assert_eq!(delivered, answers + open, "each delivery is answered once: {log:?}");
        assert!(delivered <= 1 + told(&[Effect::NotDelivered]), "delivered again without proof: {log:?}");
        if depth == 0 {
            return;
        }
        for input in INPUTS {
            let (next, effects) = step(state.clone(), input);
            let before = log.len();
            log.extend(effects);
            explore(next, log, depth - 1, seen);
            log.truncate(before);
        }
    }

    #[test]
    fn every_interleaving_resolves_once_and_never_delivers_twice() {
        let mut seen = 0;
        explore(State::Open, &mut Vec::new(), 7, &mut seen);
        assert_eq!(seen, (0..=7).map(|n| 6usize.pow(n)).sum::<usize>());
    }

    #[test]
    fn each_way_to_close_tells_the_one_who_answered() {
        use Effect::*;
        let cleared = |reason| Resolved(Resolution::Cleared(reason));
        let taken_back = ClearReason::ProviderWithdrawn;
        for (course, expected) in [
            (&[Input::Respond(1), Input::Confirmed][..], vec![Resolved(Resolution::Responded(1)), Accepted]),
            (&[Input::Respond(1), Input::AcceptanceLost], vec![cleared(ClearReason::ResponseUnconfirmed), Unconfirmed]),
            (&[Input::Respond(1), Input::Clear(taken_back)], vec![cleared(taken_back), Unconfirmed]),
            (&[Input::Clear(taken_back)], vec![cleared(taken_back)]),
            (&[Input::Clear(taken_back), Input::Respond(1)], vec![Refused]),
            (&[Input::Respond(1), Input::Respond(2)], vec![Refused]),
            (&[Input::Respond(1), Input::Undelivered], vec![NotDelivered]),
            (&[Input::Respond(1), Input::Undelivered, Input::Respond(2)], vec![Deliver(2)]),
        ] {
            let mut last = (State::Open, Vec::new());
            for input in course {
                last = step(last.0, input.clone());
            }
            assert_eq!(last.1, expected, "{course:?}");
        }
    }
}
