//! The names that this client observes, and the marks of their changes.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use leasehold_core::Name;
use leasehold_core::backend::{ChangeSource, Changes};

/// The observed names.
#[derive(Debug, Default)]
pub(crate) struct Observed(Mutex<BTreeMap<Name, Observation>>);

/// One observed name.
#[derive(Debug, Default)]
struct Observation {
    source: ChangeSource,
    /// The stamp of the last poll; `None` before the first one.
    stamp: Option<Option<i64>>,
}

impl Observed {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Name, Observation>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what the later changes of a name mark.
    pub(crate) fn observe(&self, name: &Name) -> Changes {
        self.lock().entry(name.clone()).or_default().source.observe()
    }

    /// Returns true while someone observes a name.
    pub(crate) fn is_some(&self) -> bool {
        self.lock().values().any(|one| one.source.is_observed())
    }

    /// Marks a change.
    fn mark(&self, name: &str) {
        let name = Name::new(name);
        let table = self.lock();
        if let Some(one) = name.ok().and_then(|name| table.get(&name)) {
            one.source.mark();
        }
    }

    /// Handles a message of the server; other messages have no effect.
    #[cfg(any(feature = "postgres", feature = "fuzzing"))]
    pub(crate) fn hear(&self, word: &str) {
        let Some(hex) = word.strip_prefix('C') else { return };
        let byte = |at: usize| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
        let bytes: Option<Vec<u8>> = (0..hex.len()).step_by(2).map(byte).collect();
        if let Some(name) = bytes.and_then(|bytes| String::from_utf8(bytes).ok()) {
            self.mark(&name);
        }
    }

    /// Forgets names that no one observes any more; returns them, and the others.
    pub(crate) fn sort(&self) -> (Vec<Name>, Vec<Name>) {
        let mut table = self.lock();
        let gone = table.iter().filter(|(_, one)| !one.source.is_observed());
        let gone: Vec<Name> = gone.map(|(name, _)| name.clone()).collect();
        table.retain(|_, one| one.source.is_observed());
        (gone, table.keys().cloned().collect())
    }

    /// Marks the names whose stamps have changed, and those that were not polled before.
    pub(crate) fn compare(&self, names: &[Name], stamps: &BTreeMap<Name, i64>) {
        let mut table = self.lock();
        for name in names {
            let Some(one) = table.get_mut(name) else { continue };
            let stamp = Some(stamps.get(name).copied());
            if one.stamp != stamp {
                one.stamp = stamp;
                one.source.mark();
            }
        }
    }
}
