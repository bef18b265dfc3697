//! A key of the configuration, as a path: `limits.start_concurrency`.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use super::words;

/// How much of one segment is shown.
const SHOWN: usize = 60;

/// A path of names.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Vec<String>);

impl Key {
    /// The key of these names.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        Self(names.into_iter().map(str::to_owned).collect())
    }

    /// The key below this one.
    pub fn child(&self, name: &str) -> Self {
        Self(self.0.iter().cloned().chain([name.to_owned()]).collect())
    }

    /// The key above this one.
    pub fn outer(&self) -> Self {
        Self(self.0.iter().take(self.0.len().saturating_sub(1)).cloned().collect())
    }

    /// Its names, from the outermost.
    pub fn names(&self) -> impl DoubleEndedIterator<Item = &str> + ExactSizeIterator {
        self.0.iter().map(String::as_str)
    }

    /// Whether it is this one, or below it.
    pub fn is_within(&self, outer: &Self) -> bool {
        self.0.starts_with(&outer.0)
    }

    /// The harness it is about, if it is about one.
    pub fn harness(&self) -> Option<&str> {
        match self.0.as_slice() {
            [section, name, ..] if section == "harness" => Some(name),
            _ => None,
        }
    }

    /// Whether its value may be a secret: a variable that a harness is given.
    pub fn is_secret(&self) -> bool {
        self.harness().is_some() && self.0.get(2).is_some_and(|name| name == "environment")
    }
}

impl FromStr for Key {
    type Err = String;

    /// Reads a key as it is written in the file's language.
    fn from_str(text: &str) -> Result<Self, String> {
        words::key(text).ok_or_else(|| format!("{text:?} is no key"))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bare =
            |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
        for (index, name) in self.names().enumerate() {
            let dot = if index == 0 { "" } else { "." };
            let (start, more) = match name.char_indices().nth(SHOWN) {
                Some((cut, _)) => (&name[..cut], "…"),
                None => (name, ""),
            };
            match bare(start) {
                true => write!(f, "{dot}{start}{more}")?,
                false => write!(f, "{dot}{start:?}{more}")?,
            }
        }
        Ok(())
    }
}

impl Serialize for Key {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_not_bare_is_quoted_and_a_long_one_is_cut() {
        assert_eq!(Key::new(["harness", "a.b", "kill"]).to_string(), r#"harness."a.b".kill"#);
        assert_eq!(Key::new(["\u{1b}[31m"]).to_string(), r#""\u{1b}[31m""#);
        assert_eq!(Key::new([&*"x".repeat(1 << 20)]).to_string().chars().count(), SHOWN + 1);
    }

    #[test]
    fn only_what_a_harness_is_given_is_secret() {
        assert!(Key::new(["harness", "mine", "environment", "TOKEN"]).is_secret());
        assert!(Key::new(["harness", "mine", "environment"]).is_secret());
        assert!(!Key::new(["harness", "environment", "command"]).is_secret());
        assert!(!Key::new(["environment"]).is_secret());
    }
}
