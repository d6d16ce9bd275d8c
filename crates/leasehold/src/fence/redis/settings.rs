//! The settings of fenced values in Redis: their time to live, and how long their fence is kept.

use std::time::Duration;

use crate::{Error, ErrorKind, Result};

/// Checks fencing tokens for values in Redis; see the [module](super).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedisFence {
    ttl: Option<Duration>,
    retention: Duration,
}

impl RedisFence {
    /// The default [`retention`](Self::retention): 7 days.
    pub const RETENTION: Duration = Duration::from_secs(7 * 24 * 3600);

    /// The longest ttl and retention: 36,500 days.
    pub const LONGEST: Duration = Duration::from_secs(36_500 * 24 * 3600);

    /// Returns settings for values without a ttl, with a retention of
    /// [`RETENTION`](Self::RETENTION).
    pub const fn new() -> Self {
        Self { ttl: None, retention: Self::RETENTION }
    }

    /// Sets the time to live of written values, in whole milliseconds from 1 ms to
    /// [`LONGEST`](Self::LONGEST). Default: values do not expire.
    #[must_use]
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Sets how long the fence is kept after the value has expired or has been deleted. From 1 ms to
    /// [`LONGEST`](Self::LONGEST); default: [`RETENTION`](Self::RETENTION). The fence of a value
    /// without a ttl does not expire. A late write of a holder that was paused for longer than the
    /// retention is accepted. A deleted value uses about 100 bytes for this time.
    #[must_use]
    pub const fn retention(mut self, retention: Duration) -> Self {
        self.retention = retention;
        self
    }

    /// Returns the ttl as an argument of the scripts; 0 means none.
    pub(super) fn ttl_ms(&self) -> Result<String> {
        self.ttl.map_or_else(|| Ok("0".to_owned()), |ttl| millis("ttl", ttl))
    }

    pub(super) fn retention_ms(&self) -> Result<String> {
        millis("retention", self.retention)
    }
}

impl Default for RedisFence {
    fn default() -> Self {
        Self::new()
    }
}

fn millis(field: &str, duration: Duration) -> Result<String> {
    if duration < Duration::from_millis(1) || duration > RedisFence::LONGEST {
        let problem = format!("{field}: {duration:?} is not between 1 ms and 36,500 days");
        return Err(Error::new(ErrorKind::Invalid, problem));
    }
    Ok(duration.as_millis().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_that_redis_cannot_keep_are_refused() {
        for bad in [Duration::ZERO, Duration::from_micros(999), Duration::MAX] {
            let fence = RedisFence::new().ttl(bad).retention(bad);
            for error in [fence.ttl_ms().unwrap_err(), fence.retention_ms().unwrap_err()] {
                assert_eq!(error.kind(), ErrorKind::Invalid);
            }
        }
        assert_eq!(RedisFence::new().ttl(RedisFence::LONGEST).ttl_ms().unwrap(), "3153600000000");
        assert_eq!(RedisFence::new().ttl_ms().unwrap(), "0");
    }
}
