//! `ostler run`: one task, one answer, one honest verdict.

mod question;
mod verdict;
mod watch;

use std::io::{IsTerminal, Read};
use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, ValueEnum};
use ostler_supervisors::clock;
use ostler_supervisors::contract::{
    ApprovalPolicy, CancelCause, Delegation, HarnessId, Position, SessionId, SessionSpec, TaskId, Verdict,
};
use ostler_supervisors::ledger::TaskRow;
use ostler_supervisors::owners::Owners;
use tokio::sync::mpsc;

use super::harness::choose;
use super::printer::{Printer, Text};
use super::progress::{Progress, Style};
use super::route::Route;
use super::signals::{INTERRUPTED, Signal, signals};
use crate::config::{Settings, Span};
use crate::door::{self, Door, Embedded, EmbeddedOptions, Remote};
use crate::error::{Failure, Kind};
use question::Typed;
pub(super) use verdict::said_of;
use verdict::verdict;
use watch::Watch;

/// Who decides what the agent asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Approve {
    /// The person at the terminal
    Ask,
    /// Everything is declined
    Deny,
    /// Everything is allowed, once each
    Allow,
}

#[derive(Debug, Args)]
pub(super) struct Run {
    /// The harness; else the configured default, else the first that is installed
    #[arg(long, value_name = "H")]
    harness: Option<HarnessId>,

    /// The directory the agent works in
    #[arg(long, value_name = "D")]
    cwd: Option<PathBuf>,

    /// The model, in the provider's words; with --session, from this task on
    #[arg(long, value_name = "M")]
    model: Option<String>,

    /// Goes on with a session
    #[arg(long, value_name = "S", conflicts_with_all = ["harness", "cwd"])]
    session: Option<SessionId>,

    /// Who decides what the agent asks for: `ask` on a terminal and `deny` elsewhere, where it is not given
    #[arg(long)]
    approve: Option<Approve>,

    /// Cancels the task after this time, such as 90s or 5m
    #[arg(long, value_name = "T")]
    timeout: Option<Span>,

    /// Prints one JSON object instead of the answer
    #[arg(long)]
    json: bool,

    /// Prints every event as a JSON line
    #[arg(long, conflicts_with = "json")]
    events: bool,

    /// Shows no progress
    #[arg(long, short)]
    quiet: bool,

    /// The prompt, or - to read it from standard input
    prompt: String,
}

pub(super) async fn run(run: Run, settings: &Settings) -> Result<u8, Failure> {
    let started = Instant::now();
    let prompt = prompt(&run.prompt)?;
    let mut signals = signals()?;
    // Nothing was started yet that would have to be ended.
    let route = tokio::select! {
        route = route(settings) => route?,
        _ = signals.recv() => return Ok(INTERRUPTED),
    };
    let printer = Printer::start();
    let done = delegate(&run, prompt, settings, &route, started, &printer, &mut signals).await;
    // Whoever asks again does not wait for the agent to leave: without an owner, its keeper ends it.
    let left = tokio::select! {
        left = route.leave() => left,
        _ = signals.recv() => Ok(()),
    };
    // Last, since a reader may take his time; he has it until somebody asks again.
    let written = tokio::select! {
        written = printer.finish() => written,
        _ = signals.recv() => Ok(()),
    };
    match done {
        // What was to be said of another end was said.
        Ok(0) => left.and(written).map(|()| 0),
        other => other,
    }
}

/// Delegates the task, follows it, and tells its verdict.
async fn delegate(
    run: &Run,
    prompt: String,
    settings: &Settings,
    route: &Route,
    started: Instant,
    printer: &Printer,
    signals: &mut mpsc::Receiver<Signal>,
) -> Result<u8, Failure> {
    let approval = policy(run.approve);
    let delegation = Delegation { prompt, approval, model: run.model.clone(), timeout: run.timeout.map(|span| span.0) };
    let task = TaskId::generate(clock::wall_ms());
    let accepted = tokio::select! {
        accepted = accept(run, settings, route.door(), &task, delegation) => accepted?,
        _ = signals.recv() => return not_accepted_yet(route, &task),
    };
    let mut watch = Watch {
        door: route.door(),
        session: &accepted.session,
        task: &task,
        approval,
        printer,
        progress: Progress::new(Style::of_stderr(run.quiet)),
        events: run.events,
        asked: 0,
        ttft: None,
        started,
        typed: Typed::default(),
    };
    let row = watch.until_settled(accepted.from, signals).await;
    if let Some(clear) = watch.progress.clear() {
        printer.try_put(Text::Err(clear));
    }
    let row = row.map_err(|failure| end_unknown(failure, &task))?;
    // The verdict is told before the runtime is closed: it rests on the task, not on how long the agent takes to leave.
    for text in verdict(run, &row, settings, &accepted.session, started.elapsed(), watch.ttft).await? {
        watch.put(text, signals).await?;
    }
    if watch.asked > 1 {
        printer.give_up();
    }
    Ok(exit_code(&row))
}

/// Where a task was taken, and where its events begin.
struct Accepted {
    session: SessionId,
    from: Position,
}

