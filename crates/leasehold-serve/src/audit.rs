//! The record of forced releases: who ended which lease, when, and why.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use leasehold::{Error, ErrorKind};
use serde_json::Value;

use crate::text;

/// Where forced releases are written.
#[derive(Debug)]
pub(crate) enum Audit {
    Stderr,
    File(Mutex<File>),
}

impl Audit {
    /// Opens the file, which it only appends to; without one it is standard error.
    pub(crate) fn open(path: Option<&Path>) -> Result<Self, Error> {
        let Some(path) = path else { return Ok(Self::Stderr) };
        let opened = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
        let file = opened.map_err(|error| {
            let what = format!(
                "--audit-file {}: cannot open it: {error}; name a file in a directory that exists",
                path.display()
            );
            Error::new(ErrorKind::Invalid, what).with_source(error)
        })?;
        Ok(Self::File(Mutex::new(file)))
    }

    /// Writes one line of JSON.
    pub(crate) fn write(&self, entry: &Value) -> io::Result<()> {
        let line = text::json(entry) + "\n";
        match self {
            Self::Stderr => io::stderr().lock().write_all(line.as_bytes()),
            Self::File(file) => {
                let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
                file.write_all(line.as_bytes())?;
                file.sync_data()
            }
        }
    }
}
