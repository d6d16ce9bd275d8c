//! When servers may have forgotten what they had granted: holders from before overlap with those after.

use std::collections::BTreeMap;

use super::Evidence;
use crate::TTL;
use crate::fault::{Fault, Injected};
use crate::journal::Hold;
use crate::master_switch::Switch;
use crate::setup::SetUp;

/// The ttl in the unit of all times.
const LEASE: u64 = TTL.as_nanos() as u64;
/// Clients leave an old master within this time after sentinels name another one, or a node serves its slots.
const LEAVE: u64 = LEASE;

/// A client process that was stopped: it learned of a switch no earlier than it went on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopped {
    pub(crate) client: u32,
    pub(crate) from: u64,
    pub(crate) until: u64,
}

/// A moment at which leases were forgotten.
#[derive(Clone, Copy, Debug)]
struct Moment {
    fault: Fault,
    from: u64,
    /// A lease that the servers do not know begins before this time.
    begins: u64,
    /// A hold beside such a lease begins no later than this after that time.
    rest: u64,
}

/// All such moments of a run.
#[derive(Debug)]
pub(super) struct Forgets {
    moments: Vec<Moment>,
    /// When each lease was acquired: it may have been passed on inside its process since.
    begun: BTreeMap<(u32, u32), u64>,
    /// Where clients must leave an old master.
    stopped: Vec<Stopped>,
}

impl Forgets {
    pub(super) fn of(evidence: &Evidence) -> Self {
        let forgets = |one: &&Injected| !evidence.setup.keeps_exclusion(one.fault);
        let forgets: Vec<&Injected> = evidence.injected.iter().filter(forgets).collect();
        let (moments, stopped) = match evidence.setup.is_replicated() {
            // What a fault of a server leads to, if anything, is a switch, but for a clock.
            true => {
                let switched = evidence.switches.iter().map(|one| of_switch(*one, &forgets));
                let clocks = forgets.iter().filter(|one| one.fault.ends_leases());
                let clocks = clocks.map(|one| of_fault(one, evidence.setup));
                (switched.chain(clocks).collect(), evidence.stopped.clone())
            }
            false => {
                (forgets.iter().map(|one| of_fault(one, evidence.setup)).collect(), Vec::new())
            }
        };
        let mut begun = BTreeMap::new();
        for hold in &evidence.holds {
            let first = begun.entry(hold.lease()).or_insert(hold.got);
            *first = hold.got.min(*first);
        }
        Self { moments, begun, stopped }
    }

    /// The fault that allows an overlap: one of the leases is from before its moment, and the second hold from after
    /// it. A lease that the servers have forgotten goes on for a ttl at the most, from one task to the next.
    pub(super) fn allows(&self, first: &Hold, second: &Hold) -> Option<Fault> {
        let allows = |one: &&Moment| {
            let is_forgotten = |hold: &&Hold| {
                let begun = self.begun.get(&hold.lease()).copied().unwrap_or(hold.got);
                let begins = self.begins(one, hold.client);
                begun < begins && second.got < begins + one.rest
            };
            second.got > one.from && [first, second].iter().any(is_forgotten)
        };
        self.moments.iter().filter(allows).max_by_key(|one| one.from).map(|one| one.fault)
    }

    /// Until when a client may get a lease that the servers do not know.
    fn begins(&self, moment: &Moment, client: u32) -> u64 {
        let missed = |one: &&Stopped| {
            one.client == client && one.from < moment.begins && one.until > moment.from
        };
        let missed = self.stopped.iter().filter(missed).map(|one| one.until + LEAVE);
        missed.fold(moment.begins, u64::max)
    }

    /// Whether something was forgotten less than a ttl before a time, or later.
    pub(super) fn since(&self, time: u64) -> bool {
        self.moments.iter().any(|one| one.begins + one.rest >= time)
    }
}

fn of_fault(one: &Injected, setup: SetUp) -> Moment {
    // The answer to a grant from before may arrive later, and the lease is not valid for longer then. On files
    // no clock ends it: a stopped process finds that its file was removed when it goes on.
    let late = if setup == SetUp::File { 4 * LEASE } else { LEASE };
    Moment { fault: one.fault, from: one.from, begins: one.until + late, rest: 0 }
}

/// The fault is the last one before the switch that may have led to it.
fn of_switch(switch: Switch, forgets: &[&Injected]) -> Moment {
    let before = forgets.iter().filter(|one| one.from < switch.until).max_by_key(|one| one.from);
    let fault = before.map_or(Fault::Failover, |one| one.fault);
    Moment { fault, from: switch.from, begins: switch.until + LEAVE, rest: LEASE }
}
