//! The only module that reads a clock: a steady clock that counts suspend, and the wall clock.

#![allow(clippy::disallowed_methods, reason = "all others take the time from here")]

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leasehold_proto::{Deadline, Now};
use tokio::sync::watch;

/// Timers of the runtime do not advance during suspend, so long sleeps are cut into pieces of this
/// length.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The source of time of a client: the system, or a clock that a test moves.
#[derive(Clone, Debug, Default)]
pub struct Clock(Option<Arc<Manual>>);

/// A clock that does not advance until a test moves it.
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<Manual>);

#[derive(Debug)]
struct Manual {
    now: Mutex<Now>,
    moved: watch::Sender<()>,
}

impl Clock {
    /// Returns the system clock: `CLOCK_BOOTTIME` on Linux and Android, the continuous clock on
    /// macOS.
    pub fn system() -> Self {
        Self(None)
    }

    /// Reads both clocks.
    pub fn now(&self) -> Now {
        match &self.0 {
            None => Now { steady_ns: steady_ns(), wall_ns: wall_ns() },
            Some(manual) => *manual.now.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Sleeps until `deadline` has passed on either clock. It reads the clock at least every
    /// second, so that a suspend or a clock jump delays it by at most 1 s.
    pub async fn sleep_until(&self, deadline: Deadline) {
        self.sleep_since(self.now(), deadline).await;
    }

    async fn sleep_since(&self, mut now: Now, deadline: Deadline) {
        let mut moved = self.0.as_ref().map(|manual| manual.moved.subscribe());
        loop {
            let left = deadline.remaining(now);
            if left.is_zero() {
                return;
            }
            match &mut moved {
                Some(moved) => {
                    if moved.changed().await.is_err() {
                        return std::future::pending().await;
                    }
                }
                None => tokio::time::sleep(left.min(LOOK_AGAIN)).await,
            }
            now = self.now();
        }
    }

    /// Sleeps for `pause` by this clock.
    pub async fn sleep(&self, pause: Duration) {
        self.sleep_until(Deadline::after(self.now(), pause)).await;
    }

    /// Runs `future` until `deadline`; `None` if the deadline passed first. Without a deadline
    /// there is no limit.
    pub async fn within<T>(
        &self,
        deadline: Option<Deadline>,
        future: impl Future<Output = T>,
    ) -> Option<T> {
        match deadline {
            Some(deadline) => self.within_since(self.now(), deadline, future).await,
            None => Some(future.await),
        }
    }

    /// Does the same for a caller that has just read the clock.
    pub async fn within_since<T>(
        &self,
        now: Now,
        deadline: Deadline,
        future: impl Future<Output = T>,
    ) -> Option<T> {
        tokio::select! {
            biased;
            done = future => Some(done),
            () = self.sleep_since(now, deadline) => None,
        }
    }
}

impl ManualClock {
    /// Creates a clock at an arbitrary steady time, with the wall clock in 2026.
    #[expect(clippy::new_without_default, reason = "a clock out of nowhere is to be asked for")]
    pub fn new() -> Self {
        let start = Now { steady_ns: 1_000_000_000_000, wall_ns: 1_780_000_000_000_000_000 };
        Self(Arc::new(Manual { now: Mutex::new(start), moved: watch::channel(()).0 }))
    }

    /// Returns the clock to give to a client or backend.
    pub fn clock(&self) -> Clock {
        Clock(Some(self.0.clone()))
    }

    /// Moves both clocks forward and wakes all sleepers.
    pub fn advance(&self, by: Duration) {
        let ns = by.as_nanos() as u64;
        self.change(|now| {
            now.steady_ns += ns;
            now.wall_ns += ns;
        });
    }

    /// Moves the wall clock alone, forward or back, by this many seconds.
    pub fn step_wall(&self, seconds: i64) {
        self.change(|now| now.wall_ns = now.wall_ns.saturating_add_signed(seconds * 1_000_000_000));
    }

    fn change(&self, change: impl FnOnce(&mut Now)) {
        change(&mut self.0.now.lock().unwrap_or_else(PoisonError::into_inner));
        self.0.moved.send_replace(());
    }
}

#[cfg(unix)]
fn wall_ns() -> u64 {
    clock_ns(nix::time::ClockId::CLOCK_REALTIME)
}

#[cfg(not(unix))]
#[allow(clippy::disallowed_methods)] // This is the one place.
fn wall_ns() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as u64)
}

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
fn steady_ns() -> u64 {
    use nix::time::ClockId;
    #[cfg(target_vendor = "apple")]
    const COUNTS_SUSPEND: ClockId = ClockId::CLOCK_MONOTONIC;
    #[cfg(not(target_vendor = "apple"))]
    const COUNTS_SUSPEND: ClockId = ClockId::CLOCK_BOOTTIME;
    clock_ns(COUNTS_SUSPEND)
}

#[cfg(unix)]
fn clock_ns(clock: nix::time::ClockId) -> u64 {
    // Fails only if the kernel does not have this clock (Linux before 2.6.39).
    nix::time::clock_gettime(clock).map_or(0, |time| {
        (time.tv_sec() as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec() as u64)
    })
}

/// On other systems, the wall clock of a deadline detects a suspend.
#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
#[allow(clippy::disallowed_methods)]
fn steady_ns() -> u64 {
    use std::sync::OnceLock;
    use std::time::Instant;
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sleepers_follow_the_hand_driven_clock() {
        let hand = ManualClock::new();
        let clock = hand.clock();
        let sleeper = tokio::spawn({
            let clock = clock.clone();
            async move { clock.sleep(Duration::from_secs(3600)).await }
        });
        tokio::task::yield_now().await;
        hand.advance(Duration::from_secs(3599));
        tokio::task::yield_now().await;
        assert!(!sleeper.is_finished());
        hand.advance(Duration::from_secs(1));
        sleeper.await.unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_steady_clock_counts_suspend() {
        let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
        let seconds: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
        let ours = Clock::system().now().steady_ns as f64 / 1e9;
        assert!((ours - seconds).abs() < 5.0, "/proc/uptime counts suspend: {seconds} {ours}");
    }
}
