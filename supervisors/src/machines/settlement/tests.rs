//! Every row of the evidence table, and every combination of facts against what may never happen.

use super::*;

fn facts(mode: ReportMode) -> Facts {
    Facts::new(mode)
}

fn over(mode: ReportMode, exit: ExitFact) -> Facts {
    Facts { exit: Some(exit), emptied: true, output_ended: true, any_output: true, ..facts(mode) }
}

const EXIT_STATUS: ReportMode = ReportMode::ExitStatus(EmptyOutput::Suspicious);
const CODE_0: ExitFact = ExitFact::Code { code: 0 };
const CODE_3: ExitFact = ExitFact::Code { code: 3 };
const KILLED: ExitFact = ExitFact::Signal { signal: 9, core: false };

fn cancel(delivered: bool, expired: bool) -> Option<CancelFacts> {
    Some(CancelFacts { cause: CancelCause::Requested, delivered, expired })
}

fn verdict(facts: &Facts) -> (&'static str, Option<UnresolvedReason>, Option<Proof>) {
    match judge(facts) {
        Judgement::Wait => ("wait", None, None),
        Judgement::LookForStrays => ("look for strays", None, None),
        Judgement::StopTree => ("stop tree", None, None),
        Judgement::Settle(verdict, proof) => {
            let reason = match &verdict {
                Verdict::Unresolved { reason, .. } => Some(*reason),
                _ => None,
            };
            (verdict.word(), reason, Some(proof))
        }
    }
}

