//! Standard output and standard error behind a queue, so that a reader who does not read holds up nothing but what is
//! written for him: neither a verdict, nor a signal, nor a stop.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{mpsc, oneshot};

use crate::error::Failure;

/// Texts that may wait for their reader.
const QUEUE: usize = 64;

/// What is to be written, as it is.
#[derive(Debug)]
pub(super) enum Text {
    /// On standard output.
    Out(String),
    /// On standard error.
    Err(String),
    /// Nothing; told when everything before it is written.
    Mark(oneshot::Sender<()>),
}

/// The queue's end; whoever drops it does not wait for what is still in it.
#[derive(Debug)]
pub(super) struct Printer {
    texts: mpsc::Sender<Text>,
    written: oneshot::Receiver<std::io::Result<()>>,
    given_up: AtomicBool,
}

/// A place in the queue.
pub(super) type Place<'a> = mpsc::Permit<'a, Text>;

impl Printer {
    /// Starts the thread that writes.
    pub(super) fn start() -> Self {
        let (texts, mut queue) = mpsc::channel(QUEUE);
        let (done, written) = oneshot::channel();
        std::thread::spawn(move || {
            let mut result = Ok(());
            while let Some(text) = queue.blocking_recv() {
                result = write(text);
                if result.is_err() {
                    break;
                }
            }
            // Nobody waits any more.
            let _gone = done.send(result);
        });
        Self { texts, written, given_up: AtomicBool::new(false) }
    }

    /// Waits for a place; `None` once standard output is closed.
    ///
    /// # Cancel safety
    ///
    /// Nothing is written by a dropped future.
    pub(super) async fn place(&self) -> Option<Place<'_>> {
        self.texts.reserve().await.ok()
    }

    /// A text that may be left out where there is no place for it.
    pub(super) fn try_put(&self, text: Text) {
        let _left_out = self.texts.try_send(text);
    }

    /// From now on nobody waits for the reader.
    pub(super) fn give_up(&self) {
        self.given_up.store(true, Ordering::Relaxed);
    }

    /// Waits until everything is written, unless that was given up.
    ///
    /// # Errors
    ///
    /// If standard output was closed before.
    pub(super) async fn finish(self) -> Result<(), Failure> {
        drop(self.texts);
        if self.given_up.load(Ordering::Relaxed) {
            return Ok(());
        }
        match self.written.await {
            Ok(written) => written.map_err(super::output_closed),
            Err(_) => Ok(()),
        }
    }
}

/// Whoever reads progress may go; the answer is what counts.
fn write(text: Text) -> std::io::Result<()> {
    match text {
        Text::Out(text) => {
            let mut stdout = std::io::stdout().lock();
            stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush())
        }
        Text::Err(text) => {
            let mut stderr = std::io::stderr().lock();
            let _closed = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
            Ok(())
        }
        Text::Mark(reached) => {
            let _gone = reached.send(());
            Ok(())
        }
    }
}
