//! What earlier owners left behind: adopted, collected or swept; and only ever of owners whose lock is free.

pub(super) mod look;
mod sweep;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use ostler_keeper::folder::{self, Identity};
use ostler_keeper::remove_leaf;
use tokio::sync::oneshot;

use look::{Standing, Start, may_live, stands};
use sweep::Swept;

use super::claim::Purpose;
use super::guard::ExitGuard;
use super::root::Child;
use super::runtime::Origin;
use super::session::{CloseMode, CloseSession, Describe, FoundRuntime, Load, Session, SessionError, Wait, last_task};
use super::sessions::{Find, Loading, Sessions};
use super::system::{Env, OwnerKind};
use crate::clock;
use crate::contract::{OwnerId, RuntimeId, SessionId};
use crate::file_lock::LockError;
use crate::ledger::{LedgerError, RuntimeState, SessionRow, TaskRow, TaskState};
use crate::machines::settlement::Loss;

/// How long a keeper whose owner is gone gets to say its last word before it is told to.
const LAST_WORD: Duration = Duration::from_secs(2);
/// How long a folder without an identity is left alone.
const YOUNG: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(20);

/// What a pass found and did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reaped {
    /// Sessions whose work goes on.
    pub adopted: usize,
    /// Sessions whose work was ended and judged.
    pub collected: usize,
    /// Folders and leaves of which no row knew.
    pub swept: usize,
}

/// Looks through everything once.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Reap(pub(super) oneshot::Sender<Result<Reaped, SessionError>>);

pub(super) struct Reaper {
    env: Arc<Env>,
    sessions: Addr<Sessions>,
    pub(super) guard: ExitGuard<Child>,
}

impl Reaper {
    pub(super) fn new(env: Arc<Env>, sessions: Addr<Sessions>, guard: ExitGuard<Child>) -> Self {
        Self { env, sessions, guard }
    }
}

impl Actor for Reaper {
    type Context = Context<Self>;

    /// After a failure that took the sessions with it, what they were at is taken up again. At the start of a process
    /// there is nothing of its own yet.
    fn started(&mut self, ctx: &mut Self::Context) {
        let (env, sessions) = (self.env.clone(), self.sessions.clone());
        let taken_up = async move {
            if let Err(error) = take_up_own(&env, &sessions).await {
                tracing::error!(%error, "what this process was at is not taken up again before it is asked for");
            }
        };
        ctx.spawn(taken_up.into_actor(self));
    }
}

async fn take_up_own(env: &Arc<Env>, sessions: &Addr<Sessions>) -> Result<(), SessionError> {
    for row in unfinished(env, |row| row.owner == env.owner).await? {
        let find = Find { session: row.id.clone(), load: Load::GoOn, purpose: Purpose::End };
        if let Ok(Err(error)) = sessions.send(find).await {
            tracing::error!(session = %row.id, %error, "the session is not taken up before it is asked for");
        }
    }
    Ok(())
}

impl Handler<Reap> for Reaper {
    type Result = ();

    fn handle(&mut self, reap: Reap, ctx: &mut Self::Context) {
        let (env, sessions) = (self.env.clone(), self.sessions.clone());
        let pass = async move {
            let _gone = reap.0.send(pass(&env, &sessions).await);
        };
        ctx.spawn(pass.into_actor(self));
    }
}

