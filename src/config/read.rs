//! Reads one text: what it sets, and everything that is wrong with it.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value as Schema;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer, ValueDeserializer};

use super::nearest::{nearest, unknown};
use super::problem::said;
use super::schema::Node;
use super::{File, Key, Origin, Problem, Source, Wrong};

/// Problems of one text that are looked for.
const MOST: usize = 1_000;

/// One value that was set.
#[derive(Clone, PartialEq)]
pub(super) struct Assigned {
    /// Of what.
    pub(super) key: Key,
    /// The value; a table if it is an empty one.
    pub(super) value: toml::Value,
    /// Where.
    pub(super) origin: Origin,
}

impl std::fmt::Debug for Assigned {
    /// The value may be a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {}", self.key, self.origin)
    }
}

/// What a text sets, and what is wrong with it. Of a text that is no TOML only that is told: what else it would say
/// is not known.
pub(super) fn read(schema: &Schema, source: &Arc<Source>, text: &str) -> (Vec<Assigned>, Vec<Problem>) {
    let (table, errors) = DeTable::parse_recoverable(text);
    let starts = text.match_indices('\n').map(|(at, _)| at).collect();
    let root = Node::root(schema);
    let mut reader = Reader { root, source, starts, assigned: Vec::new(), problems: Vec::new() };
    if errors.is_empty() {
        reader.table(&Key::default(), root, table.get_ref());
    }
    for error in errors.iter().take(MOST) {
        reader.problem(error.span(), Wrong::Syntax(said(error.message())));
    }
    reader.problems.sort_by_key(|problem| problem.origin.line);
    (reader.assigned, reader.problems)
}

struct Reader<'a> {
    root: Node<'a>,
    source: &'a Arc<Source>,
    starts: Vec<usize>,
    assigned: Vec<Assigned>,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    fn table(&mut self, at: &Key, node: Node<'_>, table: &DeTable<'_>) {
        for (name, value) in table {
            if self.problems.len() >= MOST {
                return;
            }
            let key = at.child(name.get_ref());
            match node.child(name.get_ref()) {
                None => self.problem(Some(name.span()), unknown(self.root, key)),
                Some(node) => self.entry(key, node, name.span(), value),
            }
        }
    }

    fn entry(&mut self, key: Key, node: Node<'_>, name: Range<usize>, value: &Spanned<DeValue<'_>>) {
        let DeValue::Table(table) = value.get_ref() else { return self.value(key, node, name, value) };
        let none = Spanned::new(value.span(), DeValue::Table(DeTable::new()));
        // Whether there may be a table at all, and of this name.
        if !node.is_table() || table.is_empty() || probe(&key, none).is_err() {
            return self.value(key, node, name, value);
        }
        self.table(&key, node, table);
    }

    fn value(&mut self, key: Key, node: Node<'_>, name: Range<usize>, value: &Spanned<DeValue<'_>>) {
        match self.read_value(&key, node, value) {
            Ok(read) => {
                let origin = self.origin(Some(name));
                self.assigned.push(Assigned { key, value: read, origin });
            }
            Err((span, wrong)) => self.problem(Some(span.unwrap_or(name)), wrong),
        }
    }

    fn read_value(
        &self,
        key: &Key,
        node: Node<'_>,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<toml::Value, (Option<Range<usize>>, Wrong)> {
        let wrong = |error: toml::de::Error| {
            let said = if key.is_secret() { "it must be a text".to_owned() } else { wrong_value(node, value, &error) };
            (error.span().filter(|span| !span.is_empty()), Wrong::Value { key: key.clone(), said })
        };
        // The types would take a list for a table as well.
        if node.is_table() && !value.get_ref().is_table() {
            return Err((Some(value.span()), Wrong::Value { key: key.clone(), said: "it must be a table".to_owned() }));
        }
        probe(key, value.clone()).map_err(wrong)?;
        toml::Value::deserialize(ValueDeserializer::from(value.clone())).map_err(wrong)
    }

    fn origin(&self, span: Option<Range<usize>>) -> Origin {
        let has_lines = matches!(**self.source, Source::File(..) | Source::Included(_));
        let line = span.map(|span| 1 + self.starts.partition_point(|start| *start < span.start));
        Origin { source: self.source.clone(), line: line.filter(|_| has_lines) }
    }

    fn problem(&mut self, span: Option<Range<usize>>, wrong: Wrong) {
        let origin = self.origin(span);
        self.problems.push(Problem { origin, wrong });
    }
}

/// The file's types say what is wrong with one value, in a file that has nothing else.
fn probe<'i>(key: &Key, value: Spanned<DeValue<'i>>) -> Result<(), toml::de::Error> {
    let span = value.span();
    let within = |inner: Spanned<DeValue<'i>>, name: &str| {
        let mut table = DeTable::new();
        table.insert(Spanned::new(span.clone(), Cow::Owned(name.to_owned())), inner);
        Spanned::new(span.clone(), DeValue::Table(table))
    };
    let whole = key.names().rev().fold(value, within);
    let DeValue::Table(table) = whole.into_inner() else { return Ok(()) };
    File::deserialize(Deserializer::from(Spanned::new(span.clone(), table))).map(|_| ())
}

fn wrong_value(node: Node<'_>, value: &Spanned<DeValue<'_>>, error: &toml::de::Error) -> String {
    let choices = node.choices();
    let (false, Some(text)) = (choices.is_empty(), value.get_ref().as_str()) else {
        return said(error.message());
    };
    let quoted: Vec<_> = choices.iter().map(|choice| format!("{choice:?}")).collect();
    let near = nearest(text, choices).map(|near| format!("; the nearest is {near:?}"));
    format!("{} is none of {}{}", said(&format!("{text:?}")), quoted.join(", "), near.unwrap_or_default())
}
