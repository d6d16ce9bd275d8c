//! The time of the servers, as a client knows it between two requests.

use std::time::Duration;

use leasehold_core::Now;

/// How long a time that was read from the servers is used with the client's own clock.
const FRESH: Duration = Duration::from_secs(30);
/// The clocks of the client and the servers differ by less than this part of the time that passes.
const DRIFT: u32 = 100;

/// The time of the leader at a moment, in milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerTime {
    pub(crate) at: Now,
    pub(crate) unix_ms: i64,
}

impl ServerTime {
    /// Returns the least time that it is now for the servers; `None` if the time was read too long ago.
    pub(crate) fn now(self, now: Now) -> Option<i64> {
        let passed = Duration::from_nanos(now.steady_ns.saturating_sub(self.at.steady_ns));
        let passed = passed.saturating_sub(passed / DRIFT);
        (passed < FRESH).then(|| self.unix_ms.saturating_add(passed.as_millis() as i64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_the_servers_is_never_ahead_and_soon_read_again() {
        let at = Now { steady_ns: 7, wall_ns: 0 };
        let after = |ms: u64| Now { steady_ns: 7 + ms * 1_000_000, ..at };
        let time = ServerTime { at, unix_ms: 5_000 };
        assert_eq!(time.now(at), Some(5_000));
        assert_eq!(time.now(after(1_000)), Some(5_990));
        assert_eq!(time.now(after(40_000)), None);
    }
}
