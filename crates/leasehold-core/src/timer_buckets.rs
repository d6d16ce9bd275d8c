//! The timers of the renewal task, in coarse buckets: thousands of leases cause only a few
//! wake-ups.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use leasehold_proto::{Deadline, Lease, Now};

use crate::hold::{Hold, UNSCHEDULED};

/// The width of a bucket for leases that are long enough.
const WIDTH: Duration = Duration::from_millis(100);

/// Holds by the time when each is due, rounded down to its bucket. Each hold knows its place, so
/// that removing it is cheap.
#[derive(Debug, Default)]
pub(crate) struct Buckets(BTreeMap<u64, Vec<Arc<Hold>>>);

impl Buckets {
    /// Moves a hold to the bucket of its next timeout.
    pub(crate) fn schedule(&mut self, hold: &Arc<Hold>) {
        let (next, width, lost) = {
            let lease = hold.lease();
            (lease.next_timeout(), width_for(&lease), lease.loss().is_some())
        };
        let key = next.map_or(UNSCHEDULED, |next| match next.steady_ns() {
            // Timeouts within a bucket are handled at its start, but no lease is released early.
            next if lost => next.next_multiple_of(width),
            next => next / width * width,
        });
        if key == hold.bucket.load(Ordering::Relaxed) {
            return;
        }
        self.unschedule(hold);
        if key != UNSCHEDULED {
            let bucket = self.0.entry(key).or_default();
            hold.place.store(bucket.len() as u32, Ordering::Relaxed);
            hold.bucket.store(key, Ordering::Relaxed);
            bucket.push(hold.clone());
        }
    }

    /// Puts a hold in the place of the hold whose lease it took over, or earlier if needed.
    pub(crate) fn take_over(&mut self, from: &Hold, hold: &Arc<Hold>) {
        let key = from.bucket.swap(UNSCHEDULED, Ordering::Relaxed);
        let place = from.place.load(Ordering::Relaxed);
        if let Some(there) = self.0.get_mut(&key).and_then(|bucket| bucket.get_mut(place as usize))
        {
            *there = hold.clone();
            hold.place.store(place, Ordering::Relaxed);
            hold.bucket.store(key, Ordering::Relaxed);
        }
        // Its own limits may end earlier, and a renewal that succeeded since the lease was copied
        // has moved the place.
        self.schedule(hold);
    }

    pub(crate) fn unschedule(&mut self, hold: &Hold) {
        let key = hold.bucket.swap(UNSCHEDULED, Ordering::Relaxed);
        let Some(bucket) = self.0.get_mut(&key) else { return };
        let place = hold.place.load(Ordering::Relaxed);
        bucket.swap_remove(place as usize);
        if let Some(moved) = bucket.get(place as usize) {
            moved.place.store(place, Ordering::Relaxed);
        }
        if bucket.is_empty() {
            self.0.remove(&key);
        }
    }

    /// Returns when the first bucket is due.
    pub(crate) fn next(&self) -> Option<u64> {
        self.0.first_key_value().map(|(key, _)| *key)
    }

    /// Removes and returns all due holds; the caller schedules them again.
    pub(crate) fn take_due(&mut self, now: Now) -> Vec<Arc<Hold>> {
        let mut due = Vec::new();
        while let Some(entry) = self.0.first_entry()
            && *entry.key() <= now.steady_ns
        {
            due.append(&mut entry.remove());
        }
        due.iter().for_each(|hold| hold.bucket.store(UNSCHEDULED, Ordering::Relaxed));
        due
    }
}

/// Returns the moment to use for leases of a due bucket: the end of the bucket. What is due within
/// the bucket is done now, a little early, without its own timer.
pub(crate) fn bucket_end(now: Now, ttl: Duration) -> Now {
    let width = width(ttl);
    Now { steady_ns: now.steady_ns + width, wall_ns: now.wall_ns + width }
}

/// Returns the bucket width: 100 ms, or a hundredth of a short ttl.
pub(crate) fn bucket_width(ttl: Duration) -> Duration {
    WIDTH.min(ttl / 100)
}

fn width(ttl: Duration) -> u64 {
    (bucket_width(ttl).as_nanos() as u64).max(1)
}

/// Returns the width for the next timeout of a lease: less for a short lease, such as an offer.
/// Widths below the full one are powers of two: leases whose remaining times differ a little would
/// otherwise have buckets of slightly different widths, and share none.
fn width_for(lease: &Lease) -> u64 {
    let full = width(lease.terms().ttl);
    let ends = lease.deadline().zip(lease.next_timeout());
    let left = ends.map(|(end, next)| end.steady_ns().saturating_sub(next.steady_ns()));
    match left.map_or(u64::MAX, |left| (left / 100).max(1_000_000)) {
        enough if enough >= full => full,
        less => 1 << less.ilog2(),
    }
}

/// Returns the steady time of a bucket as a deadline that the clock can sleep until.
pub(crate) fn deadline(now: Now, key: u64) -> Deadline {
    Deadline::after(now, Duration::from_nanos(key.saturating_sub(now.steady_ns)))
}

#[cfg(test)]
mod tests {
    use leasehold_proto::Terms;

    use super::*;

    /// The lease of a ttl of 3 s that was granted after this time, with this jitter of its renewal.
    fn granted_after(late: Duration, jitter: u64) -> Lease {
        let (sent, ttl) = (Now { steady_ns: 0, wall_ns: 0 }, Duration::from_secs(3));
        let terms = Terms { ttl, renew_after: Some(ttl / 3), max_hold: None, session: false };
        let mut lease = Lease::ask(sent, terms);
        let late = late.as_nanos() as u64;
        lease.handle_granted(Now { steady_ns: late, wall_ns: late }, None, false, jitter).unwrap();
        lease
    }

    #[test]
    fn short_leases_whose_remaining_times_differ_have_one_bucket_width() {
        let widths = (0..20).map(|step| {
            let jitter = step << 59;
            width_for(&granted_after(Duration::from_micros(step * 100), jitter))
        });
        let widths: Vec<u64> = widths.collect();
        assert!(widths.iter().all(|width| *width == widths[0]), "{widths:?}");
    }
}
