//! What every set-up promises holds over many seeds, and the invariants find each planted bug.

#![allow(clippy::unwrap_used)]

mod cache;
mod documents;
mod lab;
mod primitives;

use std::time::Duration;

use leasehold_sim::simulator::{
    Behaviour, Broken, Bug, Fault, MS, Network, Plan, Rng, SECOND, Setup, Trouble, Waiting, plan,
    run,
};

/// With the bug each of these seeds breaks the promise, without it none does.
#[track_caller]
fn found(broken: Broken, seeds: &[u64], make: impl Fn(u64) -> Plan) {
    for seed in seeds {
        let planted = make(*seed);
        let bug = planted.bug;
        let (seen, _) = run(&planted, *seed);
        assert!(seen.broken.contains(&broken), "{bug:?} was not found by seed {seed}");
        let (seen, _) = run(&Plan { bug: None, ..planted }, *seed);
        assert_eq!(seen.broken, [], "seed {seed} without {bug:?}");
    }
}

fn drawn(bug: Bug, setup: Setup, trouble: Trouble) -> impl Fn(u64) -> Plan {
    move |seed| Plan { bug: Some(bug), ..plan(setup, trouble, seed) }
}

fn once(start: u64, hold: u64) -> Behaviour {
    Behaviour { start, hold: (hold, hold + MS), think: None, ..Behaviour::BUSY }
}

/// Replies take long, a client is cut off from its node while it holds.
fn cut_off(bug: Bug) -> impl Fn(u64) -> Plan {
    move |seed| {
        let mut rng = Rng::new(seed);
        let at = rng.between(SECOND, 3 * SECOND);
        Plan {
            bug: Some(bug),
            limit: Duration::from_secs(1),
            clients: vec![once(0, 8 * SECOND), Behaviour { start: SECOND / 2, ..Behaviour::BUSY }],
            network: Network { late: (600, 3 * SECOND / 2), ..Network::GOOD },
            faults: vec![
                (at, Fault::Cut { client: 0, node: 0, time: 5 * SECOND }),
                (10 * SECOND, Fault::Calm),
            ],
            ..plan(Setup::Single, Trouble::Partition, seed)
        }
    }
}

/// A holds the lock on nodes A, B and C, of which A forgets; later B can reach A, D and E only.
fn forgets(bug: Bug) -> impl Fn(u64) -> Plan {
    move |seed| {
        let mut rng = Rng::new(seed);
        let at = rng.between(5 * SECOND, 11 * SECOND / 2);
        let down = |time, node, long| (time, Fault::NodeDown { node, time: long });
        Plan {
            bug: Some(bug),
            limit: Duration::from_millis(500),
            skew: 60 * SECOND,
            clients: vec![
                once(5 * SECOND, SECOND / 5),
                Behaviour { start: 9 * SECOND, ..Behaviour::BUSY },
            ],
            network: Network { late: (500, SECOND / 2), ..Network::GOOD },
            faults: vec![
                down(49 * SECOND / 10, 3, 3 * SECOND / 2),
                down(49 * SECOND / 10, 4, 3 * SECOND / 2),
                (at, Fault::Restart { node: 0, time: MS }),
                down(17 * SECOND / 2, 1, 3 * SECOND),
                down(17 * SECOND / 2, 2, 3 * SECOND),
                (13 * SECOND, Fault::Calm),
            ],
            ..plan(Setup::Redlock, Trouble::Restart, seed)
        }
    }
}

/// Commits take long, and leases end early all the time.
fn jumping(bug: Bug) -> impl Fn(u64) -> Plan {
    move |seed| {
        let mut rng = Rng::new(seed);
        let mut faults: Vec<_> = (1..180)
            .map(|step| {
                let node = rng.below(5) as usize;
                (step * 100 * MS, Fault::NodeClock { node, by: 2 * SECOND as i64 })
            })
            .collect();
        faults.push((20 * SECOND, Fault::Calm));
        Plan {
            bug: Some(bug),
            limit: Duration::from_millis(500),
            skew: 30 * SECOND,
            clients: vec![
                Behaviour {
                    hold: (MS, 100 * MS),
                    think: Some((MS, 100 * MS)),
                    ..Behaviour::BUSY
                };
                4
            ],
            network: Network { late: (300, SECOND / 2), lost: 100, ..Network::GOOD },
            faults,
            calm: 32 * SECOND,
            ..plan(Setup::Redlock, Trouble::NodeClocks, seed)
        }
    }
}

