//! The settings of a cache, and their limits.

use std::time::Duration;

use leasehold_cache_redis::check_name;

use crate::gate::Gate;
use crate::{Codec, Error, Result};

const MS: Duration = Duration::from_millis(1);
const DAY: Duration = Duration::from_secs(86_400);

/// Selects what a reader may see during a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// Readers see the value before or after the write, from any replica. Values are also kept in
    /// the memory of the process.
    #[default]
    Eventual,
    /// A `get` that begins after `committed` has returned sees the write. During a write the loader
    /// must read the primary, the process keeps no value of the key, and earlier callers do not
    /// share the load.
    Strong,
}

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) name: String,
    pub(crate) prefix: String,
    pub(crate) ttl: Duration,
    pub(crate) jitter: f64,
    pub(crate) null_ttl: Duration,
    pub(crate) stale_for: Duration,
    pub(crate) soft_limit: Duration,
    pub(crate) hard_limit: Duration,
    pub(crate) lease: Duration,
    pub(crate) mode: Mode,
    pub(crate) replica_lag: Duration,
    pub(crate) write_hold: Duration,
    pub(crate) local_size: usize,
    pub(crate) local_ttl: Duration,
    pub(crate) down_ttl: Duration,
    pub(crate) max_loads: usize,
    pub(crate) early: f64,
    pub(crate) redis_limit: Duration,
    pub(crate) max_value: usize,
    pub(crate) codec: Codec,
    pub(crate) schema: u32,
    pub(crate) gate: Gate,
    #[cfg(feature = "compression")]
    pub(crate) compress_from: Option<usize>,
}

impl Settings {
    /// Returns the defaults for a cache of this name.
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            prefix: "leasehold-cache".to_owned(),
            ttl: Duration::from_secs(300),
            jitter: 0.1,
            null_ttl: Duration::from_secs(30),
            stale_for: Duration::from_secs(60),
            soft_limit: 100 * MS,
            hard_limit: Duration::from_secs(5),
            lease: Duration::from_secs(3),
            mode: Mode::Eventual,
            replica_lag: Duration::ZERO,
            write_hold: Duration::from_secs(30),
            local_size: 10_000,
            local_ttl: Duration::from_secs(60),
            down_ttl: Duration::from_secs(1),
            max_loads: 64,
            early: 1.0,
            redis_limit: 500 * MS,
            max_value: 8 << 20,
            codec: Codec::default(),
            schema: 0,
            gate: Gate::default(),
            #[cfg(feature = "compression")]
            compress_from: None,
        }
    }

    /// Checks all settings.
    pub(crate) fn check(&self) -> Result<()> {
        check_name("name", &self.name)?;
        check_name("prefix", &self.prefix)?;
        let spans = [
            ("ttl", self.ttl, 10 * MS, 30 * DAY),
            ("null_ttl", self.null_ttl, 10 * MS, 30 * DAY),
            ("stale_for", self.stale_for, Duration::ZERO, 30 * DAY),
            ("soft_limit", self.soft_limit, Duration::ZERO, DAY),
            ("hard_limit", self.hard_limit, MS, DAY),
            ("lease", self.lease, 10 * MS, DAY),
            ("replica_lag", self.replica_lag, Duration::ZERO, DAY),
            ("write_hold", self.write_hold, 10 * MS, DAY),
            ("local_ttl", self.local_ttl, Duration::ZERO, 30 * DAY),
            ("down_ttl", self.down_ttl, Duration::ZERO, DAY),
            ("redis_limit", self.redis_limit, MS, DAY),
        ];
        for (name, value, least, most) in spans {
            if value < least || value > most {
                let what = format!("{name} is {value:?}; {least:?} to {most:?} is allowed");
                return Err(Error::invalid(what));
            }
        }
        if self.hard_limit <= self.lease {
            let (limit, lease) = (self.hard_limit, self.lease);
            return Err(Error::invalid(format!(
                "hard_limit is {limit:?} and lease is {lease:?}: if a process dies while it \
                 loads, readers time out before another process may load; set hard_limit to lease \
                 plus the duration of a load"
            )));
        }
        if self.mode == Mode::Strong && self.gate.learns_late() {
            return Err(Error::invalid(
                "filter is Filter::per_process and mode is Strong: other processes learn of a new key a \
                 moment after the write; use bloom::Redis, or Mode::Eventual",
            ));
        }
        for (name, value, most) in [("jitter", self.jitter, 0.9), ("early", self.early, 100.0)] {
            if !(0.0..=most).contains(&value) {
                return Err(Error::invalid(format!("{name} is {value}; 0 to {most} is allowed")));
            }
        }
        if self.max_loads == 0 || self.max_loads > tokio::sync::Semaphore::MAX_PERMITS {
            return Err(Error::invalid(format!(
                "max_loads is {}; 1 or more is allowed",
                self.max_loads
            )));
        }
        Ok(())
    }

    /// Returns how long an entry that is filled now stays fresh; `dice` is uniform in 0 to 1.
    pub(crate) fn fresh(&self, null: bool, dice: f64) -> Duration {
        let ttl = if null { self.null_ttl } else { self.ttl };
        ttl.mul_f64(1.0 - self.jitter * dice).max(MS)
    }

    /// Returns how long an entry may be served after that.
    pub(crate) fn stale(&self, null: bool) -> Duration {
        if null { Duration::ZERO } else { self.stale_for }
    }
}
