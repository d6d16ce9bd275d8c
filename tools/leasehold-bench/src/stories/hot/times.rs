//! The times of `cache-hot`, and what follows from when loads began.

use std::time::Duration;

use super::Phase;

/// How long a load takes, and how long a task rests between two requests, on average.
pub(super) const LOAD: Duration = Duration::from_millis(100);
pub(super) const REST: Duration = Duration::from_millis(50);
/// Loads of a process at a time.
pub(super) const MAX_LOADS: usize = 4;

#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) ttl: Duration,
    pub(super) lease: Duration,
    /// How many ttls are watched, and how long Redis is down.
    expiries: u32,
    down: Duration,
}

impl Times {
    pub(super) fn of(quick: bool) -> Self {
        let secs = Duration::from_secs;
        match quick {
            true => Self { ttl: secs(2), lease: secs(2), expiries: 2, down: secs(2) },
            false => Self { ttl: secs(3), lease: secs(1), expiries: 5, down: secs(5) },
        }
    }

    pub(super) fn window(&self, phase: Phase) -> Duration {
        match phase {
            Phase::None => self.ttl * self.expiries,
            _ => self.down,
        }
    }

    /// Loads that began with less than a third of the ttl between them belong to the same expiry.
    pub(super) fn loads_per_expiry(&self, loads_us: &[u64]) -> f64 {
        let apart = (self.ttl / 3).as_micros() as u64;
        let ends = |pair: &&[u64]| pair[1] - pair[0] >= apart;
        let expiries = 1 + loads_us.windows(2).filter(ends).count();
        loads_us.len() as f64 / expiries as f64
    }

    /// The most that began within the time that one load takes.
    pub(super) fn at_once(&self, loads_us: &[u64]) -> usize {
        let took = LOAD.as_micros() as u64;
        let since = |at: usize| loads_us[..=at].partition_point(|us| us + took <= loads_us[at]);
        (0..loads_us.len()).map(|at| at + 1 - since(at)).max().unwrap_or_default()
    }

    /// What stands below the table.
    pub(super) fn told(&self, processes: usize) -> String {
        let Self { ttl, lease, .. } = self;
        format!(
            "ttl {ttl:?}, a load takes {LOAD:?}, lease {lease:?}; a process may load {MAX_LOADS} keys at \
             once: {} of all",
            processes * MAX_LOADS
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_with_a_third_of_the_ttl_between_them_are_two_expiries() {
        let times = Times::of(false);
        assert_eq!(times.loads_per_expiry(&[0, 100, 999_000, 2_000_000]), 2.0);
        assert_eq!(times.loads_per_expiry(&[]), 0.0);
    }

    #[test]
    fn loads_are_at_once_within_the_time_of_one() {
        let times = Times::of(false);
        assert_eq!(times.at_once(&[0, 50_000, 99_999, 100_000, 250_000]), 3);
        assert_eq!(times.at_once(&[]), 0);
    }
}
