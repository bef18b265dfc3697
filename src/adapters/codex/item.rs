//! Items of a turn: messages, commands, file changes, searches, tools.

use ostler_supervisors::adapter::{Answer, Fact};
use ostler_supervisors::contract::{EffectKind, MessageRole, WorkId, WorkStatus};
use serde_json::Value;

use super::Machine;

impl Machine {
    pub(super) fn item(&mut self, params: &Value, started: bool, answer: &mut Answer) {
        let item = &params["item"];
        let Some(Ok(work)) = item["id"].as_str().map(str::parse::<WorkId>) else { return };
        let status = status(item["status"].as_str(), started);
        match item["type"].as_str().unwrap_or_default() {
            "agentMessage" | "agent_message" if !started => message(item, answer),
            "commandExecution" | "command_execution" => answer.fact(command(work, item, status)),
            "fileChange" | "file_change" => answer.fact(file_change(work, item, status)),
            "webSearch" | "web_search" => {
                let description = item["query"].as_str().map(str::to_owned);
                answer.fact(effect(work, EffectKind::WebSearch, status, description));
            }
            "mcpToolCall" | "mcp_tool_call" | "dynamicToolCall" | "dynamic_tool_call" => {
                answer.fact(tool(work, item, status));
            }
            // The user's own message, reasoning, and kinds of later versions.
            _ => {
                self.counts.mapped -= 1;
                self.counts.noted += 1;
            }
        }
    }

    pub(super) fn command_output(&mut self, params: &Value, answer: &mut Answer) {
        let Some(Ok(work)) = params["itemId"].as_str().map(str::parse::<WorkId>) else { return };
        let Fact::Effect { work, kind, status, description, exit_code, paths, .. } =
            effect(work, EffectKind::Command, WorkStatus::Updated, None)
        else {
            return;
        };
        let output = params["delta"].as_str().map(str::to_owned);
        answer.fact(Fact::Effect { work, kind, status, description, output, exit_code, paths });
    }
}

fn status(status: Option<&str>, started: bool) -> WorkStatus {
    match status {
        Some("failed" | "error") => WorkStatus::Failed,
        Some("declined") => WorkStatus::Declined,
        Some("cancelled" | "interrupted") => WorkStatus::Cancelled,
        _ if started => WorkStatus::Started,
        _ => WorkStatus::Completed,
    }
}

fn message(item: &Value, answer: &mut Answer) {
    let (Some(Ok(message)), Some(text)) = (item["id"].as_str().map(str::parse), item["text"].as_str()) else { return };
    let role = match item["phase"].as_str() {
        Some("final_answer") => MessageRole::Answer,
        Some("commentary") => MessageRole::Commentary,
        _ => MessageRole::Unknown,
    };
    answer.fact(Fact::MessageCompleted { message, role, text: text.to_owned() });
}

fn effect(work: WorkId, kind: EffectKind, status: WorkStatus, description: Option<String>) -> Fact {
    Fact::Effect { work, kind, status, description, output: None, exit_code: None, paths: Vec::new() }
}

fn command(work: WorkId, item: &Value, status: WorkStatus) -> Fact {
    Fact::Effect {
        work,
        kind: EffectKind::Command,
        status,
        description: item["command"].as_str().map(str::to_owned),
        output: item["aggregatedOutput"].as_str().map(str::to_owned),
        exit_code: item["exitCode"].as_i64().map(|code| code as i32),
        paths: Vec::new(),
    }
}

fn file_change(work: WorkId, item: &Value, status: WorkStatus) -> Fact {
    let changes = item["changes"].as_array().into_iter().flatten();
    let paths = changes.filter_map(|change| change["path"].as_str().map(str::to_owned)).collect();
    let kind = EffectKind::FileChange;
    Fact::Effect { work, kind, status, description: None, output: None, exit_code: None, paths }
}

fn tool(work: WorkId, item: &Value, status: WorkStatus) -> Fact {
    let name = item["tool"].as_str().or(item["name"].as_str()).unwrap_or("tool").to_owned();
    let shown = |value: &Value| (!value.is_null()).then(|| value.to_string());
    let result = shown(&item["result"]).or_else(|| shown(&item["contentItems"]));
    let result = result.or_else(|| item["error"]["message"].as_str().map(str::to_owned));
    Fact::Tool { work, name, status, arguments: shown(&item["arguments"]), result }
}
