//! What a person sees while a task runs, on standard error: a live line on a terminal, plain lines elsewhere.

use std::io::IsTerminal;

use serde_json::Value;

use super::colour;
use super::table::{Fit, brief};
use crate::door::EventView;

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
        // A dumb terminal takes no line away.
        match (quiet, std::io::stderr().is_terminal() && !colour::is_dumb()) {
            (true, _) => Self::Quiet,
            (false, true) => Self::Live,
            (false, false) => Self::Lines,
        }
    }
}

/// Makes of events what is written for a person.
#[derive(Debug)]
pub(super) struct Progress {
    style: Style,
    written: usize,
    live: bool,
}

/// Takes a live line away.
const CLEAR: &str = "\r\x1b[2K";

impl Progress {
    pub(super) fn new(style: Style) -> Self {
        Self { style, written: 0, live: false }
    }

    /// What is to be written about an event, if anything.
    pub(super) fn of(&mut self, event: &EventView<'_>) -> Option<String> {
        if self.style == Style::Quiet || (self.style == Style::Lines && event.kind == "message.delta") {
            return None;
        }
        let data: Value = serde_json::from_str(event.data.get()).unwrap_or_default();
        let text = |key: &str| data[key].as_str().unwrap_or_default();
        match &*event.kind {
            "message.delta" => {
                self.written += text("text").len();
                self.live(&format!("writing, {} bytes so far", self.written))
            }
            "model.requested" => self.live("asked, waiting for the agent"),
            "model.thinking" => self.live(&format!("thinking: {}", brief(text("text"), WIDTH))),
            "tool.requested" => self.line(&format!("$ {}", brief(text("arguments"), WIDTH))),
            "tool.completed" => self.line(&format!("  {}", tool_end(&data))),
            "approval.requested" => self.line(&format!("? {}", brief(text("prompt"), WIDTH))),
            "approval.resolved" => self.line(&format!("  {}", resolution(&data))),
            "ostler.cancel.requested" => self.line("cancelling"),
            "ostler.stray.ended" => self.line(&format!("  ended a process it left: {}", brief(text("command"), WIDTH))),
            "ostler.warning" => self.line(&format!("! {}", brief(text("message"), WIDTH))),
            _ => None,
        }
    }

    /// A line that stays.
    pub(super) fn line(&mut self, line: &str) -> Option<String> {
        let clear = self.clear().unwrap_or_default();
        (self.style != Style::Quiet).then(|| format!("{clear}{line}\n"))
    }

    fn live(&mut self, line: &str) -> Option<String> {
        self.live = self.style == Style::Live;
        // One that went on in the next line could not be taken away.
        self.live.then(|| format!("{CLEAR}{}", Fit::of(&std::io::stderr()).line(line)))
    }

    /// Takes away the live line, if there is one.
    pub(super) fn clear(&mut self) -> Option<String> {
        std::mem::take(&mut self.live).then(|| CLEAR.to_owned())
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
