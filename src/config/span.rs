//! Time spans as people write them: `500ms`, `2s`, `5m`, `1h`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A time span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Span(pub Duration);

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(split);
        let bad = || format!("{text:?} is no time span; write 500ms, 2s, 5m or 1h");
        let number: u64 = number.parse().map_err(|_| bad())?;
        let millis = match unit {
            "ms" => Some(1),
            "s" => Some(1_000),
            "m" => Some(60_000),
            "h" => Some(3_600_000),
            _ => None,
        };
        let millis = millis.and_then(|unit: u64| number.checked_mul(unit)).ok_or_else(bad)?;
        Ok(Self(Duration::from_millis(millis)))
    }
}

impl TryFrom<String> for Span {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Span> for String {
    fn from(span: Span) -> Self {
        span.to_string()
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_millis() {
            0 => f.write_str("0s"),
            ms if ms % 3_600_000 == 0 => write!(f, "{}h", ms / 3_600_000),
            ms if ms % 60_000 == 0 => write!(f, "{}m", ms / 60_000),
            ms if ms % 1000 == 0 => write!(f, "{}s", ms / 1000),
            ms => write!(f, "{ms}ms"),
        }
    }
}

impl JsonSchema for Span {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Span".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^\\s*[0-9]+(ms|s|m|h)\\s*$" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_as_written_and_nothing_else_is() {
        for (text, millis) in [("500ms", 500), ("2s", 2_000), ("5m", 300_000), ("1h", 3_600_000)] {
            assert_eq!(text.parse(), Ok(Span(Duration::from_millis(millis))));
        }
        for text in ["0s", "1500ms", "90s", "15m", "25h"] {
            assert_eq!(text.parse().map(|span: Span| span.to_string()), Ok(text.to_owned()));
        }
        for text in ["", "5", "s", "-1s", "1.5s", "5 s", "99999999999999999999h", "18446744073709551615h"] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
    }
}
