//! `ostler task`: list, show, cancel, respond, wait.

use clap::{Subcommand, ValueEnum};
use ostler_supervisors::actors::{SessionError, TaskAnswer};
use ostler_supervisors::contract::{
    ApprovalDecision, CancelCause, InteractionId, InteractionResponse, SessionId, TaskId,
};
use ostler_supervisors::ledger::{InteractionState, Ledger, TaskRow};
use serde_json::json;

use super::run::said_of;
use super::table::{age, brief, lines};
use super::{print_json, print_line, route};
use crate::config::Settings;
use crate::door::Door;
use crate::error::{Failure, Kind};

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum Decision {
    /// Allows it, once
    Allow,
    /// Declines it; the task goes on
    Deny,
    /// Declines it and stops the task
    Cancel,
}

#[derive(Debug, Subcommand)]
pub(super) enum TaskVerb {
    /// Lists tasks, newest first
    List {
        /// Of this session only
        #[arg(long)]
        session: Option<SessionId>,
        /// Prints JSON
        #[arg(long)]
        json: bool,
    },
    /// Shows a task: state, verdict, evidence, open requests
    Show {
        /// The task
        task: TaskId,
        /// Prints JSON
        #[arg(long)]
        json: bool,
    },
    /// Requests a task's cancel; a second time, by force
    Cancel {
        /// The task
        task: TaskId,
        /// Prints JSON
        #[arg(long)]
        json: bool,
    },
    /// Answers an open request of a task
    Respond {
        /// The task
        task: TaskId,
        /// The request; `ostler task show` names those that are open
        interaction: InteractionId,
        /// The answer
        decision: Decision,
        /// Prints JSON
        #[arg(long)]
        json: bool,
    },
    /// Waits for a task's verdict
    Wait {
        /// The task
        task: TaskId,
        /// Prints JSON
        #[arg(long)]
        json: bool,
    },
}

pub(super) async fn task(verb: TaskVerb, settings: &Settings) -> Result<u8, Failure> {
    match verb {
        TaskVerb::List { session, json } => list(settings, session, json).await,
        TaskVerb::Show { task, json } => show(settings, &task, json).await,
        TaskVerb::Cancel { task, json } => cancel(settings, &task, json).await,
        TaskVerb::Respond { task, interaction, decision, json } => {
            respond(settings, &task, interaction, decision, json).await
        }
        TaskVerb::Wait { task, json } => wait(settings, &task, json).await,
    }
}

async fn list(settings: &Settings, session: Option<SessionId>, as_json: bool) -> Result<u8, Failure> {
    route::settle_leftovers(settings).await?;
    let ledger = route::ledger(settings).await?;
    if let Some(session) = &session
        && ledger.session(session).await?.is_none()
    {
        return Err(SessionError::UnknownSession(session.clone()).into());
    }
    let tasks = ledger.tasks(session.as_ref()).await?;
    if as_json {
        print_json(&tasks)?;
        return Ok(0);
    }
    let row = |task: &TaskRow| {
        vec![task.id.to_string(), state(task), proof(task), age(task.created_ms), brief(&task.delegation.prompt, 120)]
    };
    let rows: Vec<_> = tasks.iter().map(row).collect();
    lines(&["task", "state", "evidence", "age", "prompt"], &rows).iter().try_for_each(|line| print_line(line))?;
    Ok(0)
}

fn state(task: &TaskRow) -> String {
    match &task.outcome {
        Some(outcome) => outcome.verdict.word().to_owned(),
        None => task.state.word().to_owned(),
    }
}

fn proof(task: &TaskRow) -> String {
    task.outcome.as_ref().map(|outcome| outcome.evidence.proof.to_string()).unwrap_or_default()
}

async fn find(settings: &Settings, task: &TaskId) -> Result<TaskRow, Failure> {
    let found = route::ledger(settings).await?.task(task).await?;
    found.ok_or_else(|| {
        let text = format!("task {task} is not known; `ostler task list` shows those that are");
        Failure::new(Kind::NotFound, text)
    })
}

