//! Which process a verb speaks to: the daemon where one runs, the owner of what is meant, or itself.

use std::time::Duration;

use ostler_supervisors::contract::{CancelCause, SessionId, TaskId};
use ostler_supervisors::owners::{self, Owners};

use super::table::plain;
use crate::config::Settings;
use crate::door::{Door, Embedded, EmbeddedOptions, Remote};
use crate::error::{Failure, Kind};

/// How long a ledger that cannot be written is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a verb is after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wants {
    /// What is stored, if need be as it was left.
    Reading,
    /// That something is done.
    Doing,
}

/// A tree to ask, and what has to be done with it afterwards.
pub(super) enum Route {
    /// In this process.
    Own(Embedded),
    /// In this process, which cannot take care of what was left behind: for readers, and let alone afterwards.
    AsLeft(Embedded),
    /// In another one.
    Other(Remote),
}

impl Route {
    /// Ends what is ours, and leaves nothing behind.
    pub(super) async fn leave(self) -> Result<(), Failure> {
        match self {
            Self::Own(embedded) => embedded.leave(CancelCause::ConsumerCancelled).await,
            Self::AsLeft(_) | Self::Other(_) => Ok(()),
        }
    }

    /// Asks, and leaves nothing behind, whatever the answer is.
    pub(super) async fn ask<T>(self, asked: impl AsyncFnOnce(&dyn Door) -> Result<T, Failure>) -> Result<T, Failure> {
        let answer = asked(self.door()).await;
        match (answer, self.leave().await) {
            (Err(failure), _) | (Ok(_), Err(failure)) => Err(failure),
            (Ok(answer), Ok(())) => Ok(answer),
        }
    }

    pub(super) fn door(&self) -> &dyn Door {
        match self {
            Self::Own(embedded) | Self::AsLeft(embedded) => embedded,
            Self::Other(remote) => remote,
        }
    }

    fn embedded(&self) -> Option<&Embedded> {
        match self {
            Self::Own(embedded) | Self::AsLeft(embedded) => Some(embedded),
            Self::Other(_) => None,
        }
    }
}

/// The daemon, or a tree of our own after everything that was left behind is taken care of.
async fn any(settings: &Settings, wants: Wants) -> Result<Route, Failure> {
    if let Some(remote) = Remote::daemon(&settings.socket(), &settings.serve_lock()).await {
        return Ok(Route::Other(remote));
    }
    let embedded = Embedded::start(settings, EmbeddedOptions::RUN).await?;
    match (reap(&embedded).await, wants) {
        (Ok(()), _) => Ok(Route::Own(embedded)),
        (Err(failure), Wants::Reading) if failure.kind == Kind::StoreUnavailable => {
            eprintln!("ostler: {}; shown is what is stored", plain(&failure.message));
            Ok(Route::AsLeft(embedded))
        }
        (Err(failure), _) => Err(failure),
    }
}

/// Takes care of what was left behind, as long as the ledger can be written.
async fn reap(embedded: &Embedded) -> Result<(), Failure> {
    tokio::select! {
        reaped = embedded.system.reap() => Ok(reaped.map(drop)?),
        why = embedded.system.stalled(PATIENCE) => {
            let text = format!("what was left behind cannot be taken care of: {why}");
            Err(Failure::new(Kind::StoreUnavailable, text))
        }
    }
}

/// The process that owns a session.
pub(super) async fn session(settings: &Settings, id: &SessionId, wants: Wants) -> Result<Route, Failure> {
    let route = any(settings, wants).await?;
    let Some(embedded) = route.embedded() else { return Ok(route) };
    let row = match embedded.system.ledger().session(id).await {
        Ok(Some(row)) => row,
        missing => {
            route.leave().await?;
            return missing.map_err(Failure::from).and(Err(unknown("session", id.as_str())));
        }
    };
    if row.owner == embedded.owner || !owners::living(&settings.owners()).contains(&row.owner) {
        return Ok(route);
    }
    match Remote::connect(&Owners::socket(&settings.owners(), &row.owner)).await {
        Some(remote) => {
            route.leave().await?;
            Ok(Route::Other(remote))
        }
        None => Ok(route),
    }
}

/// The process that owns a task.
pub(super) async fn task(settings: &Settings, id: &TaskId) -> Result<Route, Failure> {
    let store = any(settings, Wants::Doing).await?;
    let Some(embedded) = store.embedded() else { return Ok(store) };
    let row = embedded.system.ledger().task(id).await;
    store.leave().await?;
    let row = row?.ok_or_else(|| unknown("task", id.as_str()))?;
    session(settings, &row.session, Wants::Doing).await
}

fn unknown(what: &str, id: &str) -> Failure {
    Failure::new(Kind::NotFound, format!("{what} {id} is not known; `ostler {what} list` shows those that are"))
}

/// The ledger, for verbs that only read: opened on its own, so that no daemon is needed and none is disturbed.
pub(super) async fn ledger(settings: &Settings) -> Result<crate::ledger::SqliteLedger, Failure> {
    let path = settings.ledger_path();
    if !path.exists() {
        let text = format!("nothing was run yet: there is no ledger at {}", path.display());
        return Err(Failure::new(Kind::NotFound, text));
    }
    Ok(crate::ledger::SqliteLedger::open(crate::ledger::SqliteOptions::new(path)).await?)
}

/// Takes care of what was left behind, if no daemon does; so that what is shown is true. Where that cannot be done, it is
/// said.
pub(super) async fn settle_leftovers(settings: &Settings) -> Result<(), Failure> {
    if settings.ledger_path().exists() {
        any(settings, Wants::Reading).await?.leave().await?;
    }
    Ok(())
}
