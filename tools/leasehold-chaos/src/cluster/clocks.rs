//! The wall clocks of servers: each has its own, or all have one.

use std::collections::BTreeMap;

use leasehold_test_servers::ClockShim;

use super::Variables;
use crate::fault::Fault;
use crate::plan::Planned;
use crate::setup::SetUp;
use crate::{Result, SECOND, now};

/// Longer than records are kept.
const HOURS: f64 = 7260.0;
/// Tokens may be this far ahead of a server's clock.
const LEAD: u64 = SECOND;

/// The clocks of a set-up.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    /// By the server; where all have one, that of the first.
    each: BTreeMap<usize, WallClock>,
    is_shared: bool,
    /// Until then a clock that was set back may show a time at which it has been before.
    repeats: u64,
}

#[derive(Debug)]
struct WallClock {
    shim: ClockShim,
    /// How far it is from the right time, in seconds.
    offset: f64,
}

/// The servers that have clocks of their own, and whether all others have the same one.
fn clocked(setup: SetUp) -> (Vec<usize>, bool) {
    match setup {
        SetUp::Redlock3 | SetUp::Redlock5 | SetUp::Redlock7 => {
            ((0..setup.quorum()).collect(), false)
        }
        SetUp::Zookeeper => (vec![0, 1, 2], false),
        SetUp::Pgbouncer => (vec![1], false),
        // The clocks of servers that replace each other must not differ, and processes on one machine have one.
        SetUp::Sentinel | SetUp::Cluster | SetUp::Sqlite | SetUp::File => (vec![0], true),
        _ => (vec![0], false),
    }
}

impl Clocks {
    /// Those that a set-up needs for faults of these kinds.
    pub(super) fn build(setup: SetUp, kinds: &[Fault]) -> Result<Self> {
        if !kinds.iter().any(|kind| kind.sets_clock()) {
            return Ok(Self::default());
        }
        let (servers, is_shared) = clocked(setup);
        let mut shims = vec![ClockShim::build()?];
        for number in 1..servers.len() {
            shims.push(shims[0].another(number)?);
        }
        let clocks = shims.into_iter().map(|shim| WallClock { shim, offset: 0.0 });
        let each = servers.into_iter().zip(clocks).collect();
        Ok(Self { each, is_shared, repeats: 0 })
    }

    /// The server whose entry a server's clock is.
    fn entry(&self, server: usize) -> usize {
        if self.is_shared { 0 } else { server }
    }

    /// The environment in which a server has its clock.
    pub(super) fn env(&self, server: usize) -> Variables {
        let clock = self.each.get(&self.entry(server));
        clock.into_iter().flat_map(|clock| clock.shim.env()).collect()
    }

    /// Whether a fault can happen to a server now: while a clock repeats a time, tokens that are lost would be used
    /// again.
    pub(super) fn may(&self, fault: Fault, server: usize) -> bool {
        match fault {
            _ if fault.sets_clock() => self.each.contains_key(&self.entry(server)),
            _ => !fault.loses_data() || now() > self.repeats,
        }
    }

    /// Sets the clock of a server.
    pub(super) fn set(&mut self, server: usize, planned: Planned) -> Result<()> {
        let entry = self.entry(server);
        let Some(clock) = self.each.get_mut(&entry) else { return Ok(()) };
        let seconds = planned.time as f64 / SECOND as f64;
        clock.offset += match planned.fault {
            Fault::ClockBack => -seconds,
            Fault::ClockHours => HOURS + seconds,
            _ => seconds,
        };
        clock.shim.set_offset(clock.offset)?;
        if planned.fault == Fault::ClockBack {
            self.repeats = self.repeats.max(now() + LEAD) + planned.time;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_while_a_clock_repeats_a_time() {
        let kinds = [Fault::Clock, Fault::ClockBack];
        let mut clocks = Clocks::build(SetUp::Redlock3, &kinds).unwrap();
        let planned = |fault| Planned { pause: 0, fault, target: 0, time: 3600 * SECOND };
        clocks.set(2, planned(Fault::Clock)).unwrap();
        assert!(clocks.may(Fault::Empty, 0));
        clocks.set(2, planned(Fault::ClockBack)).unwrap();
        assert!(!clocks.may(Fault::Empty, 0) && clocks.may(Fault::Restart, 0));
        assert!(clocks.may(Fault::ClockBack, 0) && !clocks.may(Fault::Clock, 3));
        let shared = Clocks::build(SetUp::Cluster, &kinds).unwrap();
        assert_eq!(shared.env(0), shared.env(5));
        assert_ne!(clocks.env(0), clocks.env(1));
        assert!(Clocks::build(SetUp::Redis, &[Fault::Kill]).unwrap().env(0).is_empty());
    }
}
