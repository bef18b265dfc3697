//! Tool calls: announced once, with what they are about, and ended once.

use agent_client_protocol_schema::v1::{
    ContentBlock, ToolCallContent, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields, ToolKind,
};
use ostler_supervisors::adapter::{Answer, Fact};
use ostler_supervisors::contract::{EffectKind, WorkId, WorkStatus};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::wire::id_of;
use super::{Became, Machine, noise};

/// This many calls are known at once; beyond that the oldest is forgotten, so that a snapshot stays small.
const MOST_CALLS: usize = 12;
/// A tool's name is kept up to this many bytes.
const LONGEST_NAME: usize = 64;

/// The calls of a turn, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Calls(Vec<Call>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Call {
    work: WorkId,
    what: What,
    stage: Stage,
}

/// What a call does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum What {
    Effect(EffectKind),
    Tool(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Stage {
    /// It was named, and what it is about is still to come.
    Named,
    Announced,
    Over,
}

impl Calls {
    fn get(&mut self, work: &WorkId) -> Option<&mut Call> {
        self.0.iter_mut().find(|call| call.work == *work)
    }

    fn add(&mut self, work: WorkId, fields: &ToolCallUpdateFields) -> &mut Call {
        if self.0.len() >= MOST_CALLS {
            let oldest = self.0.iter().position(|call| call.stage == Stage::Over).unwrap_or(0);
            self.0.remove(oldest);
        }
        let last = self.0.len();
        self.0.push(Call { work, what: what(fields), stage: Stage::Named });
        &mut self.0[last]
    }
}

impl Machine {
    /// A call or an update of one; they have the same members, and agents leave out the first or say it twice.
    pub(super) fn tool_call(&mut self, update: ToolCallUpdate, answer: &mut Answer) -> Became {
        let Some(work) = id_of::<WorkId>(&update.tool_call_id.0) else {
            return noise("a tool call without an id".to_owned(), answer);
        };
        let said = answer.facts.len();
        self.announce(&work, &update, answer);
        let call = match self.calls.get(&work) {
            Some(call) if call.stage != Stage::Over => call,
            _ => return Became::Redundant,
        };
        let status = match update.fields.status {
            Some(ToolCallStatus::Completed) => WorkStatus::Completed,
            Some(ToolCallStatus::Failed) => WorkStatus::Failed,
            _ => WorkStatus::Updated,
        };
        let delta = terminal(&update, "terminal_output_delta", "data").and_then(Value::as_str).map(str::to_owned);
        if status != WorkStatus::Updated {
            call.stage = Stage::Over;
            answer.fact(call.ended(status, &update, delta));
        } else if let Some(delta) = delta {
            answer.fact(call.fact(WorkStatus::Updated, None, Some(delta)));
        }
        // What changes nothing of it repeats what is known, or what its end will say again.
        if answer.facts.len() > said { Became::Mapped } else { Became::Redundant }
    }

    /// A call that was refused here. Its agent may say no more of it, or call it failed.
    pub(super) fn declined(&mut self, work: &WorkId, answer: &mut Answer) {
        if let Some(call) = self.calls.get(work).filter(|call| call.stage != Stage::Over) {
            call.stage = Stage::Over;
            answer.fact(call.fact(WorkStatus::Declined, None, None));
        }
    }

    /// Makes a call known, as soon as it is said what it is about.
    pub(super) fn announce(&mut self, work: &WorkId, update: &ToolCallUpdate, answer: &mut Answer) {
        let call = match self.calls.get(work) {
            Some(call) => call,
            None => {
                // What is said after a call belongs to another message than what was said before it.
                if let Some(turn) = &mut self.turn {
                    turn.voice = None;
                }
                self.calls.add(work.clone(), &update.fields)
            }
        };
        let unwritten = update.fields.status == Some(ToolCallStatus::Pending)
            && update.fields.raw_input.as_ref().and_then(Value::as_object).is_some_and(|input| input.is_empty());
        if call.stage == Stage::Named && !unwritten {
            call.stage = Stage::Announced;
            answer.fact(call.started(&update.fields));
        }
    }
}

impl Call {
    fn started(&self, fields: &ToolCallUpdateFields) -> Fact {
        let input = fields.raw_input.as_ref();
        let command = input.and_then(|input| input["command"].as_str()).map(str::to_owned);
        let about = match &self.what {
            What::Effect(_) => command.or_else(|| fields.title.clone()),
            What::Tool(_) => input.map(Value::to_string).or_else(|| fields.title.clone()),
        };
        self.fact(WorkStatus::Started, about, None)
    }

    fn ended(&self, status: WorkStatus, update: &ToolCallUpdate, delta: Option<String>) -> Fact {
        let code = terminal(update, "terminal_exit", "exit_code").and_then(Value::as_i64);
        let output = delta.or_else(|| output(&update.fields));
        match self.fact(status, None, output) {
            Fact::Effect { work, kind, status, description, output, .. } => {
                let (exit_code, paths) = (code.map(|code| code as i32), paths(&update.fields));
                Fact::Effect { work, kind, status, description, output, exit_code, paths }
            }
            tool => tool,
        }
    }

    /// What is said of it, with what it is about at its start and what came of it later.
    fn fact(&self, status: WorkStatus, about: Option<String>, result: Option<String>) -> Fact {
        let work = self.work.clone();
        match &self.what {
            What::Tool(name) => Fact::Tool { work, name: name.clone(), status, arguments: about, result },
            What::Effect(kind) => Fact::Effect {
                work,
                kind: *kind,
                status,
                description: about,
                output: result,
                exit_code: None,
                paths: Vec::new(),
            },
        }
    }
}

/// The kind of effect, where the agent says so.
pub(super) fn effect(kind: Option<ToolKind>) -> Option<EffectKind> {
    match kind? {
        ToolKind::Execute => Some(EffectKind::Command),
        ToolKind::Edit | ToolKind::Delete | ToolKind::Move => Some(EffectKind::FileChange),
        _ => None,
    }
}

fn what(fields: &ToolCallUpdateFields) -> What {
    let name = || fields.name.as_deref().or(fields.title.as_deref()).unwrap_or("tool");
    effect(fields.kind).map_or_else(
        || {
            let name = name();
            What::Tool(name[..name.floor_char_boundary(LONGEST_NAME)].to_owned())
        },
        What::Effect,
    )
}

/// What agents that run terminals of their own say of them beside the protocol.
fn terminal<'a>(update: &'a ToolCallUpdate, what: &str, member: &str) -> Option<&'a Value> {
    update.meta.as_ref()?.get(what)?.get(member)
}

/// What a call printed or gave back: as it was, or else as it is shown to people.
fn output(fields: &ToolCallUpdateFields) -> Option<String> {
    let shown = |content: &ToolCallContent| match content {
        ToolCallContent::Content(content) => match &content.content {
            ContentBlock::Text(text) => Some(text.text.clone()),
            _ => None,
        },
        _ => None,
    };
    let texts: Vec<_> = fields.content.iter().flatten().filter_map(shown).collect();
    match &fields.raw_output {
        Some(Value::String(raw)) => Some(raw.clone()),
        Some(raw) if texts.is_empty() => Some(raw.to_string()),
        _ if texts.is_empty() => None,
        _ => Some(texts.join("\n")),
    }
}

fn paths(fields: &ToolCallUpdateFields) -> Vec<String> {
    let path = |content: &ToolCallContent| match content {
        ToolCallContent::Diff(diff) => Some(diff.path.to_string_lossy().into_owned()),
        _ => None,
    };
    fields.content.iter().flatten().filter_map(path).collect()
}
