//! `ostler tree`: sessions, tasks, and the processes as the kernel shows them.

use clap::Args;
use ostler_keeper::folder::Identity;
use ostler_keeper::tree as processes;
use ostler_supervisors::contract::SessionId;
use ostler_supervisors::ledger::{Ledger, RuntimeRow, TaskRow};
use serde_json::{Value, json};

use super::table::{Fit, cell};
use super::{print_json, print_line, route};
use crate::config::Settings;
use crate::error::Failure;

#[derive(Debug, Args)]
pub(super) struct Tree {
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn tree(tree: Tree, settings: &Settings) -> Result<u8, Failure> {
    let rows = rows(settings).await?;
    if tree.json {
        print_json(&rows)?;
        return Ok(0);
    }
    let fit = Fit::of(&std::io::stdout());
    if rows.is_empty() {
        print_line("no runtime is alive")?;
    }
    for row in rows {
        let words = ["session", "harness", "runtime", "task_state"].map(|key| text(&row[key]));
        print_line(words.join(" ").trim_end())?;
        for process in row["processes"].as_array().into_iter().flatten() {
            let line = format!("  {:>8}  {}", process["pid"], cell(text(&process["command"])));
            print_line(&fit.line(&line))?;
        }
    }
    Ok(0)
}

async fn rows(settings: &Settings) -> Result<Vec<Value>, Failure> {
    if !settings.ledger_path().exists() {
        return Ok(Vec::new());
    }
    let ledger = route::ledger(settings).await?;
    let (runtimes, tasks) = (ledger.runtimes(None).await?, ledger.unsettled().await?);
    let task_of = |session: &SessionId| tasks.iter().find(|task| task.session == *session);
    Ok(runtimes.iter().map(|state| row(&state.row, task_of(&state.row.session))).collect())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// How many processes the tree in a runtime's folder has now.
pub(super) fn population(folder: &std::path::Path) -> usize {
    let identity = Identity::read(folder).ok().flatten();
    identity.map_or(0, |identity| living(identity.keeper).len())
}

/// The processes below a keeper, if it is still that one.
fn living(keeper: (i32, u64)) -> Vec<ostler_keeper::Process> {
    let (pid, start) = keeper;
    if processes::Stat::read(pid).is_none_or(|stat| stat.start != start) {
        return Vec::new();
    }
    let found = processes::descendants(pid).unwrap_or_default();
    found.iter().map(|(pid, stat)| processes::describe(*pid, stat)).collect()
}

fn row(runtime: &RuntimeRow, task: Option<&TaskRow>) -> Value {
    let identity = Identity::read(&runtime.folder).ok().flatten();
    let keeper = identity.as_ref().map(|identity| identity.keeper);
    let tree = keeper.map(living).unwrap_or_default();
    let shown = |process: &ostler_keeper::Process| json!({ "pid": process.pid, "start": process.start, "ppid": process.ppid, "command": process.command });
    json!({
        "runtime": runtime.id,
        "session": runtime.session,
        "harness": runtime.harness,
        "task": task.map(|task| &task.id),
        "task_state": task.map(|task| task.state.word()),
        "keeper_pid": keeper.map(|(pid, _)| pid),
        "root_pid": identity.as_ref().and_then(|identity| identity.leader).map(|(pid, _)| pid),
        "control_group": identity.and_then(|identity| identity.leaf),
        "tree_size": tree.len(),
        "processes": tree.iter().map(shown).collect::<Vec<_>>(),
    })
}
