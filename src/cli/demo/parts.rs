//! The parts that agents play in the demo: how each behaves, and how it has to end.

use ostler_supervisors::contract::ApprovalPolicy;

/// How an agent is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speaks {
    /// Lines of JSON; the program is the task.
    Lines,
    /// The Agent Client Protocol; the program serves the session.
    Acp,
}

/// What the person does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Person {
    /// Waits.
    Waits,
    /// Cancels once the agent is at work.
    Cancels,
}

/// One agent's part.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    /// What it does, in a few words.
    pub(super) name: &'static str,
    pub(super) speaks: Speaks,
    /// Its script (`tests/agent` lists the steps).
    pub(super) script: &'static str,
    pub(super) approval: ApprovalPolicy,
    pub(super) person: Person,
    /// The verdict it has to get.
    pub(super) expected: &'static str,
}

const fn part(name: &'static str, speaks: Speaks, script: &'static str, expected: &'static str) -> Part {
    Part { name, speaks, script, approval: ApprovalPolicy::Deny, person: Person::Waits, expected }
}

const fn cancelled(name: &'static str, speaks: Speaks, script: &'static str) -> Part {
    Part { person: Person::Cancels, ..part(name, speaks, script, "cancelled") }
}

const fn allowed(part: Part) -> Part {
    Part { approval: ApprovalPolicy::Allow, ..part }
}

/// In the order in which a small demo takes them.
const PARTS: [Part; 12] = [
    part("works with a tool", Speaks::Acp, "think it over ;; tool sleep 0.5; echo built ;; say done", "completed"),
    allowed(part("asks, and may", Speaks::Acp, "ask run the tests? ;; tool echo tests pass ;; say done", "completed")),
    part("asks, and may not", Speaks::Acp, "ask delete the branch? ;; say then I leave it", "completed"),
    cancelled("hangs, is cancelled", Speaks::Acp, "say let me think ;; hang"),
    part("crashes", Speaks::Lines, "say all is well ;; crash 11", "failed"),
    part(
        "leaves processes behind",
        Speaks::Lines,
        // Long enough to be seen with its children.
        "spawn setsid ;; spawn double-fork ;; spawn ignore-term ;; say look ;; sleep 300 ;; say done",
        "completed",
    ),
    cancelled(
        "has a deaf child, is cancelled",
        Speaks::Lines,
        "spawn ignore-term ;; ignore-cancel ;; say can't hear you ;; hang",
    ),
    part("leaves without a word", Speaks::Acp, "say hm ;; exit 0", "unresolved"),
    cancelled("runs a tool, is cancelled", Speaks::Acp, "tool-left sleep 600 ;; say on it ;; tool sleep 600"),
    part("streams", Speaks::Lines, "stream 40 24 25", "completed"),
    part("floods", Speaks::Lines, "flood 20000", "completed"),
    part("gives up", Speaks::Lines, "say cannot do that ;; exit 3", "failed"),
];

/// So many parts; a large demo has each of them several times.
pub(super) fn parts(count: usize) -> impl Iterator<Item = Part> {
    PARTS.into_iter().cycle().take(count)
}
