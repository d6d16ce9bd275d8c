//! Whether a fault explains what clients received instead of what they asked for.

use std::collections::BTreeMap;

use super::{Evidence, Stopped};
use crate::SECOND;
use crate::failure::{Failure, FailureKind};
use crate::fault::{Fault, Injected};
use crate::setup::SetUp;

/// What was answered during a fault is written down no later than this after it, by a client that runs.
const AFTERMATH: u64 = 2 * SECOND;

/// How often each thing was said.
pub(super) fn counted(failed: &[Failure]) -> BTreeMap<String, u64> {
    let mut counted = BTreeMap::new();
    for one in failed {
        *counted.entry(one.what.clone()).or_default() += 1;
    }
    counted
}

/// What nothing explains, in words.
pub(super) fn against(evidence: &Evidence) -> Vec<String> {
    let start = evidence.holds.first().map_or(0, |hold| hold.got);
    let refused = evidence.failed.iter().filter(|one| one.told != FailureKind::Away);
    let unexplained = refused.filter(|one| !is_explained(evidence, one));
    let told = |one: &Failure| {
        let seconds = (i128::from(one.at) - i128::from(start)) as f64 / 1e9;
        format!("client {} was refused at {seconds:.3} s: {}", one.client, one.what)
    };
    unexplained.map(told).collect()
}

fn is_explained(evidence: &Evidence, one: &Failure) -> bool {
    let by = |fault: &Injected| {
        let Some(effect) = effect(evidence.setup, fault.fault, one.told) else { return false };
        let until = fault.until + effect;
        fault.from <= one.at && one.at <= went_on(&evidence.stopped, one.client, until) + AFTERMATH
    };
    evidence.injected.iter().any(by)
}

/// When a client that was stopped at a time went on.
fn went_on(stopped: &[Stopped], client: u32, time: u64) -> u64 {
    let meets =
        |one: &&Stopped| one.client == client && one.from <= time + AFTERMATH && time <= one.until;
    stopped.iter().filter(meets).map(|one| one.until).fold(time, u64::max)
}

/// For how long after its end a fault has servers tell this; `None` if it never has.
fn effect(setup: SetUp, fault: Fault, told: FailureKind) -> Option<u64> {
    match (fault, told) {
        (Fault::Full | Fault::Password | Fault::Authority, FailureKind::Refused) => Some(0),
        // With the end of its file a server may lose that a newer record was taken away.
        (Fault::Newer | Fault::Truncate, FailureKind::Foreign) => Some(0),
        // A directory that is being removed has lost `format` first, and is not one of locks then.
        (Fault::Empty, FailureKind::Foreign) if setup == SetUp::File => Some(0),
        // A server that may have forgotten has no vote until all leases are over.
        (_, FailureKind::Refused) if fault.restarts() && setup.has_admission() => {
            Some(setup.max_ttl().as_nanos() as u64)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MS;

    const AT: u64 = 9000 * MS;

    /// How many of the answers nothing explains; each was had at 9 s by client 3, and the fault lasted from 8 s to 8.5 s.
    fn unexplained(setup: SetUp, fault: Fault, told: FailureKind) -> usize {
        against(&evidence(setup, fault, told)).len()
    }

    fn evidence(setup: SetUp, fault: Fault, told: FailureKind) -> Evidence {
        let injected = vec![Injected { fault, from: 8000 * MS, until: 8500 * MS }];
        let failed = vec![Failure { client: 3, at: AT, told, what: "why".to_owned() }];
        Evidence { setup, injected, failed, ..Evidence::default() }
    }

    #[test]
    fn each_refusal_needs_a_fault_that_refuses() {
        assert_eq!(unexplained(SetUp::Redis, Fault::Cut, FailureKind::Away), 0);
        for fault in [Fault::Cut, Fault::Stop, Fault::Restart, Fault::Newer] {
            assert_eq!(unexplained(SetUp::Redis, fault, FailureKind::Refused), 1, "{fault}");
        }
        for fault in [Fault::Full, Fault::Password] {
            assert_eq!(unexplained(SetUp::Redis, fault, FailureKind::Refused), 0, "{fault}");
            assert_eq!(unexplained(SetUp::Redis, fault, FailureKind::Foreign), 1, "{fault}");
        }
        assert_eq!(unexplained(SetUp::Redis, Fault::Newer, FailureKind::Foreign), 0);
        assert_eq!(unexplained(SetUp::File, Fault::Empty, FailureKind::Foreign), 0);
        assert_eq!(unexplained(SetUp::Redis, Fault::Empty, FailureKind::Foreign), 1);
        assert_eq!(unexplained(SetUp::RedisStrict, Fault::Restart, FailureKind::Refused), 0);
    }

    #[test]
    fn a_refusal_before_its_fault_or_long_after_it_is_found() {
        let mut evidence = evidence(SetUp::Redis, Fault::Full, FailureKind::Refused);
        evidence.failed[0].at = 7999 * MS;
        assert_eq!(against(&evidence), ["client 3 was refused at 7.999 s: why"]);
        evidence.failed[0].at = 10_501 * MS;
        assert_eq!(against(&evidence).len(), 1);
        // It was stopped when it had the answer.
        evidence.stopped = vec![Stopped { client: 2, from: 8400 * MS, until: 10_400 * MS }];
        assert_eq!(against(&evidence).len(), 1, "another client was stopped");
        evidence.stopped[0].client = 3;
        assert_eq!(against(&evidence).len(), 0);
    }
}
