//! Whether a lock becomes free when its guard is dropped, also where no runtime is left: it must not last until the lease
//! ends by the clock.

use std::collections::BTreeMap;

use super::Evidence;
use crate::MS;
use crate::journal::{Abandoned, Hold};

/// A lease that no client ends lasts for at least two thirds of its ttl after the last renewal.
const SOON: u64 = 600 * MS;
/// Servers and clients that are away delay some of them: the half of so many, at least, is soon free.
const LEAST: usize = 10;

/// How often each thing was done.
pub(super) fn counted(all: &[Abandoned]) -> BTreeMap<String, u64> {
    let mut counted = BTreeMap::new();
    for one in all {
        *counted.entry(one.what.clone()).or_default() += 1;
    }
    counted
}

/// The ways of dropping a guard after which it mostly takes long until the next client has the lock. `holds` are in order
/// of `got`. After a dropped acquire the lock was not held.
pub(super) fn late(evidence: &Evidence) -> Vec<String> {
    let mut times: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for one in evidence.abandoned.iter().filter(|one| !one.what.contains("acquire")) {
        if let Some(next) = next(&evidence.holds, one.at) {
            times.entry(&one.what).or_default().push(next - one.at);
        }
    }
    let late = |(what, mut times): (&str, Vec<u64>)| {
        times.sort_unstable();
        let half = times[times.len() / 2];
        let is_late = times.len() >= LEAST && half > SOON;
        is_late.then(|| format!("{what}: the lock is free {} ms later in half of them", half / MS))
    };
    times.into_iter().filter_map(late).collect()
}

/// When the lock was had next.
fn next(holds: &[Hold], at: u64) -> Option<u64> {
    holds.get(holds.partition_point(|hold| hold.got <= at)).map(|hold| hold.got)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SECOND;
    use crate::part::Part;

    /// Each second a client drops a guard in this way; the next client has the lock so long after it.
    fn evidence(what: &str, many: u64, after: impl Fn(u64) -> u64) -> Evidence {
        let mut evidence = Evidence::default();
        for number in 1..=many {
            let at = number * 2 * SECOND;
            let got = at + after(number) * MS;
            let hold = Hold {
                client: 1,
                lease: number as u32,
                asked: at,
                wanted: at,
                got,
                until: got,
                token: number,
                part: Part::Whole,
            };
            evidence.abandoned.push(Abandoned { at, what: what.to_owned() });
            evidence.holds.push(hold);
        }
        evidence
    }

    #[test]
    fn a_way_after_which_the_lease_lasts_is_found() {
        let dropped = "runtimes ended under a guard";
        let found = late(&evidence(dropped, 10, |_| 950));
        assert_eq!(
            found,
            ["runtimes ended under a guard: the lock is free 950 ms later in half of them"]
        );
        assert_eq!(late(&evidence(dropped, 9, |_| 950)).len(), 0, "too few");
        assert_eq!(late(&evidence("dropped acquires", 10, |_| 950)).len(), 0);
        // Servers were away four times.
        assert_eq!(late(&evidence(dropped, 10, |one| if one <= 4 { 1900 } else { 30 })).len(), 0);
    }
}