async fn pass(env: &Arc<Env>, sessions: &Addr<Sessions>) -> Result<Reaped, SessionError> {
    let mut reaped = Reaped::default();
    let free = env.owners.free().await;
    let mut waits = Vec::new();
    let unfinished = unfinished(env, |row| row.owner != env.owner && !env.owners.is_held(&row.owner, &free)).await?;
    last_words(env, &unfinished, &free).await?;
    for row in unfinished {
        let kind = free.get(&row.owner).copied();
        let load = match (env.kind, kind) {
            (OwnerKind::Serve, Some(OwnerKind::Serve)) => Load::GoOn,
            // Somebody may come back for a daemon's work within its grace; only its own kind goes on with it.
            (OwnerKind::Run, Some(OwnerKind::Serve)) => continue,
            _ => Load::Collect,
        };
        let last = last_task(env, &row.id).await?;
        let task = last.filter(|task| task.state != TaskState::Settled).map(|task| task.id);
        let session = match find(env, sessions, &row.id, load).await {
            Ok((session, Loading::Ours)) => session,
            // Whoever asked for it meanwhile goes on with it.
            Ok((_, Loading::Others)) => continue,
            // Another process was first.
            Err(SessionError::Foreign { .. }) => continue,
            Err(error) => return Err(error),
        };
        match (load, task) {
            (Load::Collect, Some(task)) => {
                reaped.collected += 1;
                let (reply, settled) = oneshot::channel();
                session.do_send(Wait { task, reply });
                waits.push((session, Some(settled)));
            }
            (Load::Collect, None) => {
                reaped.collected += 1;
                waits.push((session, None));
            }
            _ => {
                reaped.adopted += 1;
                // Its runtime has its place among the living before anything is started that was not there.
                let _rebuilt = session.send(Describe).await;
            }
        }
    }
    for (session, settled) in waits {
        if let Some(settled) = settled {
            // A session that fails meanwhile is rebuilt by its supervisor; its verdict comes then.
            let _rebuilt = settled.await;
        }
        let (reply, closed) = oneshot::channel();
        session.do_send(CloseSession { mode: CloseMode::Unused, reply });
        let _rebuilt = closed.await;
    }
    reaped.swept = sweep_unknown(env, &free).await?;
    // What a daemon left is taken over by a daemon, and its owner is known until then.
    let done = free.into_iter().filter(|(_, kind)| env.kind == OwnerKind::Serve || *kind == OwnerKind::Run).collect();
    env.owners.forget(&done).await;
    Ok(reaped)
}

/// Takes a session over. A command of a shell leaves it to the next one if another process is at taking over for long; a
/// daemon is the one that has to.
async fn find(
    env: &Env,
    sessions: &Addr<Sessions>,
    session: &SessionId,
    load: Load,
) -> Result<(Addr<Session>, Loading), SessionError> {
    loop {
        if env.is_draining() {
            return Err(SessionError::Draining);
        }
        let find = Find { session: session.clone(), load, purpose: Purpose::End };
        match sessions.send(find).await.unwrap_or(Err(SessionError::Interrupted)) {
            Err(SessionError::NotTakenOver(error @ LockError::Held)) if env.kind == OwnerKind::Serve => {
                tracing::warn!(%session, %error, "a session cannot be taken over; tried again");
            }
            found => return found,
        }
    }
}

/// Sessions of such owners with a task that is not settled, or a runtime that is not gone.
async fn unfinished(env: &Env, of: impl Fn(&SessionRow) -> bool) -> Result<Vec<SessionRow>, LedgerError> {
    let tasks = env.ledger.unsettled().await?;
    let runtimes = env.ledger.runtimes(None).await?;
    let with_task = tasks.iter().map(|task: &TaskRow| task.session.clone());
    let with_runtime = runtimes.iter().map(|runtime| runtime.row.session.clone());
    let ids: HashSet<_> = with_task.chain(with_runtime).collect();
    let mut rows = Vec::new();
    for id in ids {
        rows.extend(env.ledger.session(&id).await?.filter(&of));
    }
    Ok(rows)
}

/// The runtime of a session, if it has one that is not gone, and where it stands.
pub(super) async fn found_runtime(env: &Env, row: &SessionRow) -> Result<Option<FoundRuntime>, LedgerError> {
    let Some(state) = runtime_of(env, row).await? else { return Ok(None) };
    let origin = origin(env, state.clone()).await?;
    Ok(Some(FoundRuntime { row: state.row, origin }))
}

