//! How long a value stays in Redis, and how long its fence outlives it.

use std::time::Duration;

use crate::{Error, ErrorKind, Result};

/// Checks of fencing tokens at values in Redis; see the [module](super).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedisFence {
    ttl: Option<Duration>,
    retention: Duration,
}

impl RedisFence {
    /// How long a fence outlives its value by default: 7 days.
    pub const RETENTION: Duration = Duration::from_secs(7 * 24 * 3600);

    /// The longest ttl and retention: 36,500 days.
    pub const LONGEST: Duration = Duration::from_secs(36_500 * 24 * 3600);

    /// Values without a ttl; [`RETENTION`](Self::RETENTION) after they have been deleted.
    pub const fn new() -> Self {
        Self { ttl: None, retention: Self::RETENTION }
    }

    /// Values that are set end after `ttl`, in whole milliseconds, from 1 ms to
    /// [`LONGEST`](Self::LONGEST). Default: never.
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// The fence stays this long after the value has ended or has been deleted; beside a value
    /// without a ttl it stays for ever. From 1 ms to [`LONGEST`](Self::LONGEST); default:
    /// [`RETENTION`](Self::RETENTION). A holder that is paused for longer than that writes
    /// unrefused. It is what a deleted value costs: about 100 bytes for that time.
    pub const fn retention(mut self, retention: Duration) -> Self {
        self.retention = retention;
        self
    }

    /// The ttl as an argument of the scripts, 0 for none.
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
