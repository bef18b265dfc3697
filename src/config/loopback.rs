//! An address with a port of this machine alone.

use std::borrow::Cow;
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// An address of the loopback interface with a port: `127.0.0.1:9464`, `[::1]:0`, `localhost:0`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Loopback(String);

impl FromStr for Loopback {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let address: Option<SocketAddr> = match text.strip_prefix("localhost:") {
            Some(port) => format!("127.0.0.1:{port}").parse().ok(),
            None => text.parse().ok(),
        };
        match address {
            Some(address) if address.ip().is_loopback() => Ok(Self(text.to_owned())),
            _ => Err(format!("{text:?} is no loopback address with a port; write 127.0.0.1:9464, or 127.0.0.1:0")),
        }
    }
}

impl TryFrom<String> for Loopback {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Loopback> for String {
    fn from(address: Loopback) -> Self {
        address.0
    }
}

impl fmt::Display for Loopback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl JsonSchema for Loopback {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Loopback".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^(localhost|127(\\.[0-9]{1,3}){3}|\\[[0-9a-fA-F:.]+\\]):[0-9]{1,5}$" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_this_machine_alone_are_taken() {
        for text in ["127.0.0.1:0", "127.9.9.9:80", "[::1]:9464", "localhost:9464"] {
            assert_eq!(text.parse::<Loopback>().map(String::from), Ok(text.to_owned()));
        }
        for text in ["", "0.0.0.0:80", "127.0.0.1", "10.0.0.1:1", "example.org:80", "localhost:70000", "[::]:1"] {
            assert!(text.parse::<Loopback>().is_err(), "{text}");
        }
    }
}
