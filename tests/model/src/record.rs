//! What reached the model, one JSON line each.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

/// The record, if one is kept.
#[derive(Debug)]
pub(crate) struct Record(Option<Mutex<File>>);

impl Record {
    pub(crate) fn open(path: Option<&Path>) -> io::Result<Self> {
        let open = |path| File::options().create(true).append(true).open(path);
        Ok(Self(path.map(open).transpose()?.map(Mutex::new)))
    }

    pub(crate) fn note(&self, entry: &Value) {
        let Some(file) = &self.0 else { return };
        let line = format!("{entry}\n");
        if let Err(error) = file.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes()) {
            eprintln!("ostler-model: the record cannot be written: {error}");
        }
    }
}