/// A client holds the lock on A, B and C while D and E are silent. A and B restart empty, an operator runs
/// `quorum init`, and D and E return.
fn inits(bug: Bug) -> impl Fn(u64) -> Plan {
    move |seed| {
        let mut rng = Rng::new(seed);
        let at = rng.between(5200 * MS, 5400 * MS);
        let silent = |node| (4900 * MS, Fault::NodeDown { node, time: 700 * MS });
        let holder = Behaviour { renews: false, ..once(5 * SECOND, 3 * SECOND / 2) };
        let next = Behaviour { start: 5700 * MS, ..Behaviour::BUSY };
        Plan {
            bug: Some(bug),
            clients: vec![holder, next],
            faults: vec![
                silent(3),
                silent(4),
                (at, Fault::Restart { node: 0, time: MS }),
                (at, Fault::Restart { node: 1, time: MS }),
                (at + rng.between(10 * MS, 100 * MS), Fault::Init),
                (13 * SECOND, Fault::Calm),
            ],
            ..plan(Setup::Redlock, Trouble::Init, seed)
        }
    }
}

/// The client that acquires the lock learns of it late, and does not renew.
fn late_reading(bug: Bug) -> impl Fn(u64) -> Plan {
    move |seed| {
        let client = Behaviour { renews: false, hold: (SECOND, 3 * SECOND), ..Behaviour::BUSY };
        Plan {
            bug: Some(bug),
            limit: Duration::from_secs(4),
            clients: vec![client; 3],
            ..plan(Setup::Single, Trouble::Pause, seed)
        }
    }
}

#[test]
fn every_set_up_keeps_what_it_promises() {
    for setup in Setup::ALL {
        for trouble in Trouble::ALL {
            for seed in 0..30 {
                let (seen, _) = run(&plan(setup, trouble, seed), seed);
                assert_eq!(seen.broken, [], "{setup}, {trouble}: seed {seed}");
            }
        }
    }
}

#[test]
fn what_is_not_promised_is_not_kept_either() {
    let overlaps = |setup, trouble| -> u64 {
        (0..100).map(|seed| run(&plan(setup, trouble, seed), seed).0.overlaps).sum()
    };
    assert!(overlaps(Setup::PlainSet, Trouble::Pause) > 0);
    assert!(overlaps(Setup::Single, Trouble::Restart) > 0);
    assert!(overlaps(Setup::Replicated, Trouble::Restart) > 0);
    assert!(overlaps(Setup::RedlockPlain, Trouble::Restart) > 0);
    assert!(overlaps(Setup::RedlockTokens, Trouble::Restarts) > 0);
    assert!(overlaps(Setup::Redlock, Trouble::NodeClocks) > 0);
    assert!(overlaps(Setup::ZooKeeper, Trouble::Pause) > 0);
    assert!(overlaps(Setup::SingleStrict, Trouble::Init) > 0);
    assert!(overlaps(Setup::Single, Trouble::Older) > 0);
    assert!(overlaps(Setup::Redlock, Trouble::Snapshot) > 0);
}

/// The first client works for 8 s. The second one calls at 1 s with a time limit of 1 s.
#[test]
fn a_call_with_a_time_limit_gives_up_and_never_holds() {
    for waiting in [Waiting::Asks, Waiting::Listens, Waiting::InLine] {
        let patient = once(SECOND, 100 * MS);
        let holds = |patience| {
            let clients = vec![once(0, 8 * SECOND), Behaviour { patience, ..patient }];
            let base = plan(Setup::Single, Trouble::None, 1);
            run(&Plan { clients, waiting, faults: Vec::new(), ..base }, 1).0.holds
        };
        assert_eq!((holds(u64::MAX), holds(SECOND)), (2, 1), "{waiting:?}");
    }
}

#[test]
fn a_seed_gives_the_same_run_again() {
    let plan = Plan { traced: true, ..plan(Setup::Redlock, Trouble::Restart, 7) };
    assert_eq!(run(&plan, 7), run(&plan, 7));
}

#[test]
fn the_naive_maximum_is_found() {
    found(Broken::Tokens, &[0, 2, 3], jumping(Bug::NaiveMaximum));
}

#[test]
fn a_commit_without_compare_is_found() {
    found(Broken::Tokens, &[11, 39, 55], jumping(Bug::CommitWithoutCompare));
}