async fn accept(
    run: &Run,
    settings: &Settings,
    door: &dyn Door,
    task: &TaskId,
    delegation: Delegation,
) -> Result<Accepted, Failure> {
    let session = match &run.session {
        Some(session) => session.clone(),
        None => open(run, settings, door).await?,
    };
    let from = head(settings, &session).await?;
    match door.start_task(&session, task, delegation).await {
        Ok(()) => Ok(Accepted { session, from }),
        Err(failure) => {
            // A session that was opened for this task alone is of no use without it.
            if run.session.is_none() && failure.kind != Kind::Unconfirmed {
                door.close_session(&session).await?;
            }
            Err(failure)
        }
    }
}

/// Our own tree ends with us, and what it may have accepted with it; another process may have accepted it for good.
fn not_accepted_yet(route: &Route, task: &TaskId) -> Result<u8, Failure> {
    match route {
        Route::Own(_) | Route::AsLeft(_) => Ok(INTERRUPTED),
        Route::Other(_) => Err(Failure::new(
            Kind::Unconfirmed,
            format!(
                "interrupted while the running Ostler was asked: whether the task was accepted is not known; \
                 see `ostler task show {task}`"
            ),
        )),
    }
}

/// The task was accepted, and whoever runs it can no longer be asked.
fn end_unknown(failure: Failure, task: &TaskId) -> Failure {
    if failure.kind != Kind::HarnessUnavailable {
        return failure;
    }
    let text = format!("{failure}; task {task} may go on: see `ostler task show {task}`");
    Failure::new(Kind::Unconfirmed, text)
}

fn prompt(argument: &str) -> Result<String, Failure> {
    let mut text = argument.to_owned();
    if argument == "-" {
        text.clear();
        let mut bytes = Vec::new();
        std::io::stdin()
            .read_to_end(&mut bytes)
            .map_err(|error| Failure::new(Kind::InvalidInput, format!("standard input cannot be read: {error}")))?;
        text = String::from_utf8(bytes)
            .map_err(|_| Failure::new(Kind::InvalidInput, "the prompt on standard input is not UTF-8"))?;
    }
    if text.contains('\0') {
        return Err(Failure::new(Kind::InvalidInput, "the prompt has a NUL character, which no program takes"));
    }
    if text.is_empty() {
        return Err(Failure::new(
            Kind::InvalidInput,
            "the prompt is empty; give one, or - to read it from standard input",
        ));
    }
    Ok(text)
}

fn policy(approve: Option<Approve>) -> ApprovalPolicy {
    let terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    match approve {
        Some(Approve::Ask) if terminal => ApprovalPolicy::Ask,
        // Where nobody can answer, everything is declined at once.
        Some(Approve::Ask | Approve::Deny) => ApprovalPolicy::Deny,
        Some(Approve::Allow) => ApprovalPolicy::Allow,
        None if terminal => ApprovalPolicy::Ask,
        None => ApprovalPolicy::Deny,
    }
}

/// The daemon where one runs; else a tree of our own, reachable by others while it lives.
async fn route(settings: &Settings) -> Result<Route, Failure> {
    if let Some(remote) = Remote::daemon(&settings.socket(), &settings.serve_lock()).await {
        return Ok(Route::Other(remote));
    }
    let embedded = Embedded::start(settings, EmbeddedOptions::RUN).await?;
    let socket = Owners::socket(&settings.owners(), &embedded.owner);
    if let Err(error) = door::serve(&socket, embedded.clone()) {
        tracing::warn!(%error, "other shells cannot reach this run");
    }
    let leftovers = embedded.system.clone();
    tokio::task::spawn_local(async move {
        if let Err(error) = leftovers.reap().await {
            tracing::warn!(%error, "what earlier runs left is left to the next one");
        }
    });
    Ok(Route::Own(embedded))
}

async fn open(run: &Run, settings: &Settings, door: &dyn Door) -> Result<SessionId, Failure> {
    let harness = choose(run.harness.as_ref(), settings)?;
    let cwd = run.cwd.clone().unwrap_or_else(|| ".".into());
    let directory = std::fs::canonicalize(&cwd)
        .map_err(|error| Failure::new(Kind::InvalidInput, format!("--cwd {}: {error}", cwd.display())))?;
    if !directory.is_dir() {
        return Err(Failure::new(Kind::InvalidInput, format!("--cwd {}: it is no directory", cwd.display())));
    }
    door.open_session(harness, SessionSpec { directory, model: run.model.clone() }).await
}

/// Where the session's stream is before the task.
async fn head(settings: &Settings, session: &SessionId) -> Result<Position, Failure> {
    use ostler_supervisors::ledger::Ledger;
    let ledger = super::route::ledger(settings).await?;
    Ok(ledger.head(session).await?.next())
}

pub(super) fn exit_code(row: &TaskRow) -> u8 {
    use ostler_supervisors::contract::{Proof, StopReason};
    let Some(outcome) = &row.outcome else { return 4 };
    match &outcome.verdict {
        Verdict::Completed { stop_reason: StopReason::Finished } => 0,
        Verdict::Completed { .. } | Verdict::Cancelled { cause: CancelCause::Timeout } => 5,
        Verdict::Failed { .. } if matches!(outcome.evidence.proof, Proof::NeverStarted | Proof::NeverSubmitted) => 3,
        Verdict::Failed { .. } => 1,
        Verdict::Cancelled { .. } => INTERRUPTED,
        Verdict::Unresolved { .. } => 4,
    }
}
