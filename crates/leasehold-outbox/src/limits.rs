//! Limits and pauses that relays and receivers share.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::{Error, Result};

/// How long a batch may continue after a request to stop.
pub(crate) const GRACE: Duration = Duration::from_secs(5);
/// The first and the longest pause after a failed batch.
pub(crate) const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// The settings that relays and receivers share.
#[derive(Clone, Debug)]
pub(crate) struct BatchSettings {
    /// The most rows or messages in a batch.
    pub(crate) batch: usize,
    /// How long no other process gets the rows or messages of a batch.
    pub(crate) claim: Duration,
    /// How often a row or message is tried.
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
    Err(Error::invalid(format!("{name} is {value:?}; {least:?} to {most:?} is allowed")))
}
