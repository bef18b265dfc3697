//! Deaths at chosen instants. Only tests are built with them: the feature `faults` is in no release.

use crate::machines::task::Effect;

/// The two sides of carrying out one effect of a task's machine.
pub(crate) struct Boundary {
    #[cfg(feature = "faults")]
    effect: &'static str,
}

#[cfg(not(feature = "faults"))]
impl Boundary {
    pub(crate) fn of(_effect: &Effect) -> Self {
        Self {}
    }

    pub(crate) fn before(&self) {}

    pub(crate) fn after(&self) {}
}

#[cfg(feature = "faults")]
impl Boundary {
    pub(crate) fn of(effect: &Effect) -> Self {
        Self { effect: effect.into() }
    }

    pub(crate) fn before(&self) {
        die_if_asked("before", self.effect);
    }

    pub(crate) fn after(&self) {
        die_if_asked("after", self.effect);
    }
}

/// `OSTLER_DIE_AT=before:Submit` is the instant before the first `Submit` is carried out.
#[cfg(feature = "faults")]
fn die_if_asked(side: &str, effect: &str) {
    use nix::sys::signal::{Signal, kill};
    if std::env::var("OSTLER_DIE_AT").is_ok_and(|at| at == format!("{side}:{effect}")) {
        // SIGKILL to oneself is delivered before the call returns.
        let _unreached = kill(nix::unistd::Pid::this(), Signal::SIGKILL);
    }
}

/// Every boundary there is, as `OSTLER_DIE_AT` names them: made from the enum, so that none is forgotten.
#[cfg(feature = "faults")]
pub fn boundaries() -> Vec<String> {
    let names = <Effect as strum::VariantNames>::VARIANTS;
    ["before", "after"].iter().flat_map(|side| names.iter().map(move |name| format!("{side}:{name}"))).collect()
}