async fn show(settings: &Settings, id: &TaskId, as_json: bool) -> Result<u8, Failure> {
    route::settle_leftovers(settings).await?;
    let task = find(settings, id).await?;
    let interactions = route::ledger(settings).await?.interactions(id).await?;
    let open: Vec<_> = interactions.iter().filter(|row| row.state == InteractionState::Open).collect();
    if as_json {
        let open: Vec<_> = open.iter().map(|row| &row.request).collect();
        print_json(&json!({ "task": task, "open_interactions": open }))?;
        return Ok(0);
    }
    print_line(&format!("task      {}\nsession   {}\nstate     {}", task.id, task.session, state(&task)))?;
    print_line(&format!("prompt    {}", brief(&task.delegation.prompt, 200)))?;
    if let Some(outcome) = &task.outcome {
        if let Some(said) = said_of(&outcome.verdict) {
            print_line(&format!("verdict   {}", brief(&said, 1000)))?;
        }
        print_line(&format!("evidence  {}", outcome.evidence.proof))?;
        if let Some(exit) = outcome.evidence.exit {
            print_line(&format!("exit      {exit}"))?;
        }
        if let Some(output) = &outcome.output {
            print_line(&format!("output    {}", brief(output.text(), 400)))?;
        }
    }
    for row in open {
        print_line(&format!("open      {} {}", row.request.id, brief(&row.request.prompt, 120)))?;
    }
    Ok(0)
}

/// The owner may end while it is asked. A cancel can be asked for again, of whoever owns the task then.
async fn request_cancel(settings: &Settings, id: &TaskId) -> Result<(), Failure> {
    let ask = async |door: &dyn Door| door.cancel(id, CancelCause::Requested).await;
    match route::task(settings, id).await?.ask(ask).await {
        Err(failure) if failure.kind == Kind::Unconfirmed => route::task(settings, id).await?.ask(ask).await,
        asked => asked,
    }
}

async fn cancel(settings: &Settings, id: &TaskId, as_json: bool) -> Result<u8, Failure> {
    request_cancel(settings, id).await?;
    let task = find(settings, id).await?;
    if as_json {
        print_json(&json!({ "task": id, "state": state(&task), "cancel_requested": task.outcome.is_none() }))?;
    } else if task.outcome.is_some() {
        print_line(&format!("{id} was settled already: {}", state(&task)))?;
    } else {
        print_line(&format!("the cancel of {id} is requested"))?;
    }
    Ok(0)
}

async fn respond(
    settings: &Settings,
    id: &TaskId,
    interaction: InteractionId,
    decision: Decision,
    as_json: bool,
) -> Result<u8, Failure> {
    let decision = match decision {
        Decision::Allow => ApprovalDecision::ApproveOnce,
        Decision::Deny => ApprovalDecision::Decline,
        Decision::Cancel => ApprovalDecision::Cancel,
    };
    let route = route::task(settings, id).await?;
    let response = InteractionResponse::Approval { decision };
    let answer = route.ask(async |door| door.respond(id, interaction.clone(), response).await).await?;
    if as_json {
        print_json(&json!({ "task": id, "interaction": interaction, "answer": answer }))?;
    }
    let failed = |kind, text: &str| Err(Failure::new(kind, format!("{interaction}: {text}")));
    match answer {
        TaskAnswer::Accepted => Ok(0),
        TaskAnswer::Unconfirmed => Ok(4),
        TaskAnswer::NotDelivered => failed(Kind::HarnessUnavailable, "the answer was not delivered; give it again"),
        TaskAnswer::Refused => failed(Kind::InvalidState, "there is no such open request"),
    }
}

async fn wait(settings: &Settings, id: &TaskId, as_json: bool) -> Result<u8, Failure> {
    let route = route::task(settings, id).await?;
    let task = route.ask(async |door| door.wait(id).await).await?;
    if as_json {
        print_json(&task)?;
    } else {
        print_line(&format!("{} ({})", state(&task), proof(&task)))?;
    }
    Ok(super::run::exit_code(&task))
}
