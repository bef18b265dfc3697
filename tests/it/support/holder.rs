//! Another process that holds what Ostler waits for.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A process that is in the middle of a write to a ledger, and stays there.
pub struct Holder(Child);

impl Holder {
    pub fn hold(ledger: &Path) -> Self {
        let mut child =
            Command::new("sqlite3").arg(ledger).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("sqlite3");
        let input = child.stdin.as_mut().expect("piped");
        writeln!(input, ".timeout 20000\nbegin immediate;\nselect 'held';").expect("written");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("piped")).read_line(&mut line).expect("read");
        assert_eq!(line.trim(), "held");
        Self(child)
    }

    pub fn release(mut self) {
        let input = self.0.stdin.as_mut().expect("piped");
        writeln!(input, "rollback;\n.quit").expect("written");
        self.0.wait().expect("ends");
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // After a release it is gone already.
        let _gone = self.0.kill().and_then(|()| self.0.wait());
    }
}
