//! When attempts are to be looked at again.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use leasehold_proto::Now;

/// Points of the steady clock, each with the number of an attempt. One that is not wanted any more
/// stays until its time has come; whoever takes it out looks whether it still is.
#[derive(Debug, Default)]
pub(super) struct Timers(BinaryHeap<Reverse<(u64, usize)>>);

impl Timers {
    pub(super) fn set(&mut self, at_ns: u64, number: usize) {
        self.0.push(Reverse((at_ns, number)));
    }

    /// When the next one is due.
    pub(super) fn next(&self) -> Option<u64> {
        self.0.peek().map(|Reverse((at_ns, _))| *at_ns)
    }

    /// Takes out one that is due.
    pub(super) fn take_due(&mut self, now: Now) -> Option<(u64, usize)> {
        if self.next()? > now.steady_ns {
            return None;
        }
        self.0.pop().map(|Reverse(timer)| timer)
    }
}
