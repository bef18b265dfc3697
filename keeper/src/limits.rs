//! Limits: put in force where the kernel offers it, and told either way.

use std::path::Path;

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::getuid;

use crate::leaf::{Leaf, NotInForce};
use crate::message::{Limit, LimitKind, LimitStanding, LimitState};

/// The resource limit of a kind; `None` for one of the control group.
fn resource(kind: LimitKind) -> Option<Resource> {
    match kind {
        LimitKind::AddressSpace => Some(Resource::RLIMIT_AS),
        LimitKind::OpenFiles => Some(Resource::RLIMIT_NOFILE),
        LimitKind::UserProcesses => Some(Resource::RLIMIT_NPROC),
        LimitKind::FileSize => Some(Resource::RLIMIT_FSIZE),
        LimitKind::CoreSize => Some(Resource::RLIMIT_CORE),
        LimitKind::CpuSeconds => Some(Resource::RLIMIT_CPU),
        LimitKind::Memory | LimitKind::Swap | LimitKind::Processes => None,
    }
}

/// Sets those of the leaf, and says what will hold: before the agent exists, so that it never runs without.
pub(crate) fn arrange(limits: &[Limit], leaf: Option<&Leaf>) -> Vec<LimitState> {
    limits.iter().map(|limit| arrange_one(*limit, leaf)).collect()
}

fn arrange_one(limit: Limit, leaf: Option<&Leaf>) -> LimitState {
    let Limit { kind, value } = limit;
    let held = match (resource(kind), leaf) {
        (Some(resource), _) => plan(resource, value),
        (None, Some(leaf)) => leaf.limit(kind, value).map(|value| (value, LimitStanding::InForce)),
        (None, None) => Err(NotInForce::because(LimitStanding::NoLeaf)),
    };
    match held {
        Ok((value, standing)) => LimitState { kind, value, standing, errno: 0 },
        Err(NotInForce { standing, errno }) => LimitState { kind, value, standing, errno },
    }
}

/// Never more than was allowed before: that needs a privilege, and would be no limit.
fn plan(resource: Resource, value: u64) -> Result<(u64, LimitStanding), NotInForce> {
    let (_, hard) = getrlimit(resource).map_err(NotInForce::by)?;
    // The kernel counts the processes of the first user, and holds it to no number of them.
    let exempt = resource == Resource::RLIMIT_NPROC && getuid().is_root();
    Ok((value.min(hard), if exempt { LimitStanding::Exempt } else { LimitStanding::InForce }))
}

/// Sets the resource limits of the calling process, as they were arranged; says which were refused.
pub(crate) fn apply(states: &[LimitState], mut refused: impl FnMut(LimitKind, Errno)) {
    for state in states {
        let Some(resource) = resource(state.kind) else { continue };
        if state.standing != LimitStanding::Refused
            && let Err(errno) = setrlimit(resource, state.value, state.value)
        {
            refused(state.kind, errno);
        }
    }
}

/// The leaf is gone, and with it what it held.
pub(crate) fn without_leaf(states: &mut [LimitState]) {
    for state in states.iter_mut().filter(|state| resource(state.kind).is_none()) {
        (state.standing, state.errno) = (LimitStanding::NoLeaf, 0);
    }
}

/// What limits can be put in force for agents started from here, found by making a leaf and removing it. The values are
/// the highest there are.
pub fn offered_limits(leaf_parent: Option<&Path>) -> Vec<LimitState> {
    /// The kernel's highest process id; `pids.max` takes no more.
    const MOST_PROCESSES: u64 = 4_194_304;
    let value = |kind| if kind == LimitKind::Processes { MOST_PROCESSES } else { i64::MAX as u64 };
    let every: Vec<Limit> = LimitKind::ALL.iter().map(|&kind| Limit { kind, value: value(kind) }).collect();
    let leaf = leaf_parent.and_then(|parent| Leaf::make(parent, &format!("ostler-probe-{}", std::process::id())));
    let offered = arrange(&every, leaf.as_ref());
    if let Some(leaf) = leaf {
        // Nobody ever joined it; what is left all the same is empty, and the next start's sweep removes it.
        let _empty = leaf.remove();
    }
    offered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_limit_is_never_raised() {
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("known");
        let arranged = arrange(&[Limit { kind: LimitKind::OpenFiles, value: u64::MAX }], None);
        assert_eq!((arranged[0].value, arranged[0].standing), (hard, LimitStanding::InForce));
    }

    #[test]
    fn what_a_leaf_held_is_held_no_more_without_it() {
        let state = |kind, standing| LimitState { kind, value: 1, standing, errno: 0 };
        let mut states = [LimitKind::Memory, LimitKind::CoreSize].map(|kind| state(kind, LimitStanding::InForce));
        without_leaf(&mut states);
        let expected =
            [state(LimitKind::Memory, LimitStanding::NoLeaf), state(LimitKind::CoreSize, LimitStanding::InForce)];
        assert_eq!(states, expected);
    }
}
