//! Scripts: a prompt read as steps.

use std::time::Duration;

/// How many requests an `ask` opens, and what they look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AskKind {
    Plain,
    Foreign,
    Twice,
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    Say(String),
    Stream { count: usize, bytes: usize, pause: Duration },
    Think(String),
    Tool(String),
    ToolLeft(String),
    Ask(AskKind, String),
    AskLeft(String),
    Spawn(Vec<String>),
    Sleep(Duration),
    IgnoreCancel,
    LateCancel(Duration),
    Raw(Vec<u8>),
    LongLine(usize),
    Flood(usize),
    Babble(usize),
    Stderr(usize),
    Touch(String),
    CloseStdout,
    CloseStdin,
    Exit(u8),
    Crash(i32),
    End(String),
    ReadNothing,
}

const FOR_EVER: Duration = Duration::from_secs(86_400);

/// Reads a prompt. A line that is no step is said back.
pub(crate) fn parse(prompt: &str) -> Vec<Step> {
    let lines = prompt.split('\n').flat_map(|line| line.split(";;")).map(str::trim).filter(|line| !line.is_empty());
    let steps: Option<Vec<Step>> = lines.map(step).collect();
    steps.unwrap_or_else(|| vec![Step::Say(format!("You said: {prompt}"))])
}

fn step(line: &str) -> Option<Step> {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    let text = || rest.to_owned();
    let number = |index: usize| rest.split_ascii_whitespace().nth(index)?.parse::<u64>().ok();
    let millis = |index| number(index).map(Duration::from_millis);
    Some(match word {
        "say" => Step::Say(text()),
        "stream" => Step::Stream {
            count: number(0)? as usize,
            bytes: number(1)? as usize,
            pause: millis(2).unwrap_or_default(),
        },
        "think" => Step::Think(text()),
        "tool" => Step::Tool(text()),
        "tool-left" => Step::ToolLeft(text()),
        "ask" => Step::Ask(AskKind::Plain, text()),
        "ask-foreign" => Step::Ask(AskKind::Foreign, text()),
        "ask-twice" => Step::Ask(AskKind::Twice, text()),
        "ask-unknown" => Step::Ask(AskKind::Unknown, text()),
        "ask-left" => Step::AskLeft(text()),
        "spawn" => Step::Spawn(rest.split_ascii_whitespace().map(str::to_owned).collect()),
        "sleep" => Step::Sleep(millis(0)?),
        "hang" => Step::Sleep(FOR_EVER),
        "ignore-cancel" => Step::IgnoreCancel,
        "late-cancel" => Step::LateCancel(millis(0)?),
        "noise" => Step::Raw(format!("{rest}\n").into_bytes()),
        "half" => Step::Raw(text().into_bytes()),
        "hex" => Step::Raw(hex(rest)?),
        "long-line" => Step::LongLine(number(0)? as usize),
        "flood" => Step::Flood(number(0)? as usize),
        "babble" => Step::Babble(number(0)? as usize),
        "stderr" => Step::Stderr(number(0)? as usize),
        "touch" => Step::Touch(text()),
        "close-stdout" => Step::CloseStdout,
        "close-stdin" => Step::CloseStdin,
        "exit" => Step::Exit(number(0)? as u8),
        "crash" => Step::Crash(number(0)? as i32),
        "end" => Step::End(text()),
        "read-nothing" => Step::ReadNothing,
        _ => return None,
    })
}

fn hex(digits: &str) -> Option<Vec<u8>> {
    let digits: Vec<u32> =
        digits.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_digit(16)).collect::<Option<_>>()?;
    Some(digits.chunks_exact(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_is_a_script_or_is_said_back() {
        assert_eq!(parse("say a ;; exit 3"), vec![Step::Say("a".into()), Step::Exit(3)]);
        assert_eq!(parse("hex ff 0a"), vec![Step::Raw(vec![255, 10])]);
        assert_eq!(parse("hello there"), vec![Step::Say("You said: hello there".into())]);
    }
}
