//! Bounds and pauses that relays and receivers share.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::{Error, Result};

/// How long a batch may go on after it was asked to stop.
pub(crate) const GRACE: Duration = Duration::from_secs(5);
/// Pauses after a batch that failed: the first and the longest.
pub(crate) const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// The settings that a relay and a receiver share: how they take a batch, and repeat what is refused.
#[derive(Clone, Debug)]
pub(crate) struct BatchSettings {
    /// How many rows or messages are taken at a time.
    pub(crate) batch: usize,
    /// For how long no other process gets them.
    pub(crate) claim: Duration,
    /// How often one is tried.
    pub(crate) tries: u32,
}

impl Default for BatchSettings {
    fn default() -> Self {
        Self { batch: 256, claim: Duration::from_secs(30), tries: 10 }
    }
}

impl BatchSettings {
    pub(crate) fn check(&self) -> Result<()> {
        in_range("batch", self.batch, 1..=1_000)?;
        in_range("tries", self.tries, 1..=1_000)?;
        in_range("claim", self.claim, Duration::from_secs(1)..=Duration::from_secs(3_600))
    }
}

/// Checks that a setting is in its range.
pub(crate) fn in_range<T: PartialOrd + fmt::Debug>(
    name: &str,
    value: T,
    allowed: RangeInclusive<T>,
) -> Result<()> {
    if allowed.contains(&value) {
        return Ok(());
    }
    let (least, most) = (allowed.start(), allowed.end());
    Err(Error::invalid(format!("{name} is {value:?}; allowed is {least:?} to {most:?}")))
}
