//! `ostler serve`: the daemon. Exclusive for its store; its agents outlive it.

use std::fs::File;
use std::path::Path;

use clap::Args;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use ostler_supervisors::actors::OwnerKind;
use ostler_supervisors::contract::CancelCause;

use super::signals::{Signal, signals};
use crate::config::{Settings, Surroundings};
use crate::door::{self, Embedded, EmbeddedOptions};
use crate::error::{Failure, Kind};
use crate::{operations, orphans};

#[derive(Debug, Args)]
pub(super) struct Serve {
    /// Where /healthz, /readyz and /metrics are served; loopback only
    #[arg(long, value_name = "ADDRESS")]
    operations: Option<String>,
}

pub(super) async fn serve(serve: Serve, settings: &Settings, around: &Surroundings) -> Result<u8, Failure> {
    let mut signals = signals()?;
    settings.make_state()?;
    let _exclusive = lock(&settings.serve_lock())?;
    // What a killed keeper leaves comes here, and is reaped.
    if let Err(error) = orphans::adopt() {
        tracing::warn!(%error, "orphans of a killed keeper go to the init process");
    }
    let failed = |what: &str, error: std::io::Error| Failure::new(Kind::Configuration, format!("{what}: {error}"));
    // Before anything is taken over: who cannot be asked how it does is not started.
    let address = serve.operations.unwrap_or_else(|| settings.operations.clone());
    let operations = operations::listen(&address).map_err(|error| failed(&address, error))?;
    let options = EmbeddedOptions { kind: OwnerKind::Serve, open_files: raise_open_files() };
    let embedded = Embedded::start(settings, options).await?;
    let reaped = embedded.system.reap().await?;
    let socket = settings.socket();
    door::serve(&socket, embedded.clone()).map_err(|error| failed(&socket.display().to_string(), error))?;
    let operations = operations::serve(operations, &embedded).map_err(|error| failed(&address, error))?;
    eprintln!("ostler: listening on {} and http://{operations}", socket.display());
    if reaped.adopted + reaped.collected + reaped.swept > 0 {
        let (adopted, collected, swept) = (reaped.adopted, reaped.collected, reaped.swept);
        eprintln!("ostler: {adopted} sessions go on, {collected} were ended and judged, {swept} leftovers swept");
    }
    loop {
        match signals.recv().await {
            Some(Signal::HangUp) => eprintln!("ostler: {}", read_again(&embedded, around)),
            Some(Signal::Leave) => {
                embedded.system.flush().await?;
                eprintln!("ostler: leaving; the agents go on for {} s", settings.orphan_grace.as_secs());
                return Ok(0);
            }
            Some(Signal::Interrupt | Signal::Terminate) | None => break,
        }
    }
    eprintln!("ostler: closing everything");
    embedded.leave(CancelCause::Shutdown).await?;
    // Nobody else listens there: the lock is ours.
    let _gone = std::fs::remove_file(&socket);
    Ok(0)
}

/// A daemon has a few descriptors for each runtime, and one that has none left can neither adopt nor judge. What the limit
/// was before is for agents; `None` if they get this process's own.
fn raise_open_files() -> Option<u64> {
    let raised = getrlimit(Resource::RLIMIT_NOFILE).and_then(|(soft, hard)| {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
        Ok(soft)
    });
    raised.inspect_err(|error| tracing::warn!(%error, "the limit of open files stays as it is")).ok()
}

/// As a service, HUP means a new configuration. A wrong one changes nothing.
fn read_again(embedded: &Embedded, around: &Surroundings) -> String {
    let replaced = Settings::load(around)
        .map_err(Failure::from)
        .and_then(|settings| Ok(embedded.system.replace_harnesses(settings.build()?)?))
        .map(|()| "the configuration was read again; its harnesses are in force, everything else at the next start");
    match replaced {
        Ok(text) => text.to_owned(),
        Err(failure) => format!("the configuration stays as it was: {failure}"),
    }
}

fn lock(path: &Path) -> Result<File, Failure> {
    let failed = |error: std::io::Error| Failure::new(Kind::StoreUnavailable, format!("{}: {error}", path.display()));
    let file = File::options().create(true).write(true).truncate(false).open(path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(_) => {
            let text = format!("another `ostler serve` has this store: {}", path.display());
            Err(Failure::new(Kind::InvalidState, text))
        }
    }
}
