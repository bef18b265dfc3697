//! One supervisor's decisions: who is stopped, who is started, in which order, and when the failure goes up.

use super::{ChildSpec, ExitReason, Intensity, RestartType, Strategy};
use crate::machines::Millis;

/// What to do about a child's end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision<K> {
    /// Nothing: it is over, and meant to be.
    Forget,
    /// Stop these, last started first; then start those, in their order.
    Restart {
        /// Siblings to stop.
        stop: Vec<K>,
        /// Children to start.
        start: Vec<K>,
    },
    /// One restart too many: stop these, last started first, and fail yourself.
    Escalate {
        /// Everybody still running.
        stop: Vec<K>,
    },
}

/// A supervisor and its children, in start order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Supervisor<K> {
    strategy: Strategy,
    intensity: Intensity,
    children: Vec<(ChildSpec<K>, Running)>,
    /// Who was told to stop and has not been heard of yet, once for each time.
    stopping: Vec<K>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Running {
    Yes,
    No,
}

impl<K: Clone + PartialEq> Supervisor<K> {
    /// A supervisor without children.
    pub fn new(strategy: Strategy, intensity: Intensity) -> Self {
        Self { strategy, intensity, children: Vec::new(), stopping: Vec::new() }
    }

    /// A child was started; it is the last in order. One of the same key takes its old place.
    pub fn started(&mut self, spec: ChildSpec<K>) {
        match self.children.iter_mut().find(|(child, _)| child.key == spec.key) {
            Some(child) => *child = (spec, Running::Yes),
            None => self.children.push((spec, Running::Yes)),
        }
    }

    /// The running children, in start order.
    pub fn running(&self) -> impl DoubleEndedIterator<Item = &ChildSpec<K>> {
        self.children.iter().filter(|(_, running)| *running == Running::Yes).map(|(spec, _)| spec)
    }

    /// Everybody in the order of a shutdown: last started first.
    pub fn shutdown_order(&self) -> Vec<ChildSpec<K>> {
        self.running().rev().cloned().collect()
    }

    /// A child ended. One that was told to stop may say so when its successor runs already: that is not its end.
    pub fn exited(&mut self, key: &K, reason: ExitReason, now: Millis) -> Decision<K> {
        if let Some(index) = self.stopping.iter().position(|stopped| stopped == key) {
            self.stopping.remove(index);
            return Decision::Forget;
        }
        let Some(index) = self.children.iter().position(|(spec, _)| spec.key == *key) else { return Decision::Forget };
        self.children[index].1 = Running::No;
        let restart = self.children[index].0.restart;
        if !restart.restarts(reason) {
            if restart == RestartType::Temporary {
                self.children.remove(index);
            }
            return Decision::Forget;
        }
        if !self.intensity.allows(now) {
            let stop = self.running().rev().map(|spec| spec.key.clone()).collect();
            return Decision::Escalate { stop };
        }
        self.restart(index)
    }

    /// Who goes down and up with the child at this place. Temporary siblings that are stopped do not come back.
    fn restart(&mut self, index: usize) -> Decision<K> {
        let affected = match self.strategy {
            Strategy::OneForOne => index..index + 1,
            Strategy::OneForAll => 0..self.children.len(),
            Strategy::RestForOne => index..self.children.len(),
        };
        let stop = self.children[affected.clone()].iter().rev();
        let stop: Vec<K> =
            stop.filter(|(_, running)| *running == Running::Yes).map(|(spec, _)| spec.key.clone()).collect();
        self.stopping.extend(stop.iter().cloned());
        let returns = |(spec, running): &&(ChildSpec<K>, Running)| {
            spec.restart != RestartType::Temporary
                && (*running == Running::Yes || spec.key == self.children[index].0.key)
        };
        let start: Vec<K> =
            self.children[affected.clone()].iter().filter(returns).map(|(spec, _)| spec.key.clone()).collect();
        self.children[affected].iter_mut().for_each(|(_, running)| *running = Running::No);
        self.children.retain(|(spec, running)| *running == Running::Yes || spec.restart != RestartType::Temporary);
        Decision::Restart { stop, start }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn supervisor(strategy: Strategy, restart: RestartType) -> Supervisor<&'static str> {
        let mut supervisor = Supervisor::new(strategy, Intensity::new(3, Duration::from_secs(5)));
        for key in ["a", "b", "c"] {
            let restart = if key == "b" { restart } else { RestartType::Permanent };
            supervisor.started(ChildSpec { key, restart, shutdown: Duration::from_secs(1) });
        }
        supervisor
    }

    /// Exit reason × restart type × strategy, cell by cell, for the middle child of three.
    #[test]
    fn case_j4_the_whole_table() {
        use ExitReason::*;
        use RestartType::*;
        use Strategy::*;
        let restarted =
            [(Permanent, Normal), (Permanent, Error), (Permanent, Panic), (Transient, Error), (Transient, Panic)];
        for strategy in Strategy::ALL {
            for restart in RestartType::ALL {
                for reason in ExitReason::ALL {
                    let decision = supervisor(strategy, restart).exited(&"b", reason, Millis(0));
                    let expected = match (restarted.contains(&(restart, reason)), strategy) {
                        (false, _) => Decision::Forget,
                        (true, OneForOne) => Decision::Restart { stop: vec![], start: vec!["b"] },
                        (true, OneForAll) => Decision::Restart { stop: vec!["c", "a"], start: vec!["a", "b", "c"] },
                        (true, RestForOne) => Decision::Restart { stop: vec!["c"], start: vec!["b", "c"] },
                    };
                    assert_eq!(decision, expected, "{restart:?} child, {reason:?}, {strategy:?}");
                }
            }
        }
    }

