//! Lines of JSON in and out, for whichever protocol is spoken.

use std::io::{BufRead, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Every message on standard input, until its end.
pub(crate) fn each_message(mut take: impl FnMut(Value)) {
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        match serde_json::from_str(&line) {
            Ok(message) => take(message),
            Err(error) => eprintln!("ostler-agent: not JSON: {error}"),
        }
    }
}

/// Standard output, one line at a time.
#[derive(Default)]
pub(crate) struct Output(Mutex<()>);

impl Output {
    pub(crate) fn write(&self, bytes: &[u8]) {
        let _one_line_at_a_time = lock(&self.0);
        let mut stdout = std::io::stdout().lock();
        if stdout.write_all(bytes).and_then(|()| stdout.flush()).is_err() {
            std::process::exit(1);
        }
    }

    pub(crate) fn send(&self, message: &Value) {
        self.write(format!("{message}\n").as_bytes());
    }
}
