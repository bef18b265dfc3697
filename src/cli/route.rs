//! Which process a verb speaks to: the daemon where one runs, the owner of what is meant, or itself.

use ostler_supervisors::contract::{CancelCause, SessionId, TaskId};
use ostler_supervisors::owners::{self, Owners};

use crate::config::Settings;
use crate::door::{Door, Embedded, EmbeddedOptions, Remote};
use crate::error::{Failure, Kind};

/// A tree to ask, and what has to be done with it afterwards.
pub(super) enum Route {
    /// In this process.
    Own(Embedded),
    /// In another one.
    Other(Remote),
}

impl Route {
    /// Ends what is ours, and leaves nothing behind.
    pub(super) async fn leave(self) -> Result<(), Failure> {
        match self {
            Self::Own(embedded) => embedded.leave(CancelCause::ConsumerCancelled).await,
            Self::Other(_) => Ok(()),
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
            Self::Own(embedded) => embedded,
            Self::Other(remote) => remote,
        }
    }
}

/// The daemon, or a tree of our own after everything that was left behind is taken care of.
pub(super) async fn any(settings: &Settings) -> Result<Route, Failure> {
    if let Some(remote) = Remote::daemon(&settings.socket(), &settings.serve_lock()).await {
        return Ok(Route::Other(remote));
    }
    let embedded = Embedded::start(settings, EmbeddedOptions::RUN).await?;
    embedded.system.reap().await?;
    Ok(Route::Own(embedded))
}

/// The process that owns a session.
pub(super) async fn session(settings: &Settings, id: &SessionId) -> Result<Route, Failure> {
    let route = any(settings).await?;
    let Route::Own(embedded) = &route else { return Ok(route) };
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
    let store = any(settings).await?;
    let Route::Own(embedded) = &store else { return Ok(store) };
    let row = embedded.system.ledger().task(id).await;
    store.leave().await?;
    let row = row?.ok_or_else(|| unknown("task", id.as_str()))?;
    session(settings, &row.session).await
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

/// Takes care of what was left behind, if no daemon does; so that what is shown is true.
pub(super) async fn settle_leftovers(settings: &Settings) -> Result<(), Failure> {
    if settings.ledger_path().exists() {
        any(settings).await?.leave().await?;
    }
    Ok(())
}
