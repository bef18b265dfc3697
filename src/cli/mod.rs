//! The shell: one file per verb.

mod colour;
mod config;
mod demo;
mod doctor;
mod events;
mod harness;
mod manual;
mod printer;
mod progress;
mod route;
mod run;
mod serve;
mod session;
mod signals;
mod table;
mod task;
mod tree;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use serde::Serialize;
use serde_json::json;

use crate::config::{FileState, Settings, Surroundings};
use crate::error::{Failure, Kind};

/// Starts agents, speaks to them, watches them, stops them, and tells the truth about how each piece of work ended.
#[derive(Debug, Parser)]
#[command(name = "ostler", version, about, propagate_version = true, arg_required_else_help = true, after_help = EXIT_CODES)]
struct Arguments {
    /// The one configuration file to read, else $OSTLER_CONFIG; without either, the system's, the user's and the
    /// project's are read
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Sets a key of the configuration, such as limits.start_concurrency=8
    #[arg(long, global = true, value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// What is logged to standard error: error, warn, info, debug, or a filter of tracing
    #[arg(long, global = true, env = "OSTLER_LOG", default_value = "error", value_name = "LEVEL", value_parser = log_filter)]
    log: String,

    /// Whether there is colour: on a terminal without $NO_COLOR, always, or never
    #[arg(long, global = true, default_value = "auto", value_name = "WHEN")]
    color: clap::ColorChoice,

    #[command(subcommand)]
    verb: Verb,
}

const EXIT_CODES: &str = "\
Exit codes: 0 completed, 1 failed, 2 wrong usage, 3 no agent was given the task, 4 unresolved, 5 stopped by a limit, \
130 cancelled.";

#[derive(Debug, Subcommand)]
enum Verb {
    /// Delegates one task to an agent and waits for its verdict
    Run(run::Run),
    /// Runs the daemon
    Serve(serve::Serve),
    /// Shows sessions, tasks and processes
    #[command(alias = "ps")]
    Tree(tree::Tree),
    /// Lists, shows, cancels, answers and awaits tasks
    #[command(subcommand)]
    Task(task::TaskVerb),
    /// Lists, shows and closes sessions
    #[command(subcommand)]
    Session(session::SessionVerb),
    /// Prints a session's events as JSON lines
    Events(events::EventsVerb),
    /// Twelve agents that work, ask, hang, crash and leak, and what becomes of them
    Demo(demo::Demo),
    /// Lists and shows harnesses
    #[command(subcommand)]
    Harness(harness::HarnessVerb),
    /// Checks this machine and the configuration
    Doctor(doctor::Doctor),
    /// Checks and shows the configuration
    #[command(subcommand)]
    Config(config::ConfigVerb),
    /// Prints a completion script
    Completions(manual::Completions),
    /// Prints the manual page
    Man(manual::Man),
}

/// Runs a command line; the process's whole life.
pub fn main() -> ExitCode {
    let matches = Arguments::command().get_matches();
    let style = ErrorStyle::of(&matches);
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    colour::choose(arguments.color);
    log_to_stderr(&arguments.log);
    let system = actix::System::new();
    match system.block_on(dispatch(arguments)) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            // Whoever closed it knows, and has what he wanted.
            if failure.kind != Kind::OutputClosed {
                eprintln!("ostler: {}", table::plain(&failure.to_string()));
                // One whose output is closed hears it no more.
                let _said = style.say(&failure);
            }
            ExitCode::from(failure.kind.codes().exit)
        }
    }
}

/// What a failure prints on standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ErrorStyle {
    /// Nothing: the words go to standard error alone.
    Words,
    /// One object, since a program reads the output.
    Json,
}

impl ErrorStyle {
    /// Of the innermost verb: each has its own `--json`.
    fn of(matches: &ArgMatches) -> Self {
        match matches.subcommand() {
            // What is wrong is what it prints, in an object of its own.
            Some(("config", inner)) if inner.subcommand_name() == Some("check") => Self::Words,
            Some((_, inner)) => Self::of(inner),
            None if matches!(matches.try_get_one::<bool>("json"), Ok(Some(true))) => Self::Json,
            None => Self::Words,
        }
    }

    fn say(self, failure: &Failure) -> Result<(), Failure> {
        if self == Self::Words {
            return Ok(());
        }
        let (reason, retry) = failure.refusal.map(|refusal| (refusal.reason, refusal.retry_after_ms)).unzip();
        print_json(&json!({ "error": {
            "code": failure.kind, "message": failure.message, "reason": reason, "retry_after_ms": retry,
        } }))
    }
}

async fn dispatch(arguments: Arguments) -> Result<u8, Failure> {
    let around = Surroundings::of_process(arguments.config, arguments.set);
    match &arguments.verb {
        Verb::Config(verb) => return config::config(verb, &around),
        Verb::Completions(asked) => return manual::completions(asked),
        Verb::Man(asked) => return manual::man(asked),
        _ => {}
    }
    let settings = Settings::load(&around)?;
    for file in settings.files.iter().filter(|file| file.state == FileState::Foreign) {
        eprintln!("ostler: {} is not read: it belongs to another user", table::plain(&file.path.display().to_string()));
    }
    match arguments.verb {
        Verb::Run(run) => run::run(run, &settings).await,
        Verb::Serve(serve) => serve::serve(serve, &settings, &around).await,
        Verb::Tree(tree) => tree::tree(tree, &settings).await,
        Verb::Task(verb) => task::task(verb, &settings).await,
        Verb::Session(verb) => session::session(verb, &settings).await,
        Verb::Events(verb) => events::events(verb, &settings).await,
        Verb::Harness(verb) => harness::harness(verb, &settings).await,
        Verb::Demo(demo) => demo::demo(demo, &settings).await,
        Verb::Doctor(doctor) => doctor::doctor(doctor, &settings).await,
        Verb::Config(_) | Verb::Completions(_) | Verb::Man(_) => Ok(0),
    }
}

fn log_to_stderr(filter: &str) {
    let filter = tracing_subscriber::EnvFilter::try_new(filter).unwrap_or_else(|_| "error".into());
    let ansi = colour::wanted(&std::io::stderr());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(ansi).init();
}

/// Prints one JSON value on standard output.
fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Failure::new(Kind::Internal, error.to_string()))?;
    print_line(&text)
}

/// Prints a line; a reader that is gone is no failure of ours to print, but ends the command.
fn print_line(line: &str) -> Result<(), Failure> {
    use std::io::Write;
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}").and_then(|()| stdout.flush()).map_err(output_closed)
}

fn output_closed(error: std::io::Error) -> Failure {
    match error.kind() {
        std::io::ErrorKind::BrokenPipe => Failure::new(Kind::OutputClosed, "standard output is closed"),
        _ => Failure::new(Kind::OutputFailed, format!("standard output cannot be written: {error}")),
    }
}

/// A filter of tracing, or the mistake in it. A word without a level would be the name of a part of the program, of
/// which a user knows none: it is a mistake as well.
fn log_filter(text: &str) -> Result<String, String> {
    let is_level = |word: &str| word.parse::<tracing_subscriber::filter::LevelFilter>().is_ok();
    match text.split(',').map(str::trim).find(|part| !part.contains(['=', '[']) && !is_level(part)) {
        Some(word) => Err(format!("{word:?} is no level: error, warn, info, debug, trace or off")),
        None => {
            tracing_subscriber::EnvFilter::try_new(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
        }
    }
}
