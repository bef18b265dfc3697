//! The body of an answer while it is being said.

use std::io;

use actix_web::HttpResponse;
use actix_web::web::Bytes;
use serde_json::Value;
use tokio::sync::mpsc::{Sender, channel};
use tokio_stream::wrappers::ReceiverStream;

use crate::rules::Rule;

/// Why an answer ended before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    /// By the client.
    HungUp,
    /// By the rule.
    Cut,
}

/// Where the pieces of an answer are sent.
#[derive(Debug)]
pub(crate) struct Events(Sender<io::Result<Bytes>>);

impl Events {
    /// A response of this type, and where its pieces are sent.
    pub(crate) fn open(content_type: &str) -> (Self, HttpResponse) {
        let (sender, receiver) = channel(1);
        let response = HttpResponse::Ok().content_type(content_type).streaming(ReceiverStream::new(receiver));
        (Self(sender), response)
    }

    /// An event whose data repeats its kind.
    pub(crate) async fn send(&self, kind: &str, mut data: Value) -> Result<(), Broken> {
        data["type"] = kind.into();
        self.raw(format!("event: {kind}\ndata: {data}\n\n")).await
    }

    /// An event that is all data.
    pub(crate) async fn data(&self, data: &Value) -> Result<(), Broken> {
        self.raw(format!("data: {data}\n\n")).await
    }

    pub(crate) async fn raw(&self, text: String) -> Result<(), Broken> {
        self.0.send(Ok(Bytes::from(text))).await.map_err(|_| Broken::HungUp)
    }

    /// What the rule wants after so many words: a pause, or the end of the connection. A client that hangs up meanwhile
    /// is noticed.
    pub(crate) async fn pace(&self, rule: &Rule, said: usize) -> Result<(), Broken> {
        if rule.cuts_after(said) {
            let cut = io::Error::from(io::ErrorKind::ConnectionAborted);
            return self.0.send(Err(cut)).await.map_err(|_| Broken::HungUp).and(Err(Broken::Cut));
        }
        let Some(pause) = rule.pause() else { return Ok(()) };
        tokio::select! {
            () = self.0.closed() => Err(Broken::HungUp),
            () = actix_web::rt::time::sleep(pause) => Ok(()),
        }
    }
}