/// Keepers whose owner wants no grace are ending their agents by themselves: all get this time together.
async fn last_words(
    env: &Env,
    unfinished: &[SessionRow],
    free: &HashMap<OwnerId, OwnerKind>,
) -> Result<(), LedgerError> {
    let of_runs = |row: &&SessionRow| free.get(&row.owner) == Some(&OwnerKind::Run);
    let sessions: HashSet<_> = unfinished.iter().filter(of_runs).map(|row| &row.id).collect();
    let mut ending = env.ledger.runtimes(None).await?;
    ending.retain(|runtime| sessions.contains(&runtime.row.session));
    let until = clock::now() + LAST_WORD;
    loop {
        let mut living = Vec::new();
        for runtime in ending {
            living.extend(may_live(&runtime.row.folder).await.then_some(runtime));
        }
        ending = living;
        if ending.is_empty() || clock::now() >= until {
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn runtime_of(env: &Env, row: &SessionRow) -> Result<Option<RuntimeState>, LedgerError> {
    let runtimes = env.ledger.runtimes(None).await?;
    Ok(runtimes
        .into_iter()
        .filter(|runtime| runtime.row.session == row.id)
        .max_by_key(|runtime| runtime.row.created_ms))
}

async fn origin(env: &Env, state: RuntimeState) -> Result<Origin, LedgerError> {
    let outbox = env.ledger.outbox(&state.row.id).await?;
    Ok(match stands(&state.row, Start::Open).await {
        Ok(Standing::NeverStarted) => Origin::NeverStarted,
        Ok(Standing::Living(secret)) => Origin::Living { state, outbox, secret },
        Ok(Standing::LastWord(word)) => Origin::LastWord { state, word },
        Ok(Standing::Swept) => Origin::Gone { state, loss: Loss::Swept },
        Ok(Standing::Rebooted) => Origin::Gone { state, loss: Loss::Rebooted },
        Ok(Standing::Leaked) => Origin::Unseen { state, outbox },
        Err(error) => {
            tracing::warn!(runtime = %state.row.id, %error, "what is left of a runtime cannot be seen yet");
            Origin::Unseen { state, outbox }
        }
    })
}

/// A folder without an identity is a fence, or has not got its name yet.
fn is_young(folder: &Path) -> bool {
    let made = folder.metadata().and_then(|folder| folder.modified()).ok();
    made.and_then(|made| made.elapsed().ok()).is_some_and(|age| age < YOUNG)
}

/// Folders of which no row knows: their keepers never got a submission, or were let go already.
async fn sweep_unknown(env: &Env, free: &HashMap<OwnerId, OwnerKind>) -> Result<usize, LedgerError> {
    let known: HashSet<RuntimeId> = env.ledger.runtimes(None).await?.into_iter().map(|state| state.row.id).collect();
    let mut swept = 0;
    for boot in entries(&env.runs) {
        for folder in entries(&boot) {
            let id: Option<RuntimeId> = folder::runtime_of(&folder).and_then(|name| name.parse().ok());
            if id.is_none_or(|id| known.contains(&id)) {
                continue;
            }
            let identity = match Identity::read(&folder) {
                Ok(identity) => identity,
                Err(error) => {
                    tracing::warn!(%error, "a folder of which no row knows is left to the next start");
                    continue;
                }
            };
            let owner = identity.as_ref().and_then(|identity| identity.owner.parse::<OwnerId>().ok());
            let ours = owner.as_ref() == Some(&env.owner);
            if identity.is_none() && is_young(&folder) {
                continue;
            }
            if ours || owner.is_some_and(|owner| env.owners.is_held(&owner, free)) {
                continue;
            }
            swept += usize::from(sweep_folder(&folder, identity).await);
        }
        // That of this boot is where keepers of this very moment register.
        if boot.file_name().is_none_or(|name| name != clock::boot_id()) {
            let _in_use = std::fs::remove_dir(&boot);
        }
    }
    Ok(swept)
}

/// Whether it is gone, and whatever was in it.
async fn sweep_folder(path: &Path, identity: Option<Identity>) -> bool {
    if let Some(identity) = &identity {
        match sweep::sweep(Some(identity), &identity.runtime).await {
            Ok(Swept::Empty) => {}
            Ok(Swept::Left) => return false,
            Err(error) => {
                tracing::warn!(%error, "the processes of a folder of which no row knows are left to the next start");
                return false;
            }
        }
        if let Some(leaf) = &identity.leaf
            && let Err(error) = remove_leaf(leaf)
        {
            tracing::warn!(%error, "a leaf is left to the next start");
        }
    }
    match folder::remove(path) {
        Ok(()) => true,
        Err(error) => {
            tracing::warn!(%error, "a folder is left to the next start");
            false
        }
    }
}

fn entries(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_dir()).collect()
}
