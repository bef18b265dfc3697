//! Server-sent events, whose data repeats its kind.

use std::convert::Infallible;
use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::web::Bytes;
use serde_json::Value;
use tokio::sync::mpsc::{Sender, channel};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

/// Where events are sent; every method gives `None` once the client has hung up.
#[derive(Debug)]
pub(crate) struct Events(Sender<Bytes>);

impl Events {
    /// A response, and where its events are sent.
    pub(crate) fn open() -> (Self, HttpResponse) {
        let (sender, receiver) = channel::<Bytes>(1);
        let body = ReceiverStream::new(receiver).map(Ok::<_, Infallible>);
        (Self(sender), HttpResponse::Ok().content_type("text/event-stream").streaming(body))
    }

    /// Waits, and notices a client that hangs up meanwhile.
    pub(crate) async fn rest(&self, time: Duration) -> Option<()> {
        tokio::select! {
            () = self.0.closed() => None,
            () = actix_web::rt::time::sleep(time) => Some(()),
        }
    }

    pub(crate) async fn send(&self, kind: &str, mut data: Value) -> Option<()> {
        data["type"] = kind.into();
        self.0.send(Bytes::from(format!("event: {kind}\ndata: {data}\n\n"))).await.ok()
    }
}
