//! The tools that an agent offers, where OpenAI's dialects list them.

use serde_json::{Map, Value, json};

/// A tool that runs a shell command goes by one of these names.
const SHELLS: [&str; 6] = ["exec_command", "shell", "local_shell", "bash", "run_shell_command", "terminal"];

/// The name of the tool that runs a shell command, and its arguments for this one, from the request's own list.
pub(crate) fn shell_call(tools: &Value, command: &str) -> (String, Value) {
    // Chat Completions keep a tool within its kind, Responses have both in one.
    let declared = tools.as_array().into_iter().flatten().map(|tool| tool.get("function").unwrap_or(tool));
    let mut named = declared.filter_map(|tool| Some((tool["name"].as_str()?, &tool["parameters"])));
    match named.find(|(name, _)| SHELLS.contains(&name.to_lowercase().as_str())) {
        Some((name, parameters)) => (name.to_owned(), arguments(parameters, command)),
        None => ("exec_command".to_owned(), json!({ "cmd": command })),
    }
}

/// The command, and a word for every other text that is required.
fn arguments(parameters: &Value, command: &str) -> Value {
    let properties = &parameters["properties"];
    let place = ["cmd", "command"].into_iter().find(|name| !properties[*name].is_null()).unwrap_or("command");
    let required = parameters["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let texts = required.filter(|name| properties[*name]["type"] == "string");
    let mut arguments: Map<_, _> = texts.map(|name| (name.to_owned(), "as the rule says".into())).collect();
    arguments.insert(place.to_owned(), command.into());
    arguments.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shell_is_found_in_either_list_and_gets_all_that_it_requires() {
        let parameters = json!({
            "properties": { "command": { "type": "string" }, "why": { "type": "string" }, "for": { "type": "number" } },
            "required": ["command", "why"],
        });
        let shell = json!({ "name": "Bash", "parameters": parameters });
        let expected = ("Bash".to_owned(), json!({ "command": "ls", "why": "as the rule says" }));
        let read = json!({ "type": "function", "function": { "name": "read" } });
        assert_eq!(shell_call(&json!([read, { "type": "function", "function": shell }]), "ls"), expected);
        assert_eq!(shell_call(&json!([{ "type": "web_search" }, shell]), "ls"), expected);
        assert_eq!(shell_call(&json!([]), "ls"), ("exec_command".to_owned(), json!({ "cmd": "ls" })));
    }
}
