//! The file's schema, made from its types: what `ostler config schema` prints, and what tells a key from a mistake.

use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value};

use super::{File, Key, builtin};

/// The JSON Schema of the file, with the defaults.
pub fn schema() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = SchemaGenerator::new(settings).into_root_schema_for::<File>();
    Exact.transform(&mut schema);
    let mut schema = schema.to_value();
    for (key, default) in builtin::defaults() {
        if let Some(node) = node_mut(&mut schema, &key) {
            node.insert("default".to_owned(), default);
        }
    }
    schema
}

/// A key that is left out is absent: there is no null in the file's language.
#[derive(Debug)]
struct Exact;

impl Transform for Exact {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        let Some(object) = schema.as_object_mut() else { return };
        if object.get("default").is_some_and(|default| default.is_null() || *default == Value::Object(Map::new())) {
            object.remove("default");
        }
        if let Some(Value::Array(types)) = object.get_mut("type") {
            types.retain(|name| name != "null");
            if let [only] = types.as_slice() {
                let only = only.clone();
                object.insert("type".to_owned(), only);
            }
        }
        if let Some(Value::Array(mut any)) = object.remove("anyOf") {
            any.retain(|schema| schema["type"] != "null");
            match <[Value; 1]>::try_from(any) {
                Ok([Value::Object(only)]) => {
                    // What is said of the key says more than what is said of its type.
                    let said = object.remove("description");
                    object.extend(only);
                    object.extend(said.map(|said| ("description".to_owned(), said)));
                }
                Ok([other]) => drop(object.insert("anyOf".to_owned(), Value::Array(vec![other]))),
                Err(any) => drop(object.insert("anyOf".to_owned(), Value::Array(any))),
            }
        }
    }
}

fn node_mut<'a>(schema: &'a mut Value, key: &Key) -> Option<&'a mut Map<String, Value>> {
    let mut node = schema;
    for name in key.names() {
        let object = node.as_object_mut()?;
        let field = if object.contains_key("properties") { "properties" } else { "additionalProperties" };
        node = object.get_mut(field)?;
        if field == "properties" {
            node = node.get_mut(name)?;
        }
    }
    node.as_object_mut()
}

/// A part of the schema.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node<'a>(&'a Value);

impl<'a> Node<'a> {
    /// The whole.
    pub(super) fn root(schema: &'a Value) -> Self {
        Self(schema)
    }

    /// The part for this name, if it is one.
    pub(super) fn child(self, name: &str) -> Option<Self> {
        match self.0.get("properties") {
            Some(properties) => properties.get(name).map(Self),
            None => self.entries(),
        }
    }

    /// The part for this key, if it is one.
    pub(super) fn at(self, key: &Key) -> Option<Self> {
        key.names().try_fold(self, Self::child)
    }

    /// The part for any name, where any name is right.
    pub(super) fn entries(self) -> Option<Self> {
        self.0.get("additionalProperties").filter(|entries| entries.is_object()).map(Self)
    }

    /// Whether it holds further names.
    pub(super) fn is_table(self) -> bool {
        self.0["type"] == "object"
    }

    /// Whether it is a text.
    pub(super) fn is_text(self) -> bool {
        self.0["type"] == "string" || !self.choices().is_empty()
    }

    /// Its names.
    pub(super) fn names(self) -> impl Iterator<Item = &'a str> {
        self.0["properties"].as_object().into_iter().flat_map(|properties| properties.keys().map(String::as_str))
    }

    /// The texts it may be, where it may not be any.
    pub(super) fn choices(self) -> Vec<&'a str> {
        let one_of = self.0["oneOf"].as_array().into_iter().flatten();
        let plain = self.0["enum"].as_array().into_iter().flatten();
        let described = one_of.flat_map(|schema| {
            let named = schema["enum"].as_array().into_iter().flatten();
            named.chain(schema.get("const"))
        });
        described.chain(plain).filter_map(Value::as_str).collect()
    }

    /// Every key that has a value; what may have any name is called `NAME`.
    pub(super) fn keys(self) -> Vec<Key> {
        let mut found = Vec::new();
        self.collect(&Key::default(), &mut found);
        found
    }

    fn collect(self, at: &Key, found: &mut Vec<Key>) {
        for name in self.names() {
            if let Some(child) = self.child(name) {
                child.collect(&at.child(name), found);
            }
        }
        match self.entries() {
            Some(entries) => entries.collect(&at.child("NAME"), found),
            None if !self.is_table() => found.push(at.clone()),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_knows_every_key_its_choices_and_its_default() {
        let schema = schema();
        let root = Node::root(&schema);
        let keys: Vec<_> = root.keys().iter().map(Key::to_string).collect();
        for key in ["state", "limits.start_concurrency", "harness.NAME.deadlines.kill", "harness.NAME.environment.NAME"]
        {
            assert!(keys.iter().any(|known| known == key), "{key}: {keys:?}");
        }
        assert_eq!(root.child("control_groups").map(Node::choices), Some(vec!["try", "never"]));
        assert_eq!(schema["properties"]["orphan_grace"]["default"], "2m");
        assert_eq!(schema["properties"]["limits"]["properties"]["start_concurrency"]["default"], 4);
        assert!(root.child("frobnicate").is_none() && root.at(&Key::new(["harness", "x", "sandbox"])).is_some());
        assert!(!schema.to_string().contains("null"), "{schema:#}");
    }
}
