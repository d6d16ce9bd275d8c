//! The names of all locks with a prefix, step by step.

use leasehold_core::{Name, Result};
use redis::{Cmd, Value};

use crate::error::strange;
use crate::key::Keys;

/// Keys looked at by one SCAN: a server does nothing else meanwhile.
const SCAN: usize = 1000;

/// A walk over the keys. Each command's answer is given back before the next.
#[derive(Debug)]
pub(crate) struct Scan<'a> {
    keys: &'a Keys,
    pattern: String,
    cursor: Option<String>,
    names: Vec<Name>,
}

impl<'a> Scan<'a> {
    pub(crate) fn new(keys: &'a Keys, prefix: &str) -> Self {
        let (pattern, cursor) = (keys.pattern(prefix), Some("0".to_owned()));
        Self { keys, pattern, cursor, names: Vec::new() }
    }

    /// Begins again, with the keys of another server.
    pub(crate) fn begin(&mut self) {
        self.cursor = Some("0".to_owned());
    }

    /// The next command, if the walk is not over.
    pub(crate) fn next(&self) -> Option<Cmd> {
        let mut scan = redis::cmd("SCAN");
        scan.arg(self.cursor.as_ref()?).arg("MATCH").arg(&self.pattern).arg("COUNT").arg(SCAN);
        scan.arg("TYPE").arg("string");
        Some(scan)
    }

    pub(crate) fn take(&mut self, page: Value) -> Result<()> {
        let (next, keys): (String, Vec<Vec<u8>>) =
            redis::from_redis_value(page).map_err(|error| strange(error.to_string()))?;
        let keys = keys.iter().filter_map(|key| std::str::from_utf8(key).ok());
        self.names.extend(keys.filter_map(|key| self.keys.name(key)));
        self.cursor = (next != "0").then_some(next);
        Ok(())
    }

    /// Those that were found since this was called last.
    pub(crate) fn take_names(&mut self) -> Vec<Name> {
        std::mem::take(&mut self.names)
    }

    /// In order, each once.
    pub(crate) fn names(self) -> Vec<Name> {
        let mut names = self.names;
        names.sort();
        names.dedup();
        names
    }
}
