//! A stopwatch that does not count the time in which the machine is paused.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long its thread sleeps at a time.
const TICK: Duration = Duration::from_millis(5);

/// Measures how long something takes, for promises that are a time.
///
/// A thread sleeps for a moment, again and again, until the stopwatch is dropped. When it wakes much
/// too late the machine stood still, or had something else to do; so much is taken off. On a machine
/// that has the time, this is the time; on any other, the time that all processes lost is measured and
/// not held against whom the test looks at.
#[derive(Debug)]
pub struct Stopwatch {
    start: Instant,
    woke: Arc<Mutex<Woke>>,
}

/// When the thread woke last, and how much too late it was until then.
#[derive(Debug)]
struct Woke {
    last: Instant,
    late: Duration,
}

impl Woke {
    /// How late it is by now.
    fn late(&self, now: Instant) -> Duration {
        let slept = now.saturating_duration_since(self.last);
        // A little too late is as usual.
        let too_long = if slept > TICK * 2 { slept - TICK } else { Duration::ZERO };
        self.late + too_long
    }
}

impl Stopwatch {
    /// Starts one.
    pub fn start() -> Self {
        let start = Instant::now();
        let woke = Arc::new(Mutex::new(Woke { last: start, late: Duration::ZERO }));
        let watched = Arc::downgrade(&woke);
        thread::spawn(move || {
            while let Some(woke) = watched.upgrade() {
                let now = Instant::now();
                let mut woke = lock(&woke);
                woke.late = woke.late(now);
                woke.last = now;
                drop(woke);
                thread::sleep(TICK);
            }
        });
        Self { start, woke }
    }

    /// The time since the start for which the machine let things happen.
    pub fn elapsed(&self) -> Duration {
        let now = Instant::now();
        now.saturating_duration_since(self.start).saturating_sub(lock(&self.woke).late(now))
    }

    /// The time since the start for which it did not.
    pub fn stalled(&self) -> Duration {
        lock(&self.woke).late(Instant::now())
    }
}

fn lock(woke: &Mutex<Woke>) -> MutexGuard<'_, Woke> {
    woke.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_wake_is_taken_off_and_a_usual_one_is_not() {
        let last = Instant::now();
        let woke = Woke { last, late: Duration::from_secs(1) };
        assert_eq!(woke.late(last + TICK * 2), Duration::from_secs(1));
        assert_eq!(woke.late(last + TICK + Duration::from_secs(2)), Duration::from_secs(3));
        assert_eq!(woke.late(last - TICK), Duration::from_secs(1));
    }

    #[test]
    fn what_only_one_waits_for_is_not_taken_off() {
        let stopwatch = Stopwatch::start();
        let start = Instant::now();
        while stopwatch.elapsed() < Duration::from_millis(300) {
            thread::sleep(Duration::from_millis(100));
        }
        let (took, stalled) = (start.elapsed(), stopwatch.stalled());
        assert!(took >= Duration::from_millis(300) && stalled < took, "{took:?}, {stalled:?}");
    }
}
