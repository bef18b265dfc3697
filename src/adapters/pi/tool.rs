//! Its tools: which of them have an effect that can be named.

use std::collections::BTreeMap;

use ostler_supervisors::adapter::{Answer, Fact};
use ostler_supervisors::contract::{EffectKind, WorkId, WorkStatus};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::wire::{Few, Line, Part, Raw, is_true, read, text};
use super::{Became, Machine};

/// This many runs are known at once, so that a snapshot stays small; one that is not ends all the same.
const MOST_TOOLS: usize = 12;
/// A path is kept up to this many bytes.
const LONGEST_PATH: usize = 120;

/// Tool runs without an end, with the file that each is to change.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct OpenTools(BTreeMap<Uuid, Option<String>>);

impl OpenTools {
    fn open(&mut self, work: Uuid, path: Option<String>) {
        if self.0.len() < MOST_TOOLS {
            let plain = |path: &String| path.len() <= LONGEST_PATH && path.bytes().all(|byte| byte.is_ascii_graphic());
            self.0.insert(work, path.filter(plain));
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// What a tool is to do, as far as it can be named.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Arguments<'a> {
    #[serde(borrow)]
    command: Raw<'a>,
    #[serde(borrow)]
    path: Raw<'a>,
}

/// The result of a tool; the parts are those of a message.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Returned<'a> {
    #[serde(borrow)]
    content: Raw<'a>,
}

impl Machine {
    pub(super) fn tool_started(&mut self, line: &Line<'_>, answer: &mut Answer) -> Became {
        if self.running().is_none() {
            return Became::Noted;
        }
        let Some((key, work, name)) = named(line) else { return Became::Noted };
        let path = read::<Arguments<'_>>(line.args).and_then(|arguments| text(arguments.path));
        self.tools.open(key, path.filter(|_| effect(&name) == Some(EffectKind::FileChange)));
        answer.fact(started(work, &name, line.args));
        Became::Mapped
    }

    pub(super) fn tool_ended(&mut self, line: &Line<'_>, answer: &mut Answer) -> Became {
        let Some(turn) = self.running() else { return Became::Noted };
        let status = match (is_true(line.is_error), turn.is_stopped()) {
            (false, _) => WorkStatus::Completed,
            (true, true) => WorkStatus::Cancelled,
            (true, false) => WorkStatus::Failed,
        };
        let Some((key, work, name)) = named(line) else { return Became::Noted };
        let path = self.tools.0.remove(&key).flatten();
        answer.fact(ended(work, &name, status, path, printed(line.result)));
        Became::Mapped
    }
}

/// The effect of a tool that is known to have one; an unknown name is no evidence of any.
fn effect(name: &str) -> Option<EffectKind> {
    match name {
        "bash" => Some(EffectKind::Command),
        "edit" | "write" => Some(EffectKind::FileChange),
        _ => None,
    }
}

fn started(work: WorkId, name: &str, arguments: Raw<'_>) -> Fact {
    let (status, output, paths) = (WorkStatus::Started, None, Vec::new());
    match effect(name) {
        Some(kind) => {
            let about = read::<Arguments<'_>>(arguments).unwrap_or_default();
            let description = match kind {
                EffectKind::Command => text(about.command),
                _ => text(about.path).map(|path| format!("{name} {path}")),
            };
            Fact::Effect { work, kind, status, description, output, exit_code: None, paths }
        }
        None => {
            let arguments = arguments.map(|arguments| arguments.get().to_owned());
            Fact::Tool { work, name: name.to_owned(), status, arguments, result: None }
        }
    }
}

fn ended(work: WorkId, name: &str, status: WorkStatus, path: Option<String>, printed: Option<String>) -> Fact {
    match effect(name) {
        Some(kind) => {
            let paths = path.filter(|_| status == WorkStatus::Completed).into_iter().collect();
            Fact::Effect { work, kind, status, description: None, output: printed, exit_code: None, paths }
        }
        None => Fact::Tool { work, name: name.to_owned(), status, arguments: None, result: printed },
    }
}

fn printed(result: Raw<'_>) -> Option<String> {
    let parts: Few<Part<'_>> = read(read::<Returned<'_>>(result)?.content)?;
    let texts: Vec<_> = parts.0.iter().filter_map(|part| text(part.text)).collect();
    Some(texts.join("\n"))
}

fn named(line: &Line<'_>) -> Option<(Uuid, WorkId, String)> {
    let work = text(line.tool_call_id)?;
    Some((key(&work), id(&work)?, text(line.tool_name)?))
}

/// Some providers' ids are longer than ours may be.
fn id(work: &str) -> Option<WorkId> {
    work.parse().ok().or_else(|| key(work).to_string().parse().ok())
}

fn key(work: &str) -> Uuid {
    Uuid::new_v5(&Uuid::NAMESPACE_OID, work.as_bytes())
}
