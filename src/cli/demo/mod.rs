//! `ostler demo`: agents that work, ask, hang, crash and leak, all at once; their verdicts, and what is left of them.

mod left;
mod live;
mod parts;
mod play;
mod stage;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use clap::Args;
use nix::sys::prctl;
use ostler_supervisors::contract::CancelCause;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::signals::{INTERRUPTED, Signal, signals};
use super::table;
use super::{print_json, print_line};
use crate::config::Settings;
use crate::door::{Embedded, EmbeddedOptions};
use crate::error::{Failure, Kind};
use live::{Live, Show};
use play::{Ended, Seen, play};

/// How often the tree is looked at.
const LOOK: Duration = Duration::from_millis(100);

#[derive(Debug, Args)]
pub(super) struct Demo {
    /// How many agents
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u16).range(1..=1000))]
    runtimes: u16,

    /// Prints one JSON object at the end, and nothing before
    #[arg(long)]
    json: bool,
}

pub(super) async fn demo(demo: Demo, user: &Settings) -> Result<u8, Failure> {
    let failed = |what: &str, error: &dyn std::error::Error| Failure::new(Kind::Internal, format!("{what}: {error}"));
    let started = Instant::now();
    let mut signals = signals()?;
    // What a keeper could lose comes here, and is counted.
    if let Err(error) = prctl::set_child_subreaper(true) {
        tracing::warn!(%error, "orphans of a killed keeper would not be counted");
    }
    let folder = tempfile::Builder::new().prefix("ostler-demo-").tempdir();
    let folder = folder.map_err(|error| failed("a folder for the demo cannot be made", &error))?;
    let mark = folder.path().display().to_string();
    let embedded = Embedded::start(&stage::settings(user, folder.path(), &mark)?, EmbeddedOptions::RUN).await?;
    let seen: Vec<_> =
        parts::parts(demo.runtimes.into()).map(|part| Rc::new(RefCell::new(Seen::waiting(part)))).collect();
    let show = if demo.json { Show::Nothing } else { Show::of_stderr() };
    let mut live = Live::new(show, seen.clone());
    let ended = until_all_ended(&embedded, folder.path(), &seen, &mut live, &mut signals).await;
    embedded.leave(CancelCause::Shutdown).await?;
    let left = left::processes(&mark);
    let Some(ended) = ended? else {
        eprintln!("ostler: interrupted; {}", left::said(&left));
        return Ok(INTERRUPTED);
    };
    let report = Report { seen, ended, most: live.most, left, took: started.elapsed() };
    if demo.json {
        print_json(&report.json())?
    } else {
        report.lines().iter().try_for_each(|line| print_line(line))?
    }
    Ok(if report.is_as_promised() { 0 } else { 1 })
}

/// How each part ended; `None` if somebody ended the demo before.
async fn until_all_ended(
    embedded: &Embedded,
    place: &std::path::Path,
    seen: &[Rc<RefCell<Seen>>],
    live: &mut Live,
    signals: &mut mpsc::Receiver<Signal>,
) -> Result<Option<Vec<Ended>>, Failure> {
    let mut plays = JoinSet::new();
    for (index, seen) in seen.iter().enumerate() {
        let (embedded, place, seen) = (embedded.clone(), place.to_owned(), seen.clone());
        plays.spawn_local(async move { (index, play(&embedded, &place, &seen).await) });
    }
    let mut ended: Vec<Option<Ended>> = seen.iter().map(|_| None).collect();
    let mut look = tokio::time::interval(LOOK);
    loop {
        tokio::select! {
            _ = signals.recv() => return Ok(None),
            _ = look.tick() => live.look(embedded.system.ledger().as_ref()).await?,
            done = plays.join_next() => match done {
                None => break,
                Some(Ok((index, played))) => ended[index] = Some(played?),
                Some(Err(error)) => return Err(Failure::new(Kind::Internal, format!("a part was not played: {error}"))),
            },
        }
    }
    live.look(embedded.system.ledger().as_ref()).await?;
    Ok(Some(ended.into_iter().flatten().collect()))
}

/// What there is to say at the end.
struct Report {
    seen: Vec<Rc<RefCell<Seen>>>,
    ended: Vec<Ended>,
    most: Vec<usize>,
    /// Processes that live after everything was closed.
    left: Vec<i32>,
    took: Duration,
}

impl Report {
    fn rows(&self) -> Vec<Value> {
        let row = |((seen, ended), most): ((&Rc<RefCell<Seen>>, &Ended), &usize)| {
            let seen = seen.borrow();
            let outcome = ended.row.outcome.as_ref();
            // Whoever was seen to end was there, though too briefly to be looked at.
            let most = (*most).max(outcome.is_some_and(|outcome| outcome.evidence.exit.is_some()).into());
            let verdict = outcome.map_or("unsettled", |outcome| outcome.verdict.word());
            json!({
                "agent": seen.part.name, "session": ended.row.session, "task": ended.row.id, "verdict": verdict,
                "expected": seen.part.expected, "evidence": outcome.map(|outcome| &outcome.evidence),
                "most_processes": most, "ended_strays": seen.strays, "took_ms": ended.took.as_millis() as u64,
            })
        };
        self.seen.iter().zip(&self.ended).zip(&self.most).map(row).collect()
    }

    fn as_expected(&self) -> usize {
        self.rows().iter().filter(|row| row["verdict"] == row["expected"]).count()
    }

    fn is_as_promised(&self) -> bool {
        self.left.is_empty() && self.as_expected() == self.seen.len()
    }

    fn json(&self) -> Value {
        json!({
            "agents": self.rows(), "as_expected": self.as_expected(), "left": self.left,
            "took_ms": self.took.as_millis() as u64,
        })
    }

    fn lines(&self) -> Vec<String> {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let cells = |row: &Value| {
            let evidence = format!("{}{}", text(&row["evidence"]["proof"]), exit(&row["evidence"]["exit"]));
            let took = format!("{:.1} s", row["took_ms"].as_f64().unwrap_or_default() / 1000.0);
            vec![text(&row["agent"]), text(&row["verdict"]), evidence, text(&row["most_processes"]), took]
        };
        let rows: Vec<_> = self.rows().iter().map(cells).collect();
        let mut lines = vec![String::new()];
        lines.extend(table::lines(&["agent", "verdict", "evidence", "processes", "took"], &rows));
        let (expected, all) = (self.as_expected(), self.seen.len());
        lines.push(String::new());
        lines.push(format!("{expected} of {all} verdicts as they had to be, in {:.1} s", self.took.as_secs_f64()));
        lines.push(left::said(&self.left));
        lines
    }
}

fn exit(exit: &Value) -> String {
    match (exit["code"].as_i64(), exit["signal"].as_i64()) {
        (Some(code), _) => format!(", exit code {code}"),
        (_, Some(signal)) => format!(", signal {signal}"),
        _ => String::new(),
    }
}
