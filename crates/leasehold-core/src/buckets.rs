//! The renewal task's timers: coarse buckets, so that thousands of leases wake it a few times.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use leasehold_proto::{Deadline, Lease, Now};

use crate::hold::{Hold, UNSCHEDULED};

/// Width of a bucket for leases that are long enough.
const WIDTH: Duration = Duration::from_millis(100);

/// Holds by the time when each is to be looked at, rounded down to its bucket. Each knows where it
/// is, so that to take one out costs nothing.
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
            // What is due within the bucket is done at its start, but nothing is given back early.
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

    /// Puts a hold where the one is that it has the lease from; sooner if it must be.
    pub(crate) fn take_over(&mut self, from: &Hold, hold: &Arc<Hold>) {
        let key = from.bucket.swap(UNSCHEDULED, Ordering::Relaxed);
        let place = from.place.load(Ordering::Relaxed);
        if let Some(there) = self.0.get_mut(&key).and_then(|bucket| bucket.get_mut(place as usize))
        {
            *there = hold.clone();
            hold.place.store(place, Ordering::Relaxed);
            hold.bucket.store(key, Ordering::Relaxed);
        }
        // A bound of its own may be nearer; and a renewal that came through since the lease was
        // copied has moved the place.
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

    /// When the first bucket is due.
    pub(crate) fn next(&self) -> Option<u64> {
        self.0.first_key_value().map(|(key, _)| *key)
    }

    /// Takes out everything that is due; the caller schedules it anew.
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

/// The moment that a lease in a due bucket is to be treated as: the bucket's end. What is due
/// within the bucket is done now, a little early, rather than at a timer of its own.
pub(crate) fn bucket_end(now: Now, ttl: Duration) -> Now {
    let width = width(ttl);
    Now { steady_ns: now.steady_ns + width, wall_ns: now.wall_ns + width }
}

/// 100 ms, or a hundredth of a short ttl.
pub(crate) fn bucket_width(ttl: Duration) -> Duration {
    WIDTH.min(ttl / 100)
}

fn width(ttl: Duration) -> u64 {
    (bucket_width(ttl).as_nanos() as u64).max(1)
}

/// The width for what a lease has to do next: less when it does not last long, as an offer.
fn width_for(lease: &Lease) -> u64 {
    let ends = lease.deadline().zip(lease.next_timeout());
    let left = ends.map(|(end, next)| end.steady_ns().saturating_sub(next.steady_ns()));
    width(lease.terms().ttl).min(left.map_or(u64::MAX, |left| (left / 100).max(1_000_000)))
}

/// The steady time of a bucket as a deadline for the clock to sleep until.
pub(crate) fn deadline(now: Now, key: u64) -> Deadline {
    Deadline::after(now, Duration::from_nanos(key.saturating_sub(now.steady_ns)))
}