#[test]
fn a_majority_of_the_connected_nodes_is_found() {
    found(
        Broken::Exclusion,
        &[3, 4, 12],
        drawn(Bug::MajorityOfConnected, Setup::Redlock, Trouble::NodeDown),
    );
}

#[test]
fn no_allowance_for_drift_is_found() {
    found(Broken::Exclusion, &[1, 43, 45], drawn(Bug::NoDrift, Setup::Redlock, Trouble::Pause));
}

#[test]
fn a_bound_from_the_replys_time_is_found() {
    found(Broken::Exclusion, &[0, 4, 6], late_reading(Bug::BoundFromTheReply));
}

#[test]
fn late_replies_accepted_is_found() {
    found(Broken::Exclusion, &[19, 26, 45], cut_off(Bug::LateRepliesAccepted));
}

#[test]
fn no_admission_is_found() {
    found(Broken::Exclusion, &[0, 1, 4], drawn(Bug::NoAdmission, Setup::Redlock, Trouble::Restart));
}

#[test]
fn no_admission_and_tokens_is_found() {
    found(Broken::Tokens, &[4, 7, 12], forgets(Bug::NoAdmission));
}

#[test]
fn recovery_before_waiting_is_found() {
    found(Broken::Tokens, &[204, 208, 355], forgets(Bug::RecoveryBeforeWaiting));
}

#[test]
fn recovery_from_too_few_nodes_is_found() {
    found(Broken::Tokens, &[4, 5, 7], forgets(Bug::RecoveryFromTooFew));
}

#[test]
fn a_floor_from_a_clients_clock_is_found() {
    let apart = |seed| Plan {
        bug: Some(Bug::FloorOfAClient),
        skew: 30 * SECOND,
        ..plan(Setup::SingleStrict, Trouble::Restart, seed)
    };
    found(Broken::Tokens, &[56, 169, 207], apart);
}

#[test]
fn a_release_that_does_not_compare_the_owner_is_found() {
    found(
        Broken::Exclusion,
        &[0, 1, 2],
        drawn(Bug::ReleaseComparesNothing, Setup::Single, Trouble::Pause),
    );
}

#[test]
fn set_if_absent_and_then_expire_is_found() {
    found(
        Broken::Orphan,
        &[13, 19, 23],
        drawn(Bug::SetThenExpire, Setup::Single, Trouble::Network),
    );
}

#[test]
fn the_lock_with_the_time_in_its_value_is_found() {
    found(
        Broken::Exclusion,
        &[0, 1, 2],
        drawn(Bug::TimestampInTheValue, Setup::Single, Trouble::None),
    );
}

#[test]
fn a_renewal_that_re_creates_is_found() {
    found(
        Broken::Evidence,
        &[85, 118, 168],
        drawn(Bug::RenewalRecreates, Setup::Single, Trouble::Pause),
    );
}

#[test]
fn a_renewal_by_expire_is_found() {
    found(Broken::Evidence, &[1, 2, 3], drawn(Bug::RenewalByExpire, Setup::Single, Trouble::Pause));
}

#[test]
fn maintenance_keeps_what_is_promised() {
    for setup in [Setup::Single, Setup::SingleStrict, Setup::Redlock, Setup::SqlLease] {
        for trouble in Trouble::MAINTENANCE {
            for seed in 1000..1200 {
                let (seen, _) = run(&plan(setup, trouble, seed), seed);
                assert_eq!(seen.broken, [], "{setup}, {trouble}: seed {seed}");
            }
        }
    }
}

#[test]
fn an_init_that_skips_silent_nodes_is_found() {
    found(Broken::Exclusion, &[0, 1, 2], inits(Bug::InitSkipsSilent));
}

#[test]
fn a_forget_that_ignores_the_holder_is_found() {
    for setup in [Setup::Single, Setup::Redlock] {
        let make = drawn(Bug::ForgetIgnoresHolder, setup, Trouble::Upkeep);
        found(Broken::Exclusion, &[2, 7, 30], make);
    }
}

#[test]
fn a_clean_up_that_ignores_tokens_above_the_clock_is_found() {
    for setup in [Setup::Single, Setup::SqlLease] {
        found(Broken::Tokens, &[1, 3, 5], drawn(Bug::CleanUpIgnoresTop, setup, Trouble::Upkeep));
    }
}
