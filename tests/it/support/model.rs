//! The local model server, as a scenario starts it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// A server that obeys these rules until it is dropped.
pub struct Model {
    child: Child,
    record: PathBuf,
    pub address: String,
}

impl Model {
    /// Starts one, whose rules and record are in this folder.
    pub fn start(folder: &Path, rules: &str) -> Self {
        let record = folder.join("record.jsonl");
        std::fs::write(folder.join("rules.json"), rules).expect("written");
        let mut child = Command::new(PathBuf::from(env!("CARGO_BIN_EXE_ostler")).with_file_name("ostler-model"))
            .arg("--rules")
            .arg(folder.join("rules.json"))
            .arg("--record")
            .arg(&record)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the model server is built: run scripts/test");
        let mut address = String::new();
        BufReader::new(child.stdout.as_mut().expect("piped")).read_line(&mut address).expect("an address");
        Self { child, record, address: address.trim().to_owned() }
    }

    /// The requests with a prompt that reached it, in order. One without is for something beside a turn: a title, for
    /// example.
    pub fn requests(&self) -> Vec<Value> {
        let has_prompt = |entry: &Value| entry["users"].as_u64().is_some_and(|users| users > 0);
        self.entries().into_iter().filter(has_prompt).collect()
    }

    /// Everything that was recorded, in order.
    pub fn entries(&self) -> Vec<Value> {
        let record = std::fs::read_to_string(&self.record).unwrap_or_default();
        // The last line may be half written.
        let lines = record.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        lines.map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}
