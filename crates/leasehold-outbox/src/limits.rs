//! Bounds and pauses that relays and receivers share.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::{Error, Result};

/// How long a batch may go on after it was asked to stop.
pub(crate) const GRACE: Duration = Duration::from_secs(5);
/// Pauses after a batch that failed: the first and the longest.
pub(crate) const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

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
