//! `ostler session`: list, show, close.

use clap::Subcommand;
use ostler_supervisors::contract::SessionId;
use ostler_supervisors::ledger::{Ledger, SessionRow, SessionState};
use serde_json::{Value, json};

use super::route::Wants;
use super::table::{age, cell, lines};
use super::{print_json, print_line, route};
use crate::config::Settings;
use crate::error::{Failure, Kind};

#[derive(Debug, Subcommand)]
pub(super) enum SessionVerb {
    /// Lists sessions, newest first
    List {
        /// Prints JSON
        #[arg(long)]
        json: bool,
    },
    /// Shows a session
    Show {
        /// The session
        session: SessionId,
        /// Prints JSON
        #[arg(long)]
        json: bool,
    },
    /// Closes a session for good: its task is cancelled, its processes end
    Close {
        /// The session
        session: SessionId,
        /// Prints JSON
        #[arg(long)]
        json: bool,
    },
}

pub(super) async fn session(verb: SessionVerb, settings: &Settings) -> Result<u8, Failure> {
    match verb {
        SessionVerb::List { json } => list(settings, json).await,
        SessionVerb::Show { session, json } => show(settings, &session, json).await,
        SessionVerb::Close { session, json } => close(settings, &session, json).await,
    }
}

fn described(row: &SessionRow) -> Value {
    let mut value = json!(row);
    value["native"] = json!(row.native);
    value
}

fn state(row: &SessionRow) -> &'static str {
    match row.state {
        SessionState::Open => "open",
        SessionState::Closing => "closing",
        SessionState::Closed => "closed",
    }
}

async fn list(settings: &Settings, as_json: bool) -> Result<u8, Failure> {
    let sessions = route::ledger(settings).await?.sessions().await?;
    if as_json {
        print_json(&sessions.iter().map(described).collect::<Vec<_>>())?;
        return Ok(0);
    }
    let row = |row: &SessionRow| {
        let resumable = if row.native.as_ref().is_some_and(|native| native.resumable) { "yes" } else { "" };
        let directory = row.spec.directory.display().to_string();
        vec![
            row.id.to_string(),
            row.harness.to_string(),
            state(row).into(),
            resumable.into(),
            age(row.created_ms),
            directory,
        ]
    };
    let rows: Vec<_> = sessions.iter().map(row).collect();
    let heads = ["session", "harness", "state", "resumable", "age", "directory"];
    lines(&heads, &rows).iter().try_for_each(|line| print_line(line))?;
    Ok(0)
}

async fn show(settings: &Settings, id: &SessionId, as_json: bool) -> Result<u8, Failure> {
    route::settle_leftovers(settings).await?;
    let ledger = route::ledger(settings).await?;
    let row = ledger.session(id).await?.ok_or_else(|| {
        let text = format!("session {id} is not known; `ostler session list` shows those that are");
        Failure::new(Kind::NotFound, text)
    })?;
    let tasks = ledger.tasks(Some(id)).await?;
    let events = ledger.head(id).await?;
    if as_json {
        print_json(&json!({ "session": described(&row), "tasks": tasks, "events": events }))?;
        return Ok(0);
    }
    print_line(&format!("session    {}\nharness    {}\nstate      {}", row.id, row.harness, state(&row)))?;
    print_line(&format!(
        "directory  {}\nevents     {events}\ntasks      {}",
        cell(&row.spec.directory.display().to_string()),
        tasks.len()
    ))?;
    if let Some(native) = &row.native {
        let resumable = if native.resumable { "resumable" } else { "not shown to be resumable" };
        print_line(&format!("native     {} ({resumable})", native.id))?;
    }
    Ok(0)
}

async fn close(settings: &Settings, id: &SessionId, as_json: bool) -> Result<u8, Failure> {
    let route = route::session(settings, id, Wants::Doing).await?;
    route.ask(async |door| door.close_session(id).await).await?;
    if as_json {
        print_json(&json!({ "session": id, "state": "closed" }))?;
    } else {
        print_line(&format!("{id} is closed"))?;
    }
    Ok(0)
}
