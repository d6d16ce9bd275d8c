//! Excludes keys that cannot have a value, by their form or by a filter, before Redis or the loader
//! is called.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::clock::Clock;

#[cfg(feature = "filters")]
use crate::filter::Filter;
use crate::stats::Counters;

/// Returns true if a key of this text can have a value.
type Form = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// The checks of a key before the cache reads it.
#[derive(Clone, Default)]
pub(crate) struct Gate {
    pub(crate) form: Option<Form>,
    #[cfg(feature = "filters")]
    pub(crate) filter: Option<Filter>,
}

impl Gate {
    /// Returns true if the key can have a value, by its form.
    pub(crate) fn has_form(&self, key: &str, counters: &Counters) -> bool {
        let has = self.form.as_ref().is_none_or(|form| form(key));
        if !has {
            counters.malformed.add();
        }
        has
    }
}

#[cfg(feature = "filters")]
impl Gate {
    /// Returns the gate for one cache, with its own filter.
    pub(crate) fn for_one_cache(mut self) -> Self {
        self.filter = self.filter.map(Filter::for_one_cache);
        self
    }

    pub(crate) fn has_filter(&self) -> bool {
        self.filter.is_some()
    }

    /// Returns true if the filter learns of a new key only by a message.
    pub(crate) fn learns_late(&self) -> bool {
        self.per_process().is_some()
    }

    /// Records that the value of this key has changed, or may have changed.
    pub(crate) fn changed(&self, key: &str) {
        if let Some(filter) = self.per_process() {
            filter.add(key);
        }
    }

    /// Records whether changes are received from now on. A write that began before may commit until
    /// `hold` is over.
    pub(crate) fn set_subscribed(&self, is_subscribed: bool, hold: Duration, clock: &Clock) {
        if let Some(filter) = self.per_process() {
            filter.set_subscribed(is_subscribed, hold, clock);
        }
    }

    /// Returns for each key whether the filter excludes it.
    pub(crate) async fn absent(&self, keys: &[&str], counters: &Counters) -> Vec<bool> {
        match &self.filter {
            Some(filter) => filter.absent(keys, counters).await,
            None => vec![false; keys.len()],
        }
    }

    fn per_process(&self) -> Option<&Arc<crate::per_process::PerProcess>> {
        self.filter.as_ref()?.per_process_filter()
    }
}

/// Without the feature, every key of the right form passes.
#[cfg(not(feature = "filters"))]
impl Gate {
    pub(crate) fn for_one_cache(self) -> Self {
        self
    }

    pub(crate) fn has_filter(&self) -> bool {
        false
    }

    pub(crate) fn learns_late(&self) -> bool {
        false
    }

    pub(crate) fn changed(&self, _: &str) {}

    pub(crate) fn set_subscribed(&self, _: bool, _: Duration, _: &Clock) {}

    pub(crate) async fn absent(&self, keys: &[&str], _: &Counters) -> Vec<bool> {
        vec![false; keys.len()]
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut gate = f.debug_struct("Gate");
        gate.field("form", &self.form.is_some());
        #[cfg(feature = "filters")]
        gate.field("filter", &self.filter);
        gate.finish()
    }
}
