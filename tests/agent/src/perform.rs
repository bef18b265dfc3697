//! Steps carried out, whatever the protocol.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, raise};

use crate::child;
use crate::script::{AskKind, Step};

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TurnEnd {
    Finished,
    Cancelled,
    Reason(String),
}

/// The protocol's side of a turn.
pub(crate) trait Voice {
    fn say(&mut self, text: &str);
    fn think(&mut self, text: &str);
    fn tool_started(&mut self, id: &str, command: &str);
    fn tool_ended(&mut self, id: &str, output: &str, code: Option<i32>);
    /// Asks; one answer per request opened. `true` means allowed.
    fn ask(&mut self, kind: AskKind, text: &str) -> Vec<bool>;
    /// Asks, and goes on without an answer.
    fn ask_left(&mut self, text: &str);
    /// Bytes outside the protocol.
    fn raw(&mut self, bytes: &[u8]);
    fn close_stdout(&mut self);
    /// The largest line the protocol can carry as one frame, with this many bytes of text in it.
    fn long_line(&mut self, bytes: usize) {
        self.say(&"x".repeat(bytes));
    }
}

/// Whether a turn was cancelled, and how it takes that.
#[derive(Debug, Default)]
pub(crate) struct Cancel {
    state: Mutex<CancelState>,
    changed: Condvar,
}

#[derive(Debug, Default, Clone, Copy)]
struct CancelState {
    requested: bool,
    ignored: bool,
    late: Duration,
}

impl Cancel {
    fn lock(&self) -> MutexGuard<'_, CancelState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn request(&self) {
        self.lock().requested = true;
        self.changed.notify_all();
    }

    /// Waits, unless a cancel that is heeded comes first.
    fn wait(&self, time: Duration) -> Result<(), TurnEnd> {
        let until = Instant::now() + time;
        let mut state = self.lock();
        loop {
            if state.requested && !state.ignored {
                let late = state.late;
                drop(state);
                std::thread::sleep(late);
                return Err(TurnEnd::Cancelled);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Carries out a script.
pub(crate) fn perform(steps: &[Step], voice: &mut dyn Voice, cancel: &Arc<Cancel>) -> TurnEnd {
    for (index, step) in steps.iter().enumerate() {
        let done = cancel.wait(Duration::ZERO).and_then(|()| perform_step(index, step, voice, cancel));
        if let Err(end) = done {
            return end;
        }
    }
    TurnEnd::Finished
}

fn perform_step(index: usize, step: &Step, voice: &mut dyn Voice, cancel: &Arc<Cancel>) -> Result<(), TurnEnd> {
    match step {
        Step::Say(text) => voice.say(text),
        Step::Stream { count, bytes, pause } => {
            for piece in 0..*count {
                voice.say(&fragment(piece, *bytes));
                cancel.wait(*pause)?;
            }
        }
        Step::Think(text) => voice.think(text),
        Step::Tool(command) => tool(index, command, voice, cancel)?,
        Step::ToolLeft(command) => tool_left(index, command, voice),
        Step::Ask(kind, text) => ask(*kind, text, voice),
        Step::AskLeft(text) => voice.ask_left(text),
        Step::Spawn(arguments) => child::spawn(arguments),
        Step::Sleep(time) => cancel.wait(*time)?,
        Step::IgnoreCancel => cancel.lock().ignored = true,
        Step::LateCancel(time) => cancel.lock().late = *time,
        Step::Raw(bytes) => voice.raw(bytes),
        Step::LongLine(bytes) => voice.long_line(*bytes),
        Step::Flood(count) => (0..*count).for_each(|piece| voice.say(&fragment(piece, 8))),
        Step::Babble(count) => (0..*count).for_each(|piece| match piece % 2 {
            0 => voice.say(&fragment(piece, 8)),
            _ => voice.think(&fragment(piece, 8)),
        }),
        Step::Stderr(bytes) => write_stderr(*bytes),
        Step::Touch(path) => std::fs::write(path, "touched").map_err(|e| TurnEnd::Reason(e.to_string()))?,
        Step::CloseStdout => voice.close_stdout(),
        Step::CloseStdin | Step::ReadNothing => {}
        Step::Exit(code) => std::process::exit((*code).into()),
        Step::Crash(signal) => crash(*signal),
        Step::End(reason) => return Err(TurnEnd::Reason(reason.clone())),
    }
    Ok(())
}

fn fragment(piece: usize, bytes: usize) -> String {
    format!("{piece:07} {}", "x".repeat(bytes.saturating_sub(8)))
}

fn ask(kind: AskKind, text: &str, voice: &mut dyn Voice) {
    for allowed in voice.ask(kind, text) {
        voice.say(if allowed { "allowed " } else { "declined " });
    }
}

fn shell(command: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).stdin(Stdio::null()).stderr(Stdio::null());
    shell
}

/// A tool of a kind agent: it ends with the turn.
fn tool(index: usize, command: &str, voice: &mut dyn Voice, cancel: &Arc<Cancel>) -> Result<(), TurnEnd> {
    let id = format!("call-{index}");
    voice.tool_started(&id, command);
    let spawned = shell(command).stdout(Stdio::piped()).process_group(0).spawn();
    let Ok(mut process) = spawned else {
        voice.tool_ended(&id, "", None);
        return Ok(());
    };
    loop {
        match process.try_wait() {
            Ok(None) => {
                if let Err(end) = cancel.wait(Duration::from_millis(5)) {
                    let group = nix::unistd::Pid::from_raw(process.id() as i32);
                    let _gone = nix::sys::signal::killpg(group, Signal::SIGKILL);
                    let _reaped = process.wait();
                    return Err(end);
                }
            }
            Ok(Some(status)) => {
                let output = process.wait_with_output().map(|o| o.stdout).unwrap_or_default();
                voice.tool_ended(&id, &String::from_utf8_lossy(&output), status.code());
                return Ok(());
            }
            Err(_) => return Ok(()),
        }
    }
}

/// A tool of a careless agent: it runs on in its own session.
fn tool_left(index: usize, command: &str, voice: &mut dyn Voice) {
    let id = format!("call-{index}");
    voice.tool_started(&id, command);
    child::spawn(&["run-setsid".to_owned(), command.to_owned()]);
}

fn write_stderr(bytes: usize) {
    let mut stderr = std::io::stderr().lock();
    let line = [b'e'; 1024];
    let mut left = bytes;
    while left > 0 {
        let piece = left.min(line.len());
        if stderr.write_all(&line[..piece]).is_err() {
            return;
        }
        left -= piece;
    }
}

fn crash(number: i32) {
    if let Ok(signal) = Signal::try_from(number) {
        // The first one may be taken by a handler of the standard library, which then steps aside.
        let _raised = raise(signal).and_then(|()| raise(signal));
    }
}
