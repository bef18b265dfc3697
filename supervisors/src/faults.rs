//! Deaths at chosen instants. Only tests are built with them: the feature `faults` is in no release.

use crate::machines::{close, open, task};

/// The two sides of carrying out one effect of a machine.
pub(crate) struct Boundary {
    #[cfg(feature = "faults")]
    machine: &'static str,
    #[cfg(feature = "faults")]
    effect: &'static str,
}

#[cfg(not(feature = "faults"))]
impl Boundary {
    pub(crate) fn of_task(_effect: &task::Effect) -> Self {
        Self {}
    }

    pub(crate) fn of_open(_effect: open::Effect) -> Self {
        Self {}
    }

    pub(crate) fn of_close<W>(_effect: &close::Effect<W>) -> Self {
        Self {}
    }

    pub(crate) fn before(&self) {}

    pub(crate) fn after(&self) {}
}

#[cfg(feature = "faults")]
impl Boundary {
    pub(crate) fn of_task(effect: &task::Effect) -> Self {
        Self { machine: "task", effect: effect.into() }
    }

    pub(crate) fn of_open(effect: open::Effect) -> Self {
        Self { machine: "open", effect: effect.into() }
    }

    pub(crate) fn of_close<W>(effect: &close::Effect<W>) -> Self {
        Self { machine: "close", effect: effect.into() }
    }

    pub(crate) fn before(&self) {
        self.die_if_asked("before");
    }

    pub(crate) fn after(&self) {
        self.die_if_asked("after");
    }

    /// `OSTLER_DIE_AT=before:task.Submit` is the instant before the first `Submit` is carried out.
    fn die_if_asked(&self, side: &str) {
        use nix::sys::signal::{Signal, kill};
        let here = format!("{side}:{}.{}", self.machine, self.effect);
        if std::env::var("OSTLER_DIE_AT").is_ok_and(|at| at == here) {
            // SIGKILL to oneself is delivered before the call returns.
            let _unreached = kill(nix::unistd::Pid::this(), Signal::SIGKILL);
        }
    }
}

/// `OSTLER_PANIC_AT=journal:25` is the 25th thing that the journal is asked to store.
pub(crate) fn panic_if_asked(_actor: &str) {
    #[cfg(feature = "faults")]
    {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static TIMES: AtomicUsize = AtomicUsize::new(0);
        let asked = std::env::var("OSTLER_PANIC_AT").unwrap_or_default();
        if let Some(at) = asked.strip_prefix(&format!("{_actor}:")) {
            assert_ne!(at, (TIMES.fetch_add(1, Ordering::Relaxed) + 1).to_string(), "asked to by OSTLER_PANIC_AT");
        }
    }
}

/// Every boundary there is, as `OSTLER_DIE_AT` names them: made from the enums, so that none is forgotten.
#[cfg(feature = "faults")]
pub fn boundaries() -> Vec<String> {
    use strum::VariantNames;
    let machines = [
        ("task", task::Effect::VARIANTS),
        ("open", open::Effect::VARIANTS),
        ("close", <close::Effect<()> as VariantNames>::VARIANTS),
    ];
    let named = |(machine, effects): (&str, &'static [&'static str])| {
        effects.iter().map(|effect| format!("{machine}.{effect}")).collect::<Vec<_>>()
    };
    let effects: Vec<String> = machines.into_iter().flat_map(named).collect();
    ["before", "after"].iter().flat_map(|side| effects.iter().map(move |effect| format!("{side}:{effect}"))).collect()
}