    /// Neither a clean exit nor a crash is restarted for ever; what is not to be restarted never counts.
    #[test]
    fn case_j4_no_cell_is_an_endless_loop() {
        for restart in RestartType::ALL {
            for reason in ExitReason::ALL {
                let mut supervisor = supervisor(Strategy::OneForOne, restart);
                let spec = supervisor.running().nth(1).cloned().expect("b");
                let starts = (0..100).take_while(|_| {
                    let decision = supervisor.exited(&"b", reason, Millis(0));
                    let again = matches!(decision, Decision::Restart { .. });
                    if again {
                        supervisor.started(spec.clone());
                    }
                    again
                });
                let expected = if restart.restarts(reason) { 3 } else { 0 };
                assert_eq!(starts.count(), expected, "{restart:?} child, {reason:?}");
            }
        }
    }

    #[test]
    fn one_restart_too_many_goes_up_and_stops_the_rest_in_reverse() {
        let mut supervisor = supervisor(Strategy::OneForOne, RestartType::Permanent);
        let spec = supervisor.running().nth(1).cloned().expect("b");
        for _ in 0..3 {
            let decision = supervisor.exited(&"b", ExitReason::Panic, Millis(0));
            assert_eq!(decision, Decision::Restart { stop: vec![], start: vec!["b"] });
            supervisor.started(spec.clone());
        }
        let decision = supervisor.exited(&"b", ExitReason::Panic, Millis(10));
        assert_eq!(decision, Decision::Escalate { stop: vec!["c", "a"] });
    }

    #[test]
    fn a_temporary_sibling_that_is_stopped_does_not_come_back() {
        let mut supervisor = Supervisor::new(Strategy::OneForAll, Intensity::new(3, Duration::from_secs(5)));
        for (key, restart) in [("a", RestartType::Permanent), ("t", RestartType::Temporary)] {
            supervisor.started(ChildSpec { key, restart, shutdown: Duration::from_secs(1) });
        }
        let decision = supervisor.exited(&"a", ExitReason::Error, Millis(0));
        assert_eq!(decision, Decision::Restart { stop: vec!["t"], start: vec!["a"] });
        assert_eq!(supervisor.running().count(), 0);
    }

    /// Siblings that were stopped say so when their successors run already, in any order, and each may end in its own
    /// way: none of these ends is their successors'.
    #[test]
    fn the_late_exit_of_a_stopped_sibling_is_not_its_successors() {
        for late in [["b", "c"], ["c", "b"]] {
            for reason in [ExitReason::Shutdown, ExitReason::Panic] {
                let mut supervisor = supervisor(Strategy::RestForOne, RestartType::Permanent);
                let specs: Vec<_> = supervisor.running().cloned().collect();
                let all = Decision::Restart { stop: vec!["c", "b"], start: vec!["a", "b", "c"] };
                assert_eq!(supervisor.exited(&"a", ExitReason::Panic, Millis(0)), all);
                specs.iter().for_each(|spec| supervisor.started(spec.clone()));
                for key in late {
                    supervisor.exited(&key, reason, Millis(1));
                }
                let running: Vec<_> = supervisor.running().map(|spec| spec.key).collect();
                assert_eq!(running, ["a", "b", "c"], "{late:?} {reason:?}");
                assert_eq!(supervisor.exited(&"a", ExitReason::Panic, Millis(2)), all, "{late:?} {reason:?}");
            }
        }
    }

    #[test]
    fn a_child_that_is_started_again_has_its_old_place_unless_it_was_temporary() {
        for (restart, reason, expected) in [
            (RestartType::Permanent, ExitReason::Shutdown, ["c", "b", "a"]),
            (RestartType::Permanent, ExitReason::Error, ["c", "b", "a"]),
            (RestartType::Transient, ExitReason::Normal, ["c", "b", "a"]),
            (RestartType::Transient, ExitReason::Error, ["c", "b", "a"]),
            (RestartType::Temporary, ExitReason::Error, ["b", "c", "a"]),
        ] {
            let mut supervisor = supervisor(Strategy::OneForOne, restart);
            let spec = supervisor.running().nth(1).cloned().expect("b");
            supervisor.exited(&"b", reason, Millis(0));
            assert_eq!(supervisor.running().count(), 2);
            supervisor.started(spec);
            let order: Vec<_> = supervisor.shutdown_order().iter().map(|spec| spec.key).collect();
            assert_eq!(order, expected, "{restart:?} child, {reason:?}");
        }
    }

    #[test]
    fn a_temporary_sibling_that_is_not_stopped_stays() {
        let mut supervisor = supervisor(Strategy::OneForOne, RestartType::Temporary);
        supervisor.exited(&"a", ExitReason::Error, Millis(0));
        assert_eq!(supervisor.running().map(|spec| spec.key).collect::<Vec<_>>(), ["b", "c"]);
    }

    #[test]
    fn shutdown_is_in_reverse_start_order() {
        let order: Vec<_> =
            supervisor(Strategy::RestForOne, RestartType::Permanent).shutdown_order().iter().map(|s| s.key).collect();
        assert_eq!(order, vec!["c", "b", "a"]);
    }
}
