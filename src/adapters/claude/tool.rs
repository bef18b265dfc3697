//! Its own tools: which of them have an effect that can be named.

use ostler_supervisors::adapter::Fact;
use ostler_supervisors::contract::{EffectKind, WorkId, WorkStatus};
use serde_json::Value;

/// The effect of a tool that is known to have one; an unknown name is no evidence of any.
pub(super) fn effect(name: &str) -> Option<EffectKind> {
    match name {
        "Bash" => Some(EffectKind::Command),
        "Edit" | "MultiEdit" | "NotebookEdit" | "Write" => Some(EffectKind::FileChange),
        "WebSearch" => Some(EffectKind::WebSearch),
        _ => None,
    }
}

/// What it is about, in a few words of its own.
pub(super) fn description(name: &str, input: &Value) -> Option<String> {
    let key = match effect(name)? {
        EffectKind::Command => return input["command"].as_str().map(str::to_owned),
        EffectKind::WebSearch => "query",
        _ => "file_path",
    };
    let about = input[key].as_str().or(input["notebook_path"].as_str())?;
    Some(format!("{name} {about}"))
}

pub(super) fn started(work: WorkId, name: &str, input: &Value) -> Fact {
    match effect(name) {
        Some(kind) => Fact::Effect {
            work,
            kind,
            status: WorkStatus::Started,
            description: description(name, input),
            output: None,
            exit_code: None,
            paths: Vec::new(),
        },
        None => Fact::Tool {
            work,
            name: name.to_owned(),
            status: WorkStatus::Started,
            arguments: Some(input.to_string()),
            result: None,
        },
    }
}

/// A tool that has its result. `details` are the vendor's own, beside the text that the model reads.
pub(super) fn ended(work: WorkId, name: &str, status: WorkStatus, content: &Value, details: &Value) -> Fact {
    let result = Some(text(content));
    match effect(name) {
        Some(kind) => {
            let changed = kind == EffectKind::FileChange && status == WorkStatus::Completed;
            let path = details["filePath"].as_str().filter(|_| changed).map(str::to_owned);
            let paths = path.into_iter().collect();
            Fact::Effect { work, kind, status, description: None, output: result, exit_code: None, paths }
        }
        None => Fact::Tool { work, name: name.to_owned(), status, arguments: None, result },
    }
}

fn text(content: &Value) -> String {
    let parts = content.as_array().into_iter().flatten();
    let parts: Vec<_> = parts.filter_map(|part| part["text"].as_str()).collect();
    content.as_str().map_or_else(|| parts.join("\n"), str::to_owned)
}