#[test]
fn the_table_row_by_row() {
    use Proof as P;
    use UnresolvedReason as R;
    let protocol = || facts(ReportMode::Protocol);
    let completed = Some(EndReport::Completed { stop_reason: StopReason::Finished });
    let failed = Some(EndReport::Failed { kind: FailureKind::Provider, message: "x".into() });
    let interrupted = Some(EndReport::Interrupted);
    let unknown = Some(EndReport::Unknown { status: "odd".into() });
    let rows = [
        ("nothing yet", protocol(), ("wait", None, None)),
        (
            "a report asks for strays first",
            Facts { report: completed.clone(), ..protocol() },
            ("look for strays", None, None),
        ),
        (
            "a report with open work waits",
            Facts { report: completed.clone(), open_work: 1, strays: Strays::None, ..protocol() },
            ("wait", None, None),
        ),
        (
            "a report with open work, and then nothing more can be observed",
            Facts { report: completed.clone(), open_work: 1, lost: Some(Loss::Leaked), ..protocol() },
            ("unresolved", Some(R::ObservationLost), Some(P::ObservationLost)),
        ),
        (
            "a report with open work, and then the end of all of it",
            Facts { report: completed.clone(), open_work: 1, ..over(ReportMode::Protocol, KILLED) },
            ("completed", None, Some(P::EndReport)),
        ),
        (
            "completed",
            Facts { report: completed.clone(), strays: Strays::None, ..protocol() },
            ("completed", None, Some(P::EndReport)),
        ),
        (
            "completed after a cancel stays completed",
            Facts { report: completed.clone(), strays: Strays::None, cancel: cancel(true, false), ..protocol() },
            ("completed", None, Some(P::EndReport)),
        ),
        (
            "completed with strays left",
            Facts { report: completed.clone(), strays: Strays::Left(vec![7]), ..protocol() },
            ("completed", None, Some(P::EndReport)),
        ),
        ("failed", Facts { report: failed, strays: Strays::None, ..protocol() }, ("failed", None, Some(P::EndReport))),
        (
            "interrupted without strays",
            Facts { report: interrupted.clone(), strays: Strays::None, cancel: cancel(true, false), ..protocol() },
            ("cancelled", None, Some(P::EndReport)),
        ),
        (
            "interrupted with stubborn strays",
            Facts {
                report: interrupted.clone(),
                strays: Strays::Stubborn(vec![7]),
                cancel: cancel(true, false),
                ..protocol()
            },
            ("stop tree", None, None),
        ),
        (
            "interrupted with strays left: there is no policy for that",
            Facts { report: interrupted.clone(), strays: Strays::Left(vec![7]), ..protocol() },
            ("stop tree", None, None),
        ),
        (
            "interrupted, stubborn strays, deadline over",
            Facts {
                report: interrupted.clone(),
                strays: Strays::Stubborn(vec![7]),
                cancel: cancel(true, true),
                ..protocol()
            },
            ("unresolved", Some(R::CancellationUnconfirmed), Some(P::DeadlinePassed)),
        ),
        (
            "completed, and nobody can look for strays any more",
            Facts { report: completed.clone(), lost: Some(Loss::Swept), ..protocol() },
            ("completed", None, Some(P::EndReport)),
        ),
        (
            "completed, and no time is left to look for strays",
            Facts { report: completed.clone(), cancel: cancel(true, true), ..protocol() },
            ("completed", None, Some(P::EndReport)),
        ),
        (
            "interrupted, and nobody can look for strays any more",
            Facts { report: interrupted.clone(), cancel: cancel(true, false), lost: Some(Loss::Swept), ..protocol() },
            ("unresolved", Some(R::ObservationLost), Some(P::SweptTwice)),
        ),
        (
            "interrupted, and no time is left to look for strays",
            Facts { report: interrupted.clone(), cancel: cancel(true, true), ..protocol() },
            ("unresolved", Some(R::CancellationUnconfirmed), Some(P::DeadlinePassed)),
        ),
        (
            "interrupted, and then the tree was stopped",
            Facts {
                report: interrupted,
                strays: Strays::Stubborn(vec![7]),
                cancel: cancel(true, false),
                ..over(ReportMode::Protocol, KILLED)
            },
            ("cancelled", None, Some(P::EndReport)),
        ),
        (
            "unknown end",
            Facts { report: unknown, ..protocol() },
            ("unresolved", Some(R::PartialEvidence), Some(P::Partial)),
        ),
        (
            "our signal, then the end",
            Facts { cancel: cancel(true, false), ..over(ReportMode::Protocol, KILLED) },
            ("cancelled", None, Some(P::TreeEmpty)),
        ),
        ("killed from outside", over(ReportMode::Protocol, KILLED), ("failed", None, Some(P::TreeEmpty))),
        (
            "a cancel that never left before the crash",
            Facts { cancel: cancel(false, false), ..over(ReportMode::Protocol, KILLED) },
            ("failed", None, Some(P::TreeEmpty)),
        ),
        (
            "code 0 without a report",
            over(ReportMode::Protocol, CODE_0),
            ("unresolved", Some(R::PartialEvidence), Some(P::Partial)),
        ),
        (
            "orphaned: its keeper ended it, whatever its exit code",
            Facts { orphaned: true, ..over(ReportMode::Protocol, CODE_0) },
            ("failed", None, Some(P::TreeEmpty)),
        ),
        (
            "killed for lack of memory",
            Facts { out_of_memory: true, ..over(ReportMode::Protocol, KILLED) },
            ("failed", None, Some(P::TreeEmpty)),
        ),
        (
            "our signal, while memory was short",
            Facts { out_of_memory: true, cancel: cancel(true, false), ..over(ReportMode::Protocol, KILLED) },
            ("cancelled", None, Some(P::TreeEmpty)),
        ),
        ("exit status 0", over(EXIT_STATUS, CODE_0), ("completed", None, Some(P::ExitReport))),
        (
            "exit status 0 without a byte",
            Facts { any_output: false, ..over(EXIT_STATUS, CODE_0) },
            ("unresolved", Some(R::PartialEvidence), Some(P::Partial)),
        ),
        (
            "exit status 0 without a byte, where that is fine",
            Facts { any_output: false, ..over(ReportMode::ExitStatus(EmptyOutput::Accepted), CODE_0) },
            ("completed", None, Some(P::ExitReport)),
        ),
        ("exit status 3", over(EXIT_STATUS, CODE_3), ("failed", None, Some(P::ExitReport))),
        (
            "killed, where the exit status is the report",
            over(EXIT_STATUS, KILLED),
            ("failed", None, Some(P::TreeEmpty)),
        ),
        ("exit status 3, tree not empty", Facts { emptied: false, ..over(EXIT_STATUS, CODE_3) }, ("wait", None, None)),
        (
            "exit status 3, output unread",
            Facts { output_ended: false, ..over(EXIT_STATUS, CODE_3) },
            ("wait", None, None),
        ),
        (
            "our stop, the exit, an empty tree, and the deadline before the output was read",
            Facts { cancel: cancel(true, true), output_ended: false, ..over(EXIT_STATUS, KILLED) },
            ("cancelled", None, Some(P::TreeEmpty)),
        ),
        (
            "lost",
            Facts { lost: Some(Loss::Swept), ..protocol() },
            ("unresolved", Some(R::ObservationLost), Some(P::SweptTwice)),
        ),
        (
            "booted anew",
            Facts { lost: Some(Loss::Rebooted), ..protocol() },
            ("unresolved", Some(R::ObservationLost), Some(P::ObservationLost)),
        ),
        (
            "a snapshot that cannot be read",
            Facts { lost: Some(Loss::Snapshot), cancel: cancel(true, false), ..protocol() },
            ("unresolved", Some(R::ObservationLost), Some(P::ObservationLost)),
        ),
        (
            "lost in a cancel",
            Facts { lost: Some(Loss::Swept), cancel: cancel(true, false), ..protocol() },
            ("unresolved", Some(R::ObservationLost), Some(P::SweptTwice)),
        ),
        (
            "leaked without a cancel",
            Facts { lost: Some(Loss::Leaked), ..protocol() },
            ("unresolved", Some(R::ObservationLost), Some(P::ObservationLost)),
        ),
        (
            "leaked in a cancel",
            Facts { lost: Some(Loss::Leaked), cancel: cancel(true, false), ..protocol() },
            ("unresolved", Some(R::CancellationUnconfirmed), Some(P::ObservationLost)),
        ),
        (
            "cancel deadline over",
            Facts { cancel: cancel(true, true), ..protocol() },
            ("unresolved", Some(R::CancellationUnconfirmed), Some(P::DeadlinePassed)),
        ),
    ];
    for (name, facts, expected) in rows {
        assert_eq!(verdict(&facts), expected, "{name}");
    }
}

