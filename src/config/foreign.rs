//! Keys that only some adapters know. One of another adapter's would change nothing, and its writer would not know.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{AdapterName, Key, Layer, Problem, Valued, Wrong};

/// The one adapter whose key of a harness this is, if it is not that of all.
fn owner(name: &str) -> Option<AdapterName> {
    match name {
        "prompt" | "output" => Some(AdapterName::Oneshot),
        "approval_policy" | "sandbox" => Some(AdapterName::Codex),
        "mode" => Some(AdapterName::Acp),
        _ => None,
    }
}

/// The keys that somebody set for a harness whose adapter does not know them. What is built in is no mistake of his.
pub(super) fn keys(values: &BTreeMap<Key, Valued>) -> Vec<Problem> {
    let wrong = |(key, valued): (&Key, &Valued)| {
        let owner = owner(key.names().nth(2)?)?;
        let adapter = values.get(&Key::new(["harness", key.harness()?, "adapter"]))?;
        let adapter = AdapterName::deserialize(adapter.value.clone()).ok()?;
        let is_set = valued.origin.layer() != Layer::BuiltIn;
        (is_set && owner != adapter).then(|| Problem {
            origin: valued.origin.clone(),
            wrong: Wrong::OfAnotherAdapter { key: key.clone(), owner, adapter },
        })
    };
    values.iter().filter_map(wrong).collect()
}

#[cfg(test)]
mod tests {
    use super::super::schema::{Node, schema};
    use super::*;

    #[test]
    fn a_key_that_is_said_to_be_one_adapters_is_his() {
        let schema = schema();
        let adapters = Node::root(&schema).at(&Key::new(["harness", "mine", "adapter"])).expect("a key").choices();
        for key in Node::root(&schema).keys().into_iter().filter(|key| key.harness().is_some()) {
            let described = schema.pointer(&format!(
                "/properties/harness/additionalProperties/properties/{}/description",
                key.names().nth(2).expect("a name")
            ));
            let described = described.and_then(serde_json::Value::as_str).expect("described");
            let said = adapters.iter().find(|adapter| described.ends_with(&format!("({adapter}).")));
            let owner = owner(key.names().nth(2).expect("a name")).map(AdapterName::word);
            assert_eq!(said.copied(), owner, "{key}: {described}");
        }
    }
}
