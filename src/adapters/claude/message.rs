//! What it says: fragments, whole messages, tools and their results.

use ostler_supervisors::adapter::{Answer, Fact};
use ostler_supervisors::contract::{MessageId, MessageRole, WorkId, WorkStatus};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::track::OpenTool;
use super::{Machine, Stop, tool};

/// The block of a message that is being streamed; the whole one that follows it does not say its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Block {
    message: MessageId,
    index: u64,
}

impl Block {
    fn id(&self) -> Option<MessageId> {
        format!("{}.{}", self.message, self.index).parse().ok()
    }
}

impl Machine {
    pub(super) fn streamed(&mut self, frame: &Value, answer: &mut Answer) {
        if self.running().is_none() {
            return self.noted();
        }
        let event = &frame["event"];
        match event["type"].as_str() {
            Some("message_start") => {
                let id = event["message"]["id"].as_str().and_then(|id| id.parse().ok());
                self.block = id.map(|message| Block { message, index: 0 });
            }
            Some("content_block_start") => {
                self.block.iter_mut().for_each(|block| block.index = event["index"].as_u64().unwrap_or_default());
            }
            Some("content_block_delta") => self.delta(frame, answer),
            _ => self.redundant(),
        }
    }

    fn delta(&mut self, frame: &Value, answer: &mut Answer) {
        let delta = &frame["event"]["delta"];
        let (role, text) = match delta["type"].as_str() {
            Some("text_delta") => (MessageRole::Unknown, &delta["text"]),
            Some("thinking_delta") => (MessageRole::Explanation, &delta["thinking"]),
            // A tool's arguments come again, whole.
            _ => return self.redundant(),
        };
        let message = self.block.as_ref().and_then(Block::id);
        if let (Some(message), Some(text)) = (message, text.as_str()) {
            answer.fact(Fact::MessageDelta { message, role: role_of(frame, role), text: text.to_owned() });
        }
    }

    /// One line is one block of a message, as a rule.
    pub(super) fn said(&mut self, frame: &Value, answer: &mut Answer) {
        if self.running().is_none() {
            return self.noted();
        }
        // The result tells it as the failure that it is.
        if frame["is_api_error_message"] == true {
            return self.redundant();
        }
        for block in frame["message"]["content"].as_array().into_iter().flatten() {
            match block["type"].as_str() {
                Some("text") => self.completed(frame, MessageRole::Unknown, &block["text"], answer),
                Some("thinking") => self.completed(frame, MessageRole::Explanation, &block["thinking"], answer),
                Some("tool_use") => self.tool_started(block, answer),
                _ => {}
            }
        }
    }

    fn completed(&self, frame: &Value, role: MessageRole, text: &Value, answer: &mut Answer) {
        let streamed = self.block.as_ref().filter(|block| frame["message"]["id"] == block.message.as_str());
        let line = || frame["uuid"].as_str()?.parse().ok();
        let message = streamed.and_then(Block::id).or_else(line);
        if let (Some(message), Some(text)) = (message, text.as_str().filter(|text| !text.is_empty())) {
            answer.fact(Fact::MessageCompleted { message, role: role_of(frame, role), text: text.to_owned() });
        }
    }

    fn tool_started(&mut self, block: &Value, answer: &mut Answer) {
        let name = block["name"].as_str().unwrap_or("tool");
        if let Some(Ok(work)) = block["id"].as_str().map(str::parse::<WorkId>) {
            self.tools.open(&work, name);
            answer.fact(tool::started(work, name, &block["input"]));
        }
    }

    /// What tools gave back to it. Its own words to itself are of no meaning here.
    pub(super) fn returned(&mut self, frame: &Value, answer: &mut Answer) {
        let content = frame["message"]["content"].as_array().into_iter().flatten();
        let results: Vec<_> = content.filter(|block| block["type"] == "tool_result").collect();
        if results.is_empty() || self.running().is_none() {
            return self.noted();
        }
        for result in results {
            self.tool_ended(frame, result, answer);
        }
    }

    fn tool_ended(&mut self, frame: &Value, result: &Value, answer: &mut Answer) {
        let Some(Ok(work)) = result["tool_use_id"].as_str().map(str::parse::<WorkId>) else { return };
        let taken = self.approvals.taken(|open| open.work.as_ref() == Some(&work));
        taken.into_iter().for_each(|id| answer.fact(Fact::AnswerConfirmed(id)));
        let open = self.tools.close(&work);
        let status = self.status(frame, result, open.as_ref());
        let name = open.map_or_else(|| "tool".to_owned(), |open| open.name);
        answer.fact(tool::ended(work, &name, status, &result["content"], &frame["tool_use_result"]));
    }

    /// A tool that an interrupt stops while it runs is called rejected, as one that never ran.
    fn status(&self, frame: &Value, result: &Value, open: Option<&OpenTool>) -> WorkStatus {
        let about = frame["tool_result_meta"].as_array().into_iter().flatten();
        let about = about.clone().find(|about| about["id"] == result["tool_use_id"]);
        let rejected = about.is_some_and(|about| about["non_execution_kind"].is_string());
        let stopped = self.turn.as_ref().is_some_and(|turn| turn.stop >= Stop::Ours);
        match (result["is_error"] == true, open.is_some_and(|open| open.refused)) {
            (false, _) => WorkStatus::Completed,
            (true, true) => WorkStatus::Declined,
            (true, false) if rejected && stopped => WorkStatus::Cancelled,
            (true, false) if rejected => WorkStatus::Declined,
            (true, false) => WorkStatus::Failed,
        }
    }
}

/// What a subagent says is said to the agent, and is never the task's answer.
fn role_of(frame: &Value, role: MessageRole) -> MessageRole {
    match (role, frame["parent_tool_use_id"].is_string()) {
        (MessageRole::Unknown, true) => MessageRole::Commentary,
        (role, _) => role,
    }
}
