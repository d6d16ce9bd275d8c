//! Whether leases that clients cached ended when they had to: no task takes one after another client has got the lock.

use std::collections::BTreeMap;

use super::calm::is_calm;
use super::commands::Forced;
use super::{Evidence, Forgets};
use crate::client::FIRST;
use crate::journal::Hold;
use crate::workload::Workload;

/// What was seen of cached leases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cached {
    /// The leases of clients.
    pub(crate) leases: u64,
    /// Holds that took the lease that their client had cached.
    pub(crate) takes: u64,
    /// How long clients waited for a lock that no task held, and that another client had held last: it may have cached its
    /// lease. With no fault near, in order.
    pub(crate) waits: Vec<u64>,
    /// Takes of leases that were over, in words.
    pub(crate) against: Vec<String>,
}

impl Cached {
    /// The time that half of the waits did not exceed.
    pub(crate) fn half(&self) -> u64 {
        self.waits.get(self.waits.len() / 2).copied().unwrap_or_default()
    }

    /// The longest wait.
    pub(crate) fn longest(&self) -> u64 {
        self.waits.last().copied().unwrap_or_default()
    }
}

/// Goes through all holds, which are in order of `got`.
pub(super) fn of(evidence: &Evidence, forced: &[Forced<'_>], forgets: &Forgets) -> Cached {
    let mut seen = Cached::default();
    if evidence.workload != Workload::Cached {
        return seen;
    }
    let start = evidence.holds.first().map_or(0, |hold| hold.got);
    let mut ends: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    let mut latest: Option<&Hold> = None;
    let mut highest: Option<&Hold> = None;
    for hold in &evidence.holds {
        match ends.get_mut(&hold.lease()) {
            Some(end) => {
                seen.takes += u64::from(hold.wanted >= *end);
                *end = hold.until.max(*end);
            }
            None => {
                seen.leases += 1;
                ends.insert(hold.lease(), hold.until);
            }
        }
        // The command of the operator wants the lock when its process has started.
        let changed = latest.filter(|last| last.client != hold.client && hold.client < FIRST);
        if changed.is_some_and(|last| last.until < hold.wanted)
            && is_calm(evidence, hold.wanted, hold.got)
        {
            seen.waits.push(hold.got - hold.wanted);
        }
        if let Some(later) = highest.filter(|one| is_over(one, hold))
            && forgets.allows(later, hold).is_none()
            && !forced.iter().any(|one| one.explains(hold, later))
        {
            let (later, hold) = (later.told(start), hold.told(start));
            seen.against.push(format!("a lease was taken that was over: {later}; {hold}"));
        }
        latest = latest.filter(|one| one.until > hold.until).or(Some(hold));
        highest = highest.filter(|one| one.token > hold.token).or(Some(hold));
    }
    seen.waits.sort_unstable();
    seen
}

/// Whether the lease of a hold was over before the hold began: another client had got the lock by then. A task that was
/// paused before it had its guard finds that it is not valid.
fn is_over(later: &Hold, hold: &Hold) -> bool {
    later.token > hold.token && later.lease() != hold.lease() && hold.until > hold.got
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MS;
    use crate::check::Verdict;
    use crate::fault::{Fault, Injected};
    use crate::part::Part;

    /// Times in milliseconds.
    fn hold(client: u32, lease: u32, wanted: u64, got: u64, until: u64, token: u64) -> Hold {
        let (wanted, got, until) = (wanted * MS, got * MS, until * MS);
        // The lease was asked for by its first hold.
        let (asked, part) = (0, Part::Whole);
        Hold { client, lease, asked, wanted, got, until, token, part }
    }

    fn verdict(holds: &[Hold], injected: &[Injected]) -> Verdict {
        let workload = Workload::Cached;
        let (holds, injected) = (holds.to_vec(), injected.to_vec());
        Verdict::of(Evidence { holds, injected, workload, ..Evidence::default() })
    }

    #[test]
    fn takes_and_the_waits_of_others_are_counted() {
        let holds = [
            hold(1, 0, 1, 2, 5, 10),
            hold(1, 0, 7, 7, 9, 11),
            // It waited inside the process.
            hold(1, 0, 8, 9, 12, 12),
            hold(2, 0, 20, 23, 25, 20),
            // It had to wait for the end of a hold.
            hold(1, 1, 24, 26, 29, 30),
        ];
        let seen = verdict(&holds, &[]);
        assert_eq!(seen.broken(), [""; 0]);
        let (leases, takes, waits) = (3, 1, vec![3 * MS]);
        assert_eq!(seen.cached, Cached { leases, takes, waits, against: Vec::new() });
        let near = [Injected { fault: Fault::Kill, from: 0, until: 0 }];
        assert_eq!(verdict(&holds, &near).cached.waits, [0; 0]);
    }

    #[test]
    fn a_lease_that_is_taken_after_another_client_had_the_lock_is_found() {
        // Client 2 has released it already, so nothing overlaps, and the tokens of each lease grow.
        let holds = [hold(1, 0, 1, 2, 5, 10), hold(2, 0, 8, 9, 12, 20), hold(1, 0, 30, 30, 33, 11)];
        let broken = verdict(&holds, &[]).broken();
        assert_eq!(broken[0], "takes of cached leases that were over: 1");
        assert!(broken[1].starts_with("a lease was taken that was over: client 2"), "{broken:?}");
        // The server has lost its data, and both leases were granted.
        let empty = [Injected { fault: Fault::Empty, from: 6 * MS, until: 7 * MS }];
        assert_eq!(verdict(&holds, &empty).broken(), [""; 0]);
        // Its process was paused before it had the guard, which is not valid.
        let late = [holds[0], holds[1], hold(1, 0, 6, 30, 30, 11)];
        assert_eq!(verdict(&late, &[]).broken(), [""; 0]);
    }
}
