//! The verdict: what was observed, judged by the first rule that applies.
//!
//! The report decides the verdict; processes decide when it is given (rules 1). Nothing here waits or asks: it reads
//! the facts gathered so far and says what they amount to.

use crate::adapter::EndReport;
use crate::contract::{CancelCause, ExitFact, FailureKind, Proof, RateLimit, StopReason, UnresolvedReason, Verdict};

/// What counts as a harness's report of the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReportMode {
    /// A message of its protocol.
    Protocol,
    /// Its exit status, once its output was read to the end.
    ExitStatus(EmptyOutput),
}

/// What success without a byte of output means to a harness that reports by its exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EmptyOutput {
    /// It is a success.
    Accepted,
    /// It is no evidence.
    Suspicious,
}

/// Why nothing more can be observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Loss {
    /// The keeper is gone, and a sweep found the tree empty twice.
    Swept,
    /// The tree outlived its ladder.
    Leaked,
    /// Its keeper lives or may live, and cannot be reached.
    Unreachable,
    /// The machine was booted anew.
    Rebooted,
    /// The adapter's state could not be restored.
    Snapshot,
    /// Its harness is configured no more, so nobody understands what it says.
    Unconfigured,
}

/// Processes of the task beside the agent's own session.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Strays {
    /// Not looked for yet.
    Unknown,
    /// None.
    None,
    /// These are to be left, by policy.
    Left(Vec<i32>),
    /// They do not end one by one.
    Stubborn(Vec<i32>),
}

/// How far a cancel has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CancelFacts {
    /// Who wanted it first.
    pub cause: CancelCause,
    /// Whether an interrupt or a signal of ours was on its way before the exit was seen.
    pub delivered: bool,
    /// Whether the deadline for all of it has passed.
    pub expired: bool,
}

/// The word for an end that the kernel made for lack of memory.
const OUT_OF_MEMORY: &str = "oom";
/// The word for a failure that the provider's limit made.
const RATE_LIMITED: &str = "rate_limited";

/// Everything observed that bears on the verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// What counts as a report.
    pub mode: ReportMode,
    /// The report of the protocol.
    pub report: Option<EndReport>,
    /// How much work the protocol shows open.
    pub open_work: usize,
    /// The task's processes outside the agent's session.
    pub strays: Strays,
    /// The cancel, if one was requested.
    pub cancel: Option<CancelFacts>,
    /// How the leader ended.
    pub exit: Option<ExitFact>,
    /// The keeper ended the tree because nobody came back for it.
    pub orphaned: bool,
    /// The kernel killed a process of the tree for lack of memory.
    pub out_of_memory: bool,
    /// The provider takes no more for now.
    pub rate_limit: Option<RateLimit>,
    /// The kernel confirmed an empty tree.
    pub emptied: bool,
    /// The output was read to its end.
    pub output_ended: bool,
    /// Whether any output byte was seen.
    pub any_output: bool,
    /// Nothing more can be observed.
    pub lost: Option<Loss>,
}

impl Facts {
    /// Nothing observed yet.
    pub fn new(mode: ReportMode) -> Self {
        Self {
            mode,
            report: None,
            open_work: 0,
            strays: Strays::Unknown,
            cancel: None,
            exit: None,
            orphaned: false,
            out_of_memory: false,
            rate_limit: None,
            emptied: false,
            output_ended: false,
            any_output: false,
            lost: None,
        }
    }

    /// The leader is gone, nothing of the tree is left, and every byte was read: the keeper's order of an end.
    fn is_over(&self) -> bool {
        self.exit.is_some() && self.emptied && self.output_ended
    }

    /// The word for what made the end come unasked, where it is known.
    pub fn cause(&self) -> Option<&'static str> {
        let failed = self.exit.is_some_and(|exit| !exit.is_success());
        match (self.orphaned, self.out_of_memory && failed && !self.was_stopped_by_us()) {
            (true, _) => Some("orphaned"),
            (false, true) => Some(OUT_OF_MEMORY),
            (false, false) => self.rate_limit.map(|_| RATE_LIMITED),
        }
    }

    fn is_expired(&self) -> bool {
        self.cancel.is_some_and(|cancel| cancel.expired)
    }

    fn was_stopped_by_us(&self) -> bool {
        self.cancel.is_some_and(|cancel| cancel.delivered)
    }
}

/// What the facts amount to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// Not enough yet.
    Wait,
    /// The end was reported; the strays are to be looked for.
    LookForStrays,
    /// The end was reported as interrupted and strays do not end one by one: the whole tree has to.
    StopTree,
    /// This is the verdict.
    Settle(Verdict, Proof),
}

/// Judges by the table of DESIGN 5, first rule first.
pub fn judge(facts: &Facts) -> Judgement {
    by_report(facts)
        .or_else(|| by_end(facts))
        .or_else(|| by_loss(facts))
        .or_else(|| by_deadline(facts))
        .unwrap_or(Judgement::Wait)
}

