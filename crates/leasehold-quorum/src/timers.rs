//! The times at which attempts are due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use leasehold_proto::Now;

/// Points of the steady clock, each with the number of an attempt. An entry that is not needed any
/// more stays until it is due; the code that takes it out checks whether it still applies.
#[derive(Debug, Default)]
pub(super) struct Timers(BinaryHeap<Reverse<(u64, usize)>>);

impl Timers {
    pub(super) fn set(&mut self, at_ns: u64, number: usize) {
        self.0.push(Reverse((at_ns, number)));
    }

    /// Returns when the next entry is due.
    pub(super) fn next(&self) -> Option<u64> {
        self.0.peek().map(|Reverse((at_ns, _))| *at_ns)
    }

    /// Takes out an entry that is due.
    pub(super) fn take_due(&mut self, now: Now) -> Option<(u64, usize)> {
        if self.next()? > now.steady_ns {
            return None;
        }
        self.0.pop().map(|Reverse(timer)| timer)
    }
}
