//! Opening something for a caller who may go away (DESIGN 6): a late success is closed, a slot is kept until the answer.

/// Where an open stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Open {
    /// The caller waits.
    Awaited,
    /// The caller is gone; whatever comes of it is cleaned up.
    Abandoned,
    /// Its success came too late and is being closed.
    CleaningUp,
    /// Over; the slot is free.
    Done,
}

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Input {
    /// It succeeded.
    Opened,
    /// It failed.
    Failed,
    /// The caller went away: a timeout, an abort, a dropped future, a closed connection.
    CallerGone,
    /// The late success was closed.
    CleanedUp,
    /// The late success could not be closed.
    CleanupFailed,
}

/// What follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "faults", derive(strum::IntoStaticStr, strum::VariantNames))]
pub enum Effect {
    /// Give the caller what was opened.
    Deliver,
    /// Tell the caller that it failed.
    DeliverFailure,
    /// Close what was opened for nobody.
    CleanUp,
    /// Leave it to the reaper, and say so (`runtime_cleanup_failed`).
    LeaveToReaper,
    /// The slot is free again.
    Release,
}

impl Open {
    /// Moves on.
    pub fn step(&mut self, input: Input) -> &'static [Effect] {
        let (next, effects): (Self, &[Effect]) = match (*self, input) {
            (Self::Awaited, Input::Opened) => (Self::Done, &[Effect::Deliver, Effect::Release]),
            (Self::Awaited, Input::Failed) => (Self::Done, &[Effect::DeliverFailure, Effect::Release]),
            (Self::Awaited, Input::CallerGone) => (Self::Abandoned, &[]),
            (Self::Abandoned, Input::Opened) => (Self::CleaningUp, &[Effect::CleanUp]),
            (Self::Abandoned, Input::Failed) => (Self::Done, &[Effect::Release]),
            (Self::CleaningUp, Input::CleanedUp) => (Self::Done, &[Effect::Release]),
            (Self::CleaningUp, Input::CleanupFailed) => (Self::Done, &[Effect::LeaveToReaper, Effect::Release]),
            (state, _) => (state, &[]),
        };
        *self = next;
        effects
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INPUTS: [Input; 5] =
        [Input::Opened, Input::Failed, Input::CallerGone, Input::CleanedUp, Input::CleanupFailed];

    fn explore(open: Open, log: &mut Vec<Effect>, opened: bool, gone: bool, depth: usize) {
        let count = |wanted| log.iter().filter(|effect| **effect == wanted).count();
        assert_eq!(count(Effect::Release), usize::from(open == Open::Done), "one release, at the end: {log:?}");
        assert!(count(Effect::Deliver) + count(Effect::CleanUp) <= 1, "owned twice: {log:?}");
        assert!(!(gone && open == Open::Abandoned && count(Effect::Deliver) > 0));
        if opened && open != Open::Done {
            assert_eq!(count(Effect::CleanUp), 1, "a late success has an owner: {log:?}");
        }
        if depth == 0 {
            return;
        }
        for input in INPUTS {
            let mut next = open;
            let effects = next.step(input);
            let before = log.len();
            log.extend(effects);
            let counted = matches!(open, Open::Awaited | Open::Abandoned) && input == Input::Opened;
            explore(next, log, opened || counted, gone || input == Input::CallerGone, depth - 1);
            log.truncate(before);
        }
    }

    #[test]
    fn every_order_frees_the_slot_once_and_owns_every_success() {
        explore(Open::Awaited, &mut Vec::new(), false, false, 7);
    }

    #[test]
    fn each_course_to_its_end() {
        use Effect::*;
        use Input::{CallerGone, CleanedUp, CleanupFailed, Failed, Opened};
        for (course, expected) in [
            (&[Opened][..], &[Deliver, Release][..]),
            (&[Failed], &[DeliverFailure, Release]),
            (&[CallerGone, Failed], &[Release]),
            (&[CallerGone, Opened, CleanedUp], &[CleanUp, Release]),
            (&[CallerGone, Opened, CleanupFailed], &[CleanUp, LeaveToReaper, Release]),
        ] {
            let mut open = Open::Awaited;
            let effects: Vec<_> = course.iter().flat_map(|input| open.step(*input)).copied().collect();
            assert_eq!((open, &effects[..]), (Open::Done, expected), "{course:?}");
        }
    }
}
