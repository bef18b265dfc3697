//! Closing something once, however many ask (DESIGN 6): single-flight, confirmed, repeatable after a failure.

/// Where a close stands. `W` names a waiter.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Close<W> {
    /// Nobody asked.
    Open,
    /// It is under way for these.
    Closing(Vec<W>),
    /// Confirmed; final.
    Closed,
}

/// What happens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Input<W> {
    /// Somebody asks for it.
    Ask(W),
    /// The close was answered, or a terminal event confirms it.
    Confirmed,
    /// It failed; it can be tried again.
    Failed,
}

/// What follows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "faults", derive(strum::IntoStaticStr, strum::VariantNames))]
pub enum Effect<W> {
    /// Begin to close.
    Begin,
    /// Tell these that it is closed.
    Done(Vec<W>),
    /// Tell these that it failed.
    Failed(Vec<W>),
}

impl<W> Close<W> {
    /// Whether changes are still allowed.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Open)
    }

    /// Moves on.
    pub fn step(&mut self, input: Input<W>) -> Option<Effect<W>> {
        let (next, effect) = match (std::mem::replace(self, Self::Open), input) {
            (Self::Open, Input::Ask(waiter)) => (Self::Closing(vec![waiter]), Some(Effect::Begin)),
            (Self::Closing(mut waiters), Input::Ask(waiter)) => {
                waiters.push(waiter);
                (Self::Closing(waiters), None)
            }
            (Self::Closed, Input::Ask(waiter)) => (Self::Closed, Some(Effect::Done(vec![waiter]))),
            (Self::Closing(waiters), Input::Confirmed) => (Self::Closed, Some(Effect::Done(waiters))),
            (Self::Closing(waiters), Input::Failed) => (Self::Open, Some(Effect::Failed(waiters))),
            (Self::Open, Input::Confirmed) => (Self::Closed, None),
            (state, _) => (state, None),
        };
        *self = next;
        effect
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explore(close: &Close<u8>, asked: u8, answered: &[u8], running: bool, depth: usize) {
        if depth == 0 {
            return;
        }
        for input in [Input::Ask(asked), Input::Confirmed, Input::Failed] {
            let (mut close, mut answered, mut running) = (close.clone(), answered.to_vec(), running);
            let next = if matches!(input, Input::Ask(_)) { asked + 1 } else { asked };
            match close.step(input) {
                Some(Effect::Begin) => {
                    assert!(!running, "two closes at once");
                    running = true;
                }
                Some(Effect::Done(waiters)) => {
                    assert_eq!(close, Close::Closed, "success without a confirmation");
                    answered.extend(waiters);
                    running = false;
                }
                Some(Effect::Failed(waiters)) => {
                    answered.extend(waiters);
                    running = false;
                }
                None => running &= matches!(close, Close::Closing(_)),
            }
            let mut once = answered.clone();
            once.dedup();
            assert_eq!(once, answered, "somebody was answered twice");
            let waiting = if let Close::Closing(waiters) = &close { waiters.len() } else { 0 };
            assert_eq!(answered.len() + waiting, next as usize, "somebody was forgotten");
            explore(&close, next, &answered, running, depth - 1);
        }
    }

    #[test]
    fn every_caller_is_answered_once_and_success_is_confirmed() {
        explore(&Close::Open, 0, &[], false, 9);
    }

    #[test]
    fn changes_are_refused_from_the_first_ask_until_a_failure() {
        let mut close = Close::Open;
        let mut open_after = |input| {
            close.step(input);
            close.is_open()
        };
        let course = [Input::Ask(1), Input::Failed, Input::Ask(2), Input::Confirmed, Input::Failed];
        assert_eq!(course.map(&mut open_after), [false, true, false, false, false]);
    }

    #[test]
    fn a_terminal_event_closes_what_nobody_asked_to_close() {
        let mut close = Close::Open;
        assert_eq!(close.step(Input::Confirmed), None);
        assert_eq!(close.step(Input::Ask(1)), Some(Effect::Done(vec![1])));
    }
}
