//! What a person sees while a task runs, on standard error: a live line on a terminal, plain lines elsewhere.

use std::io::{IsTerminal, Write};

use serde_json::Value;

use super::table::brief;

/// How much of a text one line shows.
const WIDTH: usize = 100;

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// Not at all.
    Quiet,
    /// A line for each step.
    Lines,
    /// The same, and one live line below them.
    Live,
}

impl Style {
    pub(super) fn of_stderr(quiet: bool) -> Self {
        match (quiet, std::io::stderr().is_terminal()) {
            (true, _) => Self::Quiet,
            (false, true) => Self::Live,
            (false, false) => Self::Lines,
        }
    }
}

/// Shows events as they come.
#[derive(Debug)]
pub(super) struct Progress {
    style: Style,
    written: usize,
    live: bool,
}

impl Progress {
    pub(super) fn new(style: Style) -> Self {
        Self { style, written: 0, live: false }
    }

    pub(super) fn show(&mut self, event: &Value) {
        let data = &event["data"];
        let text = |key: &str| data[key].as_str().unwrap_or_default();
        match event["type"].as_str().unwrap_or_default() {
            "message.delta" => {
                self.written += text("text").len();
                self.live(&format!("writing, {} bytes so far", self.written));
            }
            "model.requested" => self.live("asked, waiting for the agent"),
            "model.thinking" => self.live(&format!("thinking: {}", brief(text("text"), WIDTH))),
            "tool.requested" => self.line(&format!("$ {}", brief(text("arguments"), WIDTH))),
            "tool.completed" => self.line(&format!("  {}", tool_end(data))),
            "approval.requested" => self.line(&format!("? {}", brief(text("prompt"), WIDTH))),
            "approval.resolved" => self.line(&format!("  {}", resolution(data))),
            "ostler.cancel.requested" => self.line("cancelling"),
            "ostler.stray.ended" => self.line(&format!("  ended a process it left: {}", brief(text("command"), WIDTH))),
            "ostler.warning" => self.line(&format!("! {}", brief(text("message"), WIDTH))),
            _ => {}
        }
    }

    pub(super) fn line(&mut self, line: &str) {
        if self.style != Style::Quiet {
            self.clear();
            // Nobody who could be told is left if this fails.
            let _closed = writeln!(std::io::stderr(), "{line}");
        }
    }

    fn live(&mut self, line: &str) {
        if self.style == Style::Live {
            let mut stderr = std::io::stderr();
            let _closed = write!(stderr, "\r\x1b[2K{line}").and_then(|()| stderr.flush());
            self.live = true;
        }
    }

    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.live) {
            let mut stderr = std::io::stderr();
            let _closed = write!(stderr, "\r\x1b[2K").and_then(|()| stderr.flush());
        }
    }
}

fn tool_end(data: &Value) -> String {
    let output = brief(data["output"].as_str().unwrap_or_default(), WIDTH);
    match (data["status"].as_str(), data["exit_code"].as_i64()) {
        (Some("declined"), _) => "declined".to_owned(),
        (_, Some(code)) if code != 0 => format!("exit code {code}: {output}"),
        _ => output,
    }
}

fn resolution(data: &Value) -> String {
    match data["decision"]["decision"].as_str() {
        Some(decision) => decision.replace('_', " "),
        None => format!("closed: {}", data["cleared"].as_str().unwrap_or_default().to_lowercase().replace('_', " ")),
    }
}
