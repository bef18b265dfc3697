//! The files in `config` say what is so.

use std::sync::Arc;

use super::super::read::read;
use super::super::schema::{Node, schema};
use super::super::{Key, Settings, Source, Surroundings, builtin, words};

const EXAMPLE: &str = include_str!("../../../config/ostler.toml");

/// The example with its commented keys as keys.
fn uncommented() -> String {
    let line = |line: &'static str| {
        let bare = line.strip_prefix("# ").unwrap_or(line);
        let is_key = bare.starts_with('[') || bare.split_once(" = ").is_some_and(|(key, _)| !key.contains(' '));
        if is_key { bare } else { line }
    };
    EXAMPLE.lines().map(line).collect::<Vec<_>>().join("\n")
}

fn example(text: &str) -> Vec<(Key, toml::Value)> {
    let (assigned, problems) = read(&schema(), &Arc::new(Source::Included("config/ostler.toml")), text);
    assert_eq!(problems, []);
    assigned.into_iter().map(|value| (value.key, value.value)).collect()
}

#[test]
fn the_example_names_every_key_there_is() {
    let schema = schema();
    let mut named: Vec<_> = example(&uncommented()).into_iter().map(|(key, _)| general(&key)).collect();
    named.sort();
    named.dedup();
    let mut keys = Node::root(&schema).keys();
    keys.sort();
    assert_eq!(named, keys);
}

/// A key of one harness as one of any.
fn general(key: &Key) -> Key {
    let name = |(index, name)| {
        let any = key.harness().is_some() && (index == 1 || (index == 3 && key.is_secret()));
        if any { "NAME" } else { name }
    };
    Key::new(key.names().enumerate().map(name))
}

#[test]
fn what_the_example_sets_are_the_defaults_and_nothing_else_has_one() {
    let defaults: Vec<_> = builtin::defaults().into_iter().map(|(key, _)| key).collect();
    let built_in = Settings::load(&Surroundings::default()).expect("is fine").values;
    let set = example(EXAMPLE);
    for (key, value) in &set {
        assert_eq!(built_in.get(key).map(|valued| valued.value.clone()).as_ref(), Some(value), "{key}");
    }
    assert_eq!(set.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>().len(), defaults.len());
    assert!(defaults.iter().all(|key| set.iter().any(|(set, _)| set == key)), "{defaults:?}");
}

#[test]
fn what_the_example_says_of_a_harness_are_the_defaults_of_one() {
    let built_in = builtin::harness_defaults("mine", super::super::AdapterName::Oneshot);
    let named = example(&uncommented());
    for default in built_in.iter().filter(|default| !["inherit", "helpers", "engines"].contains(&last(&default.key))) {
        let value = named.iter().find(|(key, _)| *key == default.key).map(|(_, value)| value);
        assert_eq!(value, Some(&default.value), "{}", default.key);
    }
}

fn last(key: &Key) -> &str {
    key.names().next_back().unwrap_or_default()
}

#[test]
fn the_example_names_the_variable_of_every_key_that_has_one() {
    let schema = schema();
    for key in Node::root(&schema).keys() {
        let Some(variable) = words::variable(&key) else { continue };
        let rule = format!("OSTLER_{}", key.to_string().to_uppercase().replace('.', "_"));
        assert!(variable == rule || EXAMPLE.contains(&format!("${variable}")), "{variable}");
    }
    assert!(EXAMPLE.contains("$OSTLER_LIMITS_START_CONCURRENCY"));
}

fn json(text: &str) -> serde_json::Value {
    let table: toml::Table = toml::from_str(text).expect("TOML");
    serde_json::to_value(table).expect("JSON")
}

#[test]
fn every_shipped_file_is_right_by_the_schema() {
    let validator = jsonschema::validator_for(&schema()).expect("a schema");
    let example = uncommented();
    let files = builtin::HARNESSES.into_iter().chain([("ostler.toml", EXAMPLE), ("uncommented", &example)]);
    for (name, text) in files {
        let wrong: Vec<_> = validator.iter_errors(&json(text)).map(|error| error.to_string()).collect();
        assert_eq!(wrong, Vec::<String>::new(), "{name}");
    }
}

#[test]
fn whatever_the_schema_lets_one_choose_is_read() {
    let schema = schema();
    for key in Node::root(&schema).keys() {
        for choice in Node::root(&schema).at(&key).map(Node::choices).unwrap_or_default() {
            let (_, problems) = read(&schema, &Arc::new(Source::Included("x")), &format!("{key} = {choice:?}"));
            assert_eq!(problems, [], "{key}: {choice}");
        }
    }
}

#[test]
fn the_schema_and_the_reader_are_of_one_mind() {
    let validator = jsonschema::validator_for(&schema()).expect("a schema");
    let right = [
        "",
        "state = \"/x\"",
        "orphan_grace = \" 5m \"",
        "operations = \"[::1]:0\"",
        "operations = \"localhost:99\"",
        "limits.spare_keepers = 0",
        "harness.\"a.b\" = { adapter = \"oneshot\", command = [] }",
        "harness.x.environment = { A = \"\" }",
    ];
    let wrong = [
        "frobnicate = 1",
        "state = 1",
        "orphan_grace = \"5\"",
        "orphan_grace = 5",
        "operations = \"0.0.0.0:1\"",
        "control_groups = \"always\"",
        "limits = []",
        "limits.start_concurrency = 0",
        "limits.start_concurrency = -1",
        "limits.start_concurrency = 1.5",
        "ledger.max_mib = 4294967296",
        "harness.\"a b\" = {}",
        "harness.\"..\" = {}",
        "default_harness = \"a/b\"",
        "harness.x.command = \"x\"",
        "harness.x.prompt = \"file\"",
        "harness.x.on_lost_session = \"forget\"",
        "harness.x.environment = { A = 1 }",
        "harness.x.deadlines.kill = 1",
        "harness.x.deadlines.kil = \"1s\"",
    ];
    for (texts, is_right) in [(&right[..], true), (&wrong[..], false)] {
        for text in texts {
            let (_, problems) = read(&schema(), &Arc::new(Source::Included("x")), text);
            assert_eq!(problems.is_empty(), is_right, "{text}: {problems:?}");
            assert_eq!(validator.is_valid(&json(text)), is_right, "{text}");
        }
    }
}
