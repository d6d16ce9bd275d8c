//! Whether the owner of a lease that is ended by force learns of it at once, where servers push that: not at its next
//! renewal.

use super::Evidence;
use crate::MS;
use crate::operator::{Operation, Outcome};

/// The push arrives before the command's process has ended, and a renewal mostly later than this after it: a third of a ttl
/// lies between two renewals.
const SOON: i128 = 50 * MS as i128;
/// A client that is stopped, and a push that is lost, delay some of them: half of so many, at least, arrive.
const LEAST: usize = 10;

/// Says of a run in which mostly no push has arrived how long the owners believed in their leases.
pub(super) fn late(evidence: &Evidence) -> Option<String> {
    if !evidence.setup.pushes() {
        return None;
    }
    let released = evidence.ran.iter().filter(|ran| ran.operation == Operation::ForceRelease);
    let mut times: Vec<i128> = { released.filter(|ran| ran.outcome() == Outcome::Done) }
        .filter_map(|ran| {
            let owner = evidence.holds.iter().find(|hold| Some(hold.token) == ran.call.token)?;
            let held = owner.until >= ran.from;
            held.then(|| i128::from(owner.until) - i128::from(ran.until))
        })
        .collect();
    times.sort_unstable();
    let half = *times.get(times.len() / 2)?;
    let is_late = times.len() >= LEAST && half > SOON;
    is_late.then(|| {
        let ms = half / i128::from(MS);
        format!("forced releases: the owner believes in its lease {ms} ms longer in half of them")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SECOND;
    use crate::journal::Hold;
    use crate::operator::{Call, CommandEnd, Ran};
    use crate::part::Part;
    use crate::setup::SetUp;

    /// Each two seconds a lease is ended by force, and its owner believes in it for so many milliseconds longer.
    fn evidence(setup: SetUp, many: u64, longer: i64) -> Evidence {
        let mut evidence = Evidence { setup, ..Evidence::default() };
        for token in 1..=many {
            let until = token * 2 * SECOND;
            let (from, told) = (until - 30 * MS, until.saturating_add_signed(longer * MS as i64));
            let call = Call { words: Vec::new(), token: Some(token), exits: vec![0] };
            let (operation, end) = (Operation::ForceRelease, CommandEnd::Exit(0));
            let (stdout, stderr) = Default::default();
            evidence.ran.push(Ran { operation, call, from, until, end, stdout, stderr });
            let got = from - SECOND;
            let lease = token as u32;
            let part = Part::Whole;
            evidence.holds.push(Hold {
                client: 1,
                lease,
                asked: got,
                wanted: got,
                got,
                until: told,
                token,
                part,
            });
        }
        evidence
    }

    #[test]
    fn owners_that_learn_of_it_at_their_next_renewal_are_found() {
        assert_eq!(late(&evidence(SetUp::Redis, 10, -5)), None);
        let told = late(&evidence(SetUp::Redis, 10, 130)).unwrap();
        assert!(told.ends_with("believes in its lease 130 ms longer in half of them"), "{told}");
        assert_eq!(late(&evidence(SetUp::Redis, 9, 130)), None, "too few");
        assert_eq!(late(&evidence(SetUp::Zookeeper, 10, 130)), None, "it has no pushes");
        // They had ended before.
        assert_eq!(late(&evidence(SetUp::Redis, 10, -40)), None);
    }
}
