//! `/healthz`, `/readyz` and `/metrics`, on loopback.

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};

use actix_web::{App, HttpResponse, HttpServer, web};
use ostler_supervisors::actors::{JournalState, TreeRow};
use ostler_supervisors::ledger::TaskState;
use prometheus::{Encoder, IntGauge, IntGaugeVec, Opts, Registry, TextEncoder};
use tokio::sync::watch;

use crate::door::{Door, Embedded};

/// How far the process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It takes over what earlier owners left, and nobody can ask it for anything yet.
    TakingOver,
    /// It listens.
    Listening,
}

/// Takes the address; port 0 takes a free one.
///
/// # Errors
///
/// If the address is not of this machine alone, or is taken by another program. No other is taken in its place.
pub fn listen(address: &str) -> io::Result<TcpListener> {
    let wanted = address.to_socket_addrs()?.next().ok_or(io::ErrorKind::InvalidInput)?;
    if !wanted.ip().is_loopback() {
        let text = "health and metrics have no authentication and are served on loopback only";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    TcpListener::bind(wanted).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => {
            let text = "another program listens there; choose another port, or 0 for a free one (--operations)";
            io::Error::new(error.kind(), text)
        }
        _ => error,
    })
}

/// Serves until the process ends; returns the address that was taken.
///
/// # Errors
///
/// If it cannot be served on this listener.
pub fn serve(listener: TcpListener, embedded: &Embedded, phase: watch::Receiver<Phase>) -> io::Result<SocketAddr> {
    let address = listener.local_addr()?;
    let (embedded, phase) = (web::Data::new(embedded.clone()), web::Data::new(phase));
    let server = HttpServer::new(move || {
        App::new()
            .app_data(embedded.clone())
            .app_data(phase.clone())
            .route("/healthz", web::get().to(health))
            .route("/readyz", web::get().to(ready))
            .route("/metrics", web::get().to(metrics))
    });
    let server = server.workers(1).disable_signals().listen(listener)?.run();
    tokio::task::spawn_local(async move {
        if let Err(error) = server.await {
            tracing::error!(%error, "health and metrics are not served any more");
        }
    });
    Ok(address)
}

/// The process lives.
async fn health() -> HttpResponse {
    HttpResponse::Ok().content_type("text/plain").body("ok\n")
}

/// It takes new work.
async fn ready(embedded: web::Data<Embedded>, phase: web::Data<watch::Receiver<Phase>>) -> HttpResponse {
    let why_not = match (embedded.system.is_up(), embedded.system.journal_state(), *phase.borrow()) {
        (true, JournalState::Writing, Phase::Listening) => {
            return HttpResponse::Ok().content_type("text/plain").body("ready\n");
        }
        (false, ..) => "the supervision tree is down".to_owned(),
        (_, JournalState::Stalled(why), _) => format!("ledger stalled: {why}"),
        (_, _, Phase::TakingOver) => "what earlier owners left is being taken over".to_owned(),
    };
    HttpResponse::ServiceUnavailable().content_type("text/plain").body(format!("{why_not}\n"))
}

async fn metrics(embedded: web::Data<Embedded>) -> HttpResponse {
    match render(&embedded).await {
        Ok(bytes) => HttpResponse::Ok().content_type("text/plain; version=0.0.4").body(bytes),
        Err(error) => {
            tracing::error!(%error, "the metrics could not be made");
            HttpResponse::InternalServerError().finish()
        }
    }
}

/// The tasks of this process that have no verdict yet. One that waits for an answer is told apart from one that works.
async fn tasks(embedded: &Embedded, rows: &[TreeRow]) -> Result<IntGaugeVec, prometheus::Error> {
    let tasks = IntGaugeVec::new(Opts::new("ostler_tasks", "Tasks without a verdict, by state"), &["state"])?;
    for state in TaskState::UNSETTLED {
        tasks.with_label_values(&[state.word()]).set(0);
    }
    let unsettled = embedded.system.ledger().unsettled().await;
    let unsettled = unsettled.map_err(|error| prometheus::Error::Msg(error.to_string()))?;
    for task in unsettled.iter().filter(|task| rows.iter().any(|row| row.task.as_ref() == Some(&task.id))) {
        tasks.with_label_values(&[task.state.word()]).inc();
    }
    Ok(tasks)
}

/// Since when it runs, how much of what may be started is, and whether the machine's memory holds the rest back.
async fn starts(embedded: &Embedded, registry: &Registry) -> Result<(), prometheus::Error> {
    let starts = embedded.system.starts().await.map_err(|error| prometheus::Error::Msg(error.to_string()))?;
    for (name, help, value) in [
        ("ostler_start_time_seconds", "When it was started, since the Unix epoch", (embedded.started_ms / 1000) as i64),
        ("ostler_runtimes", "Runtimes that have their place", starts.live as i64),
        ("ostler_runtimes_most", "Runtimes that may have one", starts.most as i64),
        ("ostler_starts_waiting", "Starts that wait", starts.waiting as i64),
        ("ostler_memory_short", "1 while nothing is started for lack of memory", i64::from(starts.short.is_some())),
    ] {
        let gauge = IntGauge::new(name, help)?;
        gauge.set(value);
        registry.register(Box::new(gauge))?;
    }
    Ok(())
}

async fn render(embedded: &Embedded) -> Result<Vec<u8>, prometheus::Error> {
    let registry = Registry::new();
    let sessions = IntGaugeVec::new(Opts::new("ostler_sessions", "Sessions that are loaded, by state"), &["state"])?;
    let stalled = IntGauge::new("ostler_ledger_stalled", "1 while the ledger cannot be written")?;
    registry.register(Box::new(sessions.clone()))?;
    registry.register(Box::new(stalled.clone()))?;
    for state in ["busy", "idle", "hibernated"] {
        sessions.with_label_values(&[state]).set(0);
    }
    let rows = embedded.tree().await.unwrap_or_default();
    for row in &rows {
        sessions.with_label_values(&[&row.state]).inc();
    }
    registry.register(Box::new(tasks(embedded, &rows).await?))?;
    starts(embedded, &registry).await?;
    stalled.set(i64::from(embedded.system.journal_state() != JournalState::Writing));
    let mut bytes = Vec::new();
    TextEncoder::new().encode(&registry.gather(), &mut bytes)?;
    Ok(bytes)
}
