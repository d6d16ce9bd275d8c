//! One round of `hold`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::runtime::Flavour;
use crate::store::Store;

/// Which part of the benchmark.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) enum Phase {
    /// Many locks are held.
    Held,
    /// The same without Leasehold: a task for each lock renews it.
    #[cfg(feature = "servers")]
    TaskPerLock,
    /// Many tasks wait for one lock.
    Waiting,
}

/// The order for a round.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Round {
    pub(crate) phase: Phase,
    pub(crate) store: Store,
    pub(crate) runtime: Flavour,
    pub(crate) locks: usize,
    pub(crate) waiters: usize,
    pub(crate) ttl_ms: u64,
    pub(crate) seconds: u64,
}

/// What a round has measured, by the metric's name.
pub(crate) type Figures = BTreeMap<String, f64>;