fn by_report(facts: &Facts) -> Option<Judgement> {
    let report = facts.report.as_ref()?;
    if facts.open_work > 0 && !facts.is_over() {
        return None;
    }
    if let EndReport::Unknown { status } = report {
        let known = format!("the agent reported an end of unknown meaning: {status}");
        return Some(unresolved(UnresolvedReason::PartialEvidence, known, Proof::Partial));
    }
    // An empty tree holds no strays.
    let strays = if facts.is_over() { &Strays::None } else { &facts.strays };
    match (report, strays) {
        (_, Strays::Unknown) if facts.lost.is_none() && !facts.is_expired() => Some(Judgement::LookForStrays),
        (EndReport::Interrupted, Strays::None) => Some(cancelled(facts, Proof::EndReport)),
        (EndReport::Interrupted, Strays::Left(_) | Strays::Stubborn(_)) => {
            by_loss(facts).or_else(|| by_deadline(facts)).or(Some(Judgement::StopTree))
        }
        (EndReport::Interrupted, Strays::Unknown) => None,
        (EndReport::Completed { stop_reason }, _) => {
            Some(Judgement::Settle(Verdict::Completed { stop_reason: *stop_reason }, Proof::EndReport))
        }
        (EndReport::Failed { kind, message }, _) => {
            Some(Judgement::Settle(Verdict::Failed { kind: *kind, message: message.clone() }, Proof::EndReport))
        }
        (EndReport::Unknown { .. }, _) => None,
    }
}

fn by_end(facts: &Facts) -> Option<Judgement> {
    let exit = facts.exit.filter(|_| facts.is_over())?;
    let completed = || Judgement::Settle(Verdict::Completed { stop_reason: StopReason::Finished }, Proof::ExitReport);
    Some(match facts.mode {
        ReportMode::ExitStatus(empty) if exit.is_success() && (facts.any_output || empty == EmptyOutput::Accepted) => {
            completed()
        }
        _ if facts.was_stopped_by_us() => cancelled(facts, Proof::TreeEmpty),
        _ if facts.orphaned => {
            let message = "its owner was gone, and nobody came back within the grace".to_owned();
            Judgement::Settle(Verdict::Failed { kind: FailureKind::Unknown, message }, Proof::TreeEmpty)
        }
        ReportMode::ExitStatus(_) if exit.is_success() => {
            let known = "the program exited with code 0 and without a byte of output".to_owned();
            unresolved(UnresolvedReason::PartialEvidence, known, Proof::Partial)
        }
        ReportMode::Protocol if exit.is_success() => {
            let known = "the agent exited with code 0 and without a report of the task's end".to_owned();
            unresolved(UnresolvedReason::PartialEvidence, known, Proof::Partial)
        }
        ReportMode::ExitStatus(_) if matches!(exit, ExitFact::Code { .. }) => failed(facts, exit, Proof::ExitReport),
        _ => failed(facts, exit, Proof::TreeEmpty),
    })
}

fn by_loss(facts: &Facts) -> Option<Judgement> {
    let loss = facts.lost?;
    let cancelled = facts.cancel.is_some() && loss == Loss::Leaked;
    let reason = if cancelled { UnresolvedReason::CancellationUnconfirmed } else { UnresolvedReason::ObservationLost };
    let (known, proof) = match loss {
        Loss::Swept => ("the keeper is gone; two sweeps found no process of the runtime", Proof::SweptTwice),
        Loss::Leaked => ("processes of the runtime outlived SIGKILL's deadline", Proof::ObservationLost),
        Loss::Unreachable => ("its keeper may live, and cannot be reached; it is watched on", Proof::ObservationLost),
        Loss::Rebooted => ("the machine was booted anew while the task ran", Proof::ObservationLost),
        Loss::Unconfigured => ("its harness is configured no more; what ran of it was stopped", Proof::ObservationLost),
        Loss::Snapshot => ("the adapter's state could not be read again; the tree was stopped", Proof::ObservationLost),
    };
    Some(unresolved(reason, known.to_owned(), proof))
}

fn by_deadline(facts: &Facts) -> Option<Judgement> {
    facts.cancel.filter(|cancel| cancel.expired)?;
    // The end of its process is all that such a program reports; more of its output changes nothing.
    let is_its_end = |exit: ExitFact| facts.emptied && !exit.is_success() && facts.was_stopped_by_us();
    if matches!(facts.mode, ReportMode::ExitStatus(_)) && facts.exit.is_some_and(is_its_end) {
        return Some(cancelled(facts, Proof::TreeEmpty));
    }
    let known = "the cancel was sent; the end was not shown within its deadline".to_owned();
    Some(unresolved(UnresolvedReason::CancellationUnconfirmed, known, Proof::DeadlinePassed))
}

fn cancelled(facts: &Facts, proof: Proof) -> Judgement {
    let cause = facts.cancel.map_or(CancelCause::Requested, |cancel| cancel.cause);
    Judgement::Settle(Verdict::Cancelled { cause }, proof)
}

fn failed(facts: &Facts, exit: ExitFact, proof: Proof) -> Judgement {
    let (kind, why) = match facts.cause() {
        Some(OUT_OF_MEMORY) => (FailureKind::Unknown, "; the kernel killed processes of it for lack of memory"),
        Some(RATE_LIMITED) => (FailureKind::Transient, "; its provider takes no more for now"),
        _ => (FailureKind::Unknown, ""),
    };
    let message = format!("the agent ended without a result: {exit}{why}");
    Judgement::Settle(Verdict::Failed { kind, message }, proof)
}

fn unresolved(reason: UnresolvedReason, known: String, proof: Proof) -> Judgement {
    Judgement::Settle(Verdict::Unresolved { reason, known }, proof)
}

#[cfg(test)]
mod tests;