/// Every combination of facts, against the promises.
#[test]
fn no_combination_breaks_a_promise() {
    let reports = [
        None,
        Some(EndReport::Completed { stop_reason: StopReason::Finished }),
        Some(EndReport::Failed { kind: FailureKind::Provider, message: "x".into() }),
        Some(EndReport::Interrupted),
        Some(EndReport::Unknown { status: "odd".into() }),
    ];
    let strays = [Strays::Unknown, Strays::None, Strays::Left(vec![1]), Strays::Stubborn(vec![1])];
    let cancels = [None, cancel(false, false), cancel(true, false), cancel(true, true)];
    let exits = [None, Some(CODE_0), Some(CODE_3), Some(KILLED)];
    let losses = [None, Some(Loss::Swept), Some(Loss::Leaked), Some(Loss::Rebooted)];
    let mut seen = 0;
    for mode in [ReportMode::Protocol, EXIT_STATUS, ReportMode::ExitStatus(EmptyOutput::Accepted)] {
        for report in &reports {
            for strays in &strays {
                for cancel in cancels {
                    for exit in exits {
                        for lost in losses {
                            for bits in 0..16u8 {
                                let facts = Facts {
                                    mode,
                                    report: report.clone(),
                                    open_work: usize::from(bits & 8 != 0),
                                    strays: strays.clone(),
                                    cancel,
                                    exit,
                                    orphaned: bits & 8 != 0,
                                    out_of_memory: bits & 4 != 0,
                                    rate_limit: (bits & 2 != 0).then(RateLimit::default),
                                    emptied: bits & 1 != 0,
                                    output_ended: bits & 2 != 0,
                                    any_output: bits & 4 != 0,
                                    lost,
                                };
                                check(&facts);
                                seen += 1;
                            }
                        }
                    }
                }
            }
        }
    }
    assert_eq!(seen, 3 * 5 * 4 * 4 * 4 * 4 * 16);
}

fn check(facts: &Facts) {
    let Judgement::Settle(verdict, proof) = judge(facts) else { return };
    match verdict {
        Verdict::Completed { .. } => {
            let reported = matches!(facts.report, Some(EndReport::Completed { .. }));
            let by_status = facts.mode != ReportMode::Protocol && facts.exit == Some(CODE_0) && facts.is_over();
            assert!(reported || by_status, "completed without a report: {facts:?}");
        }
        Verdict::Failed { .. } => {
            let reported = matches!(facts.report, Some(EndReport::Failed { .. }));
            assert!(reported || facts.is_over(), "failed without proof: {facts:?}");
            assert!(reported || !facts.was_stopped_by_us(), "our own stop reported as a failure: {facts:?}");
        }
        Verdict::Cancelled { .. } => {
            let reported = facts.report == Some(EndReport::Interrupted);
            // Of a program whose exit is its report, what it wrote need not be read to its end.
            let unread = facts.is_expired() && facts.mode != ReportMode::Protocol && facts.exit != Some(CODE_0);
            let over = facts.is_over() || (unread && facts.exit.is_some() && facts.emptied);
            assert!(reported || (facts.was_stopped_by_us() && over), "cancelled without proof: {facts:?}");
            let alive = matches!(facts.strays, Strays::Left(_) | Strays::Stubborn(_)) && !over;
            assert!(!alive, "cancelled while strays live: {facts:?}");
        }
        Verdict::Unresolved { .. } => {
            assert!(matches!(
                proof,
                Proof::Partial | Proof::ObservationLost | Proof::SweptTwice | Proof::DeadlinePassed
            ));
        }
    }
}

#[test]
fn the_lack_of_memory_is_told_apart_from_another_kill() {
    let killed = Facts { out_of_memory: true, ..over(ReportMode::Protocol, KILLED) };
    let cases = [
        (killed.clone(), Some("oom")),
        (over(ReportMode::Protocol, KILLED), None),
        (Facts { orphaned: true, ..killed.clone() }, Some("orphaned")),
        (Facts { cancel: cancel(true, false), ..killed.clone() }, None),
        (Facts { cancel: cancel(false, false), ..killed.clone() }, Some("oom")),
        (Facts { exit: Some(CODE_3), ..killed.clone() }, Some("oom")),
        (Facts { exit: Some(CODE_0), ..killed.clone() }, None),
        (Facts { exit: None, ..killed.clone() }, None),
    ];
    for (facts, cause) in cases {
        assert_eq!(facts.cause(), cause, "{facts:?}");
    }
    let Judgement::Settle(Verdict::Failed { message, .. }, _) = judge(&killed) else { panic!("{killed:?}") };
    assert!(message.ends_with("SIGKILL; the kernel killed processes of it for lack of memory"), "{message}");
}
