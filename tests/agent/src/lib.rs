//! The scripted agent: a double that obeys its prompt.
//!
//! Every prompt is a script, one step a line (or separated by `;;`). A prompt whose first word is no step is
//! answered with `You said: …`. So a test, a demonstration or a person writes what the agent does where the task is
//! written, and nothing is configured elsewhere.
//!
//! ```text
//! ostler-agent lines [--json] [--prompt-on-stdin] [PROMPT]   one task, then exit
//! ostler-agent acp                                           an ACP agent on stdin and stdout
//! ostler-agent app-server                                    an app-server, as Codex has it
//! ostler-agent child KIND [ARGUMENT]                         plays a child (see below)
//! ```
//!
//! | step | what it does |
//! |---|---|
//! | `say TEXT` | one message fragment |
//! | `stream N BYTES [MS]` | N fragments of this size, this far apart |
//! | `think TEXT` | a thought |
//! | `tool COMMAND` | a tool call that really runs `sh -c COMMAND` and waits for it |
//! | `tool-left COMMAND` | a tool call that starts the command in a session of its own and does not wait |
//! | `ask TEXT` | a permission request; declined ends the step, allowed says `allowed` |
//! | `ask-foreign TEXT` | the same with option ids that tell nothing |
//! | `ask-twice TEXT` | two requests open at once |
//! | `ask-unknown TEXT` | a request of a kind no client knows |
//! | `ask-left TEXT` | a permission request whose answer is not waited for |
//! | `spawn KIND [ARGUMENT]` | a child of that kind |
//! | `sleep MS`, `hang` | waits; a cancel ends the wait |
//! | `ignore-cancel` | from here on a cancel has no effect |
//! | `late-cancel MS` | from here on a cancel is answered this much later |
//! | `noise TEXT` | a line on stdout that is not of the protocol |
//! | `half TEXT` | the same without an end of line |
//! | `hex DIGITS` | these raw bytes on stdout |
//! | `long-line BYTES` | one line of this length |
//! | `flood N` | N short message fragments as fast as they go |
//! | `babble N` | the same, but every other one is thought instead of said |
//! | `stderr BYTES` | this much on stderr |
//! | `touch PATH` | writes a file |
//! | `close-stdout`, `close-stdin` | closes it |
//! | `exit CODE` | exits without a report |
//! | `crash SIGNAL` | ends itself by this signal's number |
//! | `end REASON` | ends the turn with this stop reason |
//! | `read-nothing` | never reads its input again |
//!
//! Kinds of child: `sleep`, `ignore-term`, `setsid`, `late-setsid` (a tenth of a second after its birth),
//! `double-fork`, `env-i`, `hold-pipes`, `leader-thread`, `fork-loop`, `exec-loop`, `stopped`, `niced`, `nohup`, `spin`,
//! `heartbeat PATH` (rewrites the file every 20 ms, deaf to SIGTERM, in a session of its own), `quiet-server` (ignores
//! the end of its input).
//!
//! Environment: `OSTLER_AGENT_LOG` names a file to which one line per prompt received is appended;
//! `OSTLER_AGENT_START` is a script obeyed before anything is read; `OSTLER_AGENT_HISTORY` names a folder in which
//! sessions are kept, so that they can be loaded again.

mod acp;
mod app_server;
mod child;
mod lines;
mod perform;
mod script;
mod wire;

use std::io::Write;
use std::process::ExitCode;

/// Plays the agent; the arguments are those after the program's name.
pub fn main(arguments: Vec<String>) -> ExitCode {
    let mut arguments = arguments.into_iter();
    match arguments.next().as_deref() {
        Some("lines") => lines::run(arguments.collect()),
        Some("acp") => acp::run(),
        Some("app-server") => app_server::run(),
        Some("child") => child::play(&arguments.collect::<Vec<_>>()),
        Some("--version") => {
            println!("ostler-agent {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("usage: ostler-agent lines|acp|app-server|child|--version");
            ExitCode::from(2)
        }
    }
}

/// Appends one line about a prompt to the agent's own log: the count that no Ostler bookkeeping can change.
fn log_prompt(prompt: &str) {
    let Some(path) = std::env::var_os("OSTLER_AGENT_LOG") else { return };
    let line = format!("{} {}\n", std::process::id(), prompt.replace('\n', " ;; "));
    let appended =
        std::fs::File::options().create(true).append(true).open(path).map(|mut file| file.write_all(line.as_bytes()));
    if appended.is_err() {
        eprintln!("ostler-agent: the log cannot be written");
    }
}
