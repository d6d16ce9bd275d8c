//! Lists the names of all locks with a prefix, step by step.

use leasehold_core::{Name, Result};
use redis::{Cmd, Value};

use crate::error::strange;
use crate::key::Keys;

/// How many keys one SCAN checks: the server does nothing else meanwhile.
const SCAN: usize = 1000;

/// A walk over the keys. Pass the answer of each command before the next command.
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

    /// Returns the next command, unless the walk has ended.
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

    /// Returns the names found since the last call.
    pub(crate) fn take_names(&mut self) -> Vec<Name> {
        std::mem::take(&mut self.names)
    }

    /// Returns all names in order, each once.
    pub(crate) fn names(self) -> Vec<Name> {
        let mut names = self.names;
        names.sort();
        names.dedup();
        names
    }
}
