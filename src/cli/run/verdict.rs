//! What is said at the end.

use std::io::IsTerminal;
use std::time::Duration;

use ostler_supervisors::contract::{SessionId, Verdict};
use ostler_supervisors::ledger::{Ledger, TaskRow};
use serde_json::json;

use super::super::printer::Text;
use super::super::route;
use super::super::table::plain;
use super::Run;
use crate::config::Settings;
use crate::error::Failure;

/// What is said of the verdict, and the answer.
pub(super) async fn verdict(
    run: &Run,
    row: &TaskRow,
    settings: &Settings,
    session: &SessionId,
    total: Duration,
    ttft: Option<Duration>,
) -> Result<Vec<Text>, Failure> {
    let Some(outcome) = &row.outcome else { return Ok(Vec::new()) };
    if run.events {
        return Ok(Vec::new());
    }
    let output = outcome.output.as_ref().map(|output| output.text());
    if !run.json {
        let answer = output.filter(|text| !text.is_empty()).map(|text| Text::Out(answer(text)));
        let said = said_of(&outcome.verdict).map(|said| Text::Err(format!("ostler: {said}\n")));
        return Ok(said.into_iter().chain(answer).collect());
    }
    let harness = route::ledger(settings).await?.session(session).await?.map(|row| row.harness);
    let object = json!({
        "session": session,
        "task": row.id,
        "harness": harness,
        "outcome": outcome.verdict,
        "evidence": outcome.evidence,
        "output": output,
        "usage": outcome.usage,
        "timings": {
            "total_ms": total.as_millis() as u64,
            "first_output_ms": ttft.map(|span| span.as_millis() as u64),
        },
    });
    Ok(vec![Text::Out(format!("{object:#}\n"))])
}

/// A program gets the answer as it is; a terminal gets no control sequences of an agent.
fn answer(text: &str) -> String {
    let line = text.strip_suffix('\n').unwrap_or(text);
    match std::io::stdout().is_terminal() {
        true => format!("{}\n", plain(line)),
        false => format!("{line}\n"),
    }
}

/// The verdict in words; a completed task needs none beside its answer.
pub(in crate::cli) fn said_of(verdict: &Verdict) -> Option<String> {
    match verdict {
        Verdict::Completed { .. } => None,
        Verdict::Failed { message, .. } => Some(format!("failed: {}", plain(message))),
        Verdict::Cancelled { cause } => Some(format!("cancelled ({})", cause.word())),
        Verdict::Unresolved { reason, known } => Some(format!("unresolved ({}): {}", reason.word(), plain(known))),
    }
}
