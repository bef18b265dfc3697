//! `ostler serve`: the daemon. Exclusive for its store; its agents outlive it.

use std::fs::File;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use clap::Args;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use ostler_supervisors::actors::{JournalState, OwnerKind, Reaped};
use ostler_supervisors::contract::CancelCause;
use tokio::sync::{mpsc, watch};

use super::signals::{Signal, signals};
use crate::config::{Settings, Surroundings};
use crate::door::{self, Embedded, EmbeddedOptions};
use crate::error::{Failure, Kind};
use crate::operations::{self, Phase};
use crate::orphans;

#[derive(Debug, Args)]
pub(super) struct Serve {
    /// Where /healthz, /readyz and /metrics are served; loopback only
    #[arg(long, value_name = "ADDRESS")]
    operations: Option<String>,
}

/// How long taking over and storing may take before something is said, or done without them.
const PATIENCE: Duration = Duration::from_secs(5);

/// How the daemon ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// With everything that runs.
    Close,
    /// Alone: the agents go on.
    Leave,
}

pub(super) async fn serve(serve: Serve, settings: &Settings, around: &Surroundings) -> Result<u8, Failure> {
    let mut signals = signals()?;
    settings.make_state()?;
    let _exclusive = lock(&settings.serve_lock())?;
    // What a killed keeper leaves comes here, and is reaped.
    if let Err(error) = orphans::adopt() {
        tracing::warn!(%error, "orphans of a killed keeper go to the init process");
    }
    // Before anything is taken over: who cannot be asked how it does is not started.
    let address = serve.operations.unwrap_or_else(|| settings.operations.clone());
    let listener = operations::listen(&address).map_err(|error| failed(&address, &error))?;
    let options = EmbeddedOptions { kind: OwnerKind::Serve, open_files: raise_open_files() };
    let embedded = tokio::select! {
        embedded = Embedded::start(settings, options) => embedded?,
        // Nothing was started yet that would have to be ended.
        _ = ended(&mut signals, || {}) => return Ok(0),
    };
    let (phase, seen) = watch::channel(Phase::TakingOver);
    let operations = operations::serve(listener, &embedded, seen).map_err(|error| failed(&address, &error))?;
    let mut daemon = Daemon { embedded, settings, around, signals };
    let end = match daemon.take_over(operations).await? {
        ControlFlow::Break(end) => end,
        ControlFlow::Continue(reaped) => {
            daemon.listen(operations, reaped)?;
            phase.send_replace(Phase::Listening);
            daemon.ended().await
        }
    };
    match end {
        End::Leave => daemon.leave().await,
        End::Close => daemon.close().await,
    }
}

/// Waits until the daemon is to end.
async fn ended(signals: &mut mpsc::Receiver<Signal>, hung_up: impl Fn()) -> End {
    loop {
        match signals.recv().await {
            Some(Signal::HangUp) => hung_up(),
            Some(Signal::Leave) => return End::Leave,
            Some(Signal::Interrupt | Signal::Terminate) | None => return End::Close,
        }
    }
}

/// A daemon hears signals whatever it waits for.
struct Daemon<'a> {
    embedded: Embedded,
    settings: &'a Settings,
    around: &'a Surroundings,
    signals: mpsc::Receiver<Signal>,
}

impl Daemon<'_> {
    async fn ended(&mut self) -> End {
        let (embedded, around) = (&self.embedded, self.around);
        ended(&mut self.signals, || eprintln!("ostler: {}", read_again(embedded, around))).await
    }

    /// Adopts and judges what earlier owners left, however long the ledger takes, unless it is to end before.
    async fn take_over(&mut self, operations: SocketAddr) -> Result<ControlFlow<End, Reaped>, Failure> {
        let system = self.embedded.system.clone();
        let mut reaping = pin!(system.reap());
        let late = async {
            tokio::time::sleep(PATIENCE).await;
            let why = match system.journal_state() {
                JournalState::Stalled(why) => format!(": {why}"),
                JournalState::Writing => String::new(),
            };
            eprintln!(
                "ostler: what earlier owners left is still being taken over{why}; see http://{operations}/readyz"
            );
            std::future::pending().await
        };
        let end = tokio::select! {
            reaped = &mut reaping => return Ok(ControlFlow::Continue(reaped?)),
            end = self.ended() => end,
            never = late => never,
        };
        if end == End::Close {
            // What was being taken over is closed as well.
            tokio::select! {
                reaped = tokio::time::timeout(PATIENCE, reaping) => match reaped {
                    Ok(reaped) => drop(reaped?),
                    Err(_) => eprintln!("ostler: what was not taken over yet is left to its keepers"),
                },
                end = self.ended() => return Ok(ControlFlow::Break(end)),
            }
        }
        Ok(ControlFlow::Break(end))
    }

    fn listen(&self, operations: SocketAddr, reaped: Reaped) -> Result<(), Failure> {
        let socket = self.settings.socket();
        let shown = socket.display();
        door::serve(&socket, self.embedded.clone()).map_err(|error| failed(&shown.to_string(), &error))?;
        eprintln!("ostler: listening on {shown} and http://{operations}");
        let Reaped { adopted, collected, swept } = reaped;
        if adopted + collected + swept > 0 {
            eprintln!("ostler: {adopted} sessions go on, {collected} were ended and judged, {swept} leftovers swept");
        }
        Ok(())
    }

    /// Leaves the agents to their keepers. What is not stored by then is with them, and the next daemon reads it again.
    async fn leave(mut self) -> Result<u8, Failure> {
        eprintln!("ostler: leaving; the agents go on for {} s", self.settings.orphan_grace.as_secs());
        let system = self.embedded.system.clone();
        let end = tokio::select! {
            flushed = system.flush() => return Ok(flushed.map(|()| 0)?),
            end = self.ended() => end,
        };
        match end {
            End::Leave => Ok(0),
            End::Close => self.close().await,
        }
    }

    /// Takes no longer than the harnesses' deadlines, and a few seconds.
    async fn close(self) -> Result<u8, Failure> {
        eprintln!("ostler: closing everything");
        self.embedded.leave(CancelCause::Shutdown).await?;
        // Nobody else listens there: the lock is ours.
        let _gone = std::fs::remove_file(self.settings.socket());
        Ok(0)
    }
}

fn failed(what: &str, error: &std::io::Error) -> Failure {
    Failure::new(Kind::Configuration, format!("{what}: {error}"))
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
