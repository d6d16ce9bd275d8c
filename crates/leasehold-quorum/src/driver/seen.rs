//! The largest token seen for each lock, if it is above the wall clock.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use leasehold_proto::Now;

use leasehold_core::Name;

/// How many locks are remembered. A lock beyond that may need a second round trip.
const LOCKS: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct Seen(HashMap<Name, u64, RandomState>);

impl Seen {
    pub(super) fn of(&self, name: &Name) -> u64 {
        match self.0.is_empty() {
            true => 0,
            false => self.0.get(name).copied().unwrap_or(0),
        }
    }

    pub(super) fn note(&mut self, now: Now, name: &Name, seen: u64) {
        if seen < now.unix_us() {
            if !self.0.is_empty() {
                self.0.remove(name);
            }
            return;
        }
        if self.0.len() >= LOCKS {
            self.0.retain(|_, seen| *seen >= now.unix_us());
        }
        if self.0.len() < LOCKS {
            self.0.insert(name.clone(), seen);
        }
    }
}
