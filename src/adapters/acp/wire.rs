//! JSON-RPC 2.0, as far as it is needed: what comes in is read member by member, and only as deep as somebody asks.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::str::FromStr;

use agent_client_protocol_schema::v1::Error;
use ostler_supervisors::adapter::Answer;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// Texts of an agent that end in a verdict or a warning are kept up to this many bytes.
const LONGEST_TEXT: usize = 2048;

/// One message of an agent.
#[derive(Debug, Deserialize)]
pub(super) struct Incoming<'a> {
    #[serde(default)]
    id: Option<Value>,
    #[serde(default)]
    method: Option<String>,
    #[serde(default, borrow)]
    pub(super) params: Option<&'a RawValue>,
    #[serde(default, borrow)]
    result: Option<&'a RawValue>,
    #[serde(default, borrow)]
    error: Option<&'a RawValue>,
}

/// What a message is.
#[derive(Debug)]
pub(super) enum Kind<'a> {
    Request { id: &'a Value, method: &'a str },
    Notification { method: &'a str },
    Answer { id: &'a Value },
}

/// How an agent answered: a result that may be empty, or an error.
pub(super) type Outcome<'a> = Result<&'a str, Error>;

impl<'a> Incoming<'a> {
    pub(super) fn kind(&self) -> Option<Kind<'_>> {
        match (&self.method, &self.id) {
            (Some(method), Some(id)) => Some(Kind::Request { id, method }),
            (Some(method), None) => Some(Kind::Notification { method }),
            (None, Some(id)) => Some(Kind::Answer { id }),
            (None, None) => None,
        }
    }

    pub(super) fn outcome(&self) -> Outcome<'a> {
        match self.error {
            Some(error) => Err(serde_json::from_str(error.get()).unwrap_or_else(|_| Error::new(0, error.get()))),
            None => Ok(self.result.map_or("{}", RawValue::get)),
        }
    }
}

#[derive(Serialize)]
struct Outgoing<'a, P> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    method: &'a str,
    params: &'a P,
}

#[derive(Serialize)]
struct Answered<'a, R> {
    jsonrpc: &'static str,
    id: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a R>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Error>,
}

pub(super) fn request(id: u64, method: &str, params: &impl Serialize, answer: &mut Answer) {
    answer.json(&Outgoing { jsonrpc: "2.0", id: Some(id), method, params });
}

pub(super) fn notify(method: &str, params: &impl Serialize, answer: &mut Answer) {
    answer.json(&Outgoing { jsonrpc: "2.0", id: None, method, params });
}

pub(super) fn reply(id: &Value, result: &impl Serialize, answer: &mut Answer) {
    answer.json(&Answered { jsonrpc: "2.0", id, result: Some(result), error: None });
}

pub(super) fn refuse(id: &Value, error: Error, answer: &mut Answer) {
    answer.json(&Answered::<()> { jsonrpc: "2.0", id, result: None, error: Some(error) });
}

/// An id of ours for a name of the agent's: the name itself where it can be one.
pub(super) fn id_of<T: FromStr>(name: &str) -> Option<T> {
    name.parse().ok().or_else(|| {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        format!("named-{:016x}", hasher.finish()).parse().ok()
    })
}

/// What an error says, its details included.
pub(super) fn text_of(error: &Error) -> String {
    let details = error.data.as_ref().and_then(|data| {
        let members = ["details", "message"].into_iter().find_map(|member| data[member].as_str());
        data.as_str().or(members)
    });
    let text = match details {
        Some(details) if !error.message.contains(details) => format!("{}: {details}", error.message),
        _ => error.message.clone(),
    };
    short(&text)
}

pub(super) fn short(text: &str) -> String {
    text[..text.floor_char_boundary(LONGEST_TEXT)].to_owned()
}
