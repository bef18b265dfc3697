//! What may have been meant.

use super::schema::Node;
use super::{Key, Wrong};

/// From here on a word is taken for a mistake in writing another.
const ALIKE: f64 = 0.8;
/// A longer word is no mistake in writing.
const LONGEST: usize = 64;

/// The word that is most like this one, if any is much like it.
pub(super) fn nearest<'a>(word: &str, words: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > LONGEST {
        return None;
    }
    let word = word.to_lowercase().replace('-', "_");
    let rated = words.into_iter().map(|other| (likeness(&word, other), other));
    let best = rated.filter(|(likeness, _)| *likeness >= ALIKE).max_by(|a, b| a.0.total_cmp(&b.0));
    best.map(|(_, other)| other)
}

/// The beginning of a word counts more than its end, and a part of it is much like the whole.
fn likeness(word: &str, other: &str) -> f64 {
    let part = word.len() >= 3 && other.len() >= 3 && (word.contains(other) || other.contains(word));
    strsim::jaro_winkler(word, other).max(if part { ALIKE } else { 0.0 })
}

/// The key that may have been meant by one that is not known: the same name elsewhere, else a name like it beside,
/// else one like it elsewhere.
fn nearest_key(root: Node<'_>, key: &Key) -> Option<Key> {
    let name = key.names().next_back()?;
    let outer = key.outer();
    let everywhere = root.keys();
    let last = |key: &Key| key.names().next_back().map(str::to_owned);
    let same = everywhere.iter().find(|known| last(known).as_deref() == Some(name));
    if let Some(same) = same {
        return Some(named(same, key));
    }
    let beside = root.at(&outer).and_then(|node| nearest(name, node.names()));
    if let Some(beside) = beside {
        return Some(outer.child(beside));
    }
    let lasts: Vec<_> = everywhere.iter().filter_map(last).collect();
    let like = nearest(name, lasts.iter().map(String::as_str).filter(|last| *last != "NAME"))?;
    everywhere.iter().find(|known| last(known).as_deref() == Some(like)).map(|known| named(known, key))
}

/// What is said of a key that is none.
pub(super) fn unknown(root: Node<'_>, key: Key) -> Wrong {
    if let Some(nearest) = nearest_key(root, &key) {
        return Wrong::NoKeyBut { key, nearest };
    }
    let beside = root.at(&key.outer()).unwrap_or(root);
    let mut there: Vec<_> = beside.names().map(str::to_owned).collect();
    there.sort();
    Wrong::NoKey { key, there }
}

/// A key of any harness as one of the harness that is spoken of.
fn named(known: &Key, key: &Key) -> Key {
    match (known.harness(), key.harness()) {
        (Some("NAME"), Some(harness)) => {
            Key::new(known.names().enumerate().map(|(index, name)| if index == 1 { harness } else { name }))
        }
        _ => known.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(key: &str) -> Option<String> {
        let schema = super::super::schema();
        let key = Key::new(key.split('.'));
        nearest_key(Node::root(&schema), &key).map(|key| key.to_string())
    }

    #[test]
    fn a_slip_of_the_pen_a_wrong_place_and_a_part_are_understood() {
        for (written, meant) in [
            ("limits.start_concurency", "limits.start_concurrency"),
            ("limts", "limits"),
            ("start_concurrency", "limits.start_concurrency"),
            ("harness.mine.kill", "harness.mine.deadlines.kill"),
            ("harness.mine.enviroment", "harness.mine.environment"),
            ("harness.mine.deadlines.term", "harness.mine.deadlines.terminate"),
            ("harness.mine.frame-cap-mib", "harness.mine.frame_cap_mib"),
            ("default_harnes", "default_harness"),
            ("ledger.timeout", "ledger.busy_timeout"),
            ("max_mb", "ledger.max_mib"),
        ] {
            assert_eq!(near(written).as_deref(), Some(meant), "{written}");
        }
    }

    #[test]
    fn what_is_like_nothing_is_taken_for_nothing() {
        assert_eq!(near("xyzzy"), None);
        assert_eq!(near(&"limits".repeat(100)), None);
        assert_eq!(nearest("", ["try", "never"]), None);
        assert_eq!(nearest("nevr", ["try", "never"]), Some("never"));
    }
}
