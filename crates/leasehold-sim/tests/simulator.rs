//! What every set-up promises holds over many seeds, and the invariants find each planted bug.

use std::time::Duration;

use leasehold_sim::simulator::{
    Behaviour, Broken, Bug, Fault, MS, Network, Plan, Rng, SECOND, Setup, Trouble, plan, run,
};

/// Looks for seeds that find the bug.
fn search(name: &str, broken: Broken, make: impl Fn(u64) -> Plan) {
    let seeds: Vec<u64> = (0..400)
        .filter(|seed| run(&make(*seed), *seed).0.broken.contains(&broken))
        .collect();
    let without: Vec<u64> = (0..400)
        .filter(|seed| run(&Plan { bug: None, ..make(*seed) }, *seed).0.broken.contains(&broken))
        .collect();
    println!("{name} {broken:?}: {} {:?} without {:?}", seeds.len(), &seeds[..seeds.len().min(6)], without);
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
            faults: vec![(at, Fault::Cut { client: 0, node: 0, time: 5 * SECOND }), (10 * SECOND, Fault::Calm)],
            ..plan(Setup::Single, Trouble::Partition, seed)
        }
    }
}

/// A holds the lock on nodes A, B and C, of which A forgets; later B can reach A, D and E only.
fn forgets(bug: Bug) -> impl Fn(u64) -> Plan {
    move |seed| {
        let mut rng = Rng::new(seed);
        let at = rng.between(SECOND, 3 * SECOND / 2);
        let down = |time, node, long| (time, Fault::NodeDown { node, time: long });
        Plan {
            bug: Some(bug),
            limit: Duration::from_millis(500),
            skew: 60 * SECOND,
            clients: vec![once(SECOND, SECOND / 5), Behaviour { start: 5 * SECOND, ..Behaviour::BUSY }],
            network: Network { late: (500, SECOND / 2), ..Network::GOOD },
            faults: vec![
                down(9 * SECOND / 10, 3, 3 * SECOND / 2),
                down(9 * SECOND / 10, 4, 3 * SECOND / 2),
                (at, Fault::Restart { node: 0, time: MS }),
                down(9 * SECOND / 2, 1, 3 * SECOND),
                down(9 * SECOND / 2, 2, 3 * SECOND),
                (9 * SECOND, Fault::Calm),
            ],
            ..plan(Setup::Redlock, Trouble::Restart, seed)
        }
    }
}

/// Commits take long, and leases end early all the time.
fn jumping(bug: Bug) -> impl Fn(u64) -> Plan {
    move |seed| {
        let mut rng = Rng::new(seed);
        let mut faults: Vec<_> = (1..60)
            .map(|step| {
                let node = rng.below(5) as usize;
                (step * 300 * MS, Fault::NodeClock { node, by: 2 * SECOND as i64 })
            })
            .collect();
        faults.push((20 * SECOND, Fault::Calm));
        Plan {
            bug: Some(bug),
            limit: Duration::from_millis(500),
            skew: 30 * SECOND,
            clients: vec![Behaviour { hold: (MS, 100 * MS), think: Some((MS, 100 * MS)), ..Behaviour::BUSY }; 4],
            network: Network { late: (300, SECOND / 2), lost: 100, ..Network::GOOD },
            faults,
            ..plan(Setup::Redlock, Trouble::NodeClocks, seed)
        }
    }
}

/// Whoever gets the lock hears of it late, and does not renew.
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
fn searches() {
    search("naive", Broken::Tokens, drawn(Bug::NaiveMaximum, Setup::Redlock, Trouble::Restart));
    search("naive j", Broken::Tokens, jumping(Bug::NaiveMaximum));
    search("commit", Broken::Tokens, jumping(Bug::CommitWithoutCompare));
    search("connected", Broken::Exclusion, drawn(Bug::MajorityOfConnected, Setup::Redlock, Trouble::NodeDown));
    search("drift", Broken::Exclusion, drawn(Bug::NoDrift, Setup::Redlock, Trouble::Pause));
    search("bound", Broken::Exclusion, late_reading(Bug::BoundFromTheReply));
    search("late", Broken::Exclusion, cut_off(Bug::LateRepliesAccepted));
    search("late", Broken::Evidence, cut_off(Bug::LateRepliesAccepted));
    search("admission", Broken::Exclusion, drawn(Bug::NoAdmission, Setup::Redlock, Trouble::Restart));
    search("admission", Broken::Tokens, forgets(Bug::NoAdmission));
    search("before", Broken::Tokens, forgets(Bug::RecoveryBeforeWaiting));
    search("few", Broken::Tokens, forgets(Bug::RecoveryFromTooFew));
    search("release", Broken::Exclusion, drawn(Bug::ReleaseComparesNothing, Setup::Single, Trouble::Pause));
    search("expire", Broken::Orphan, drawn(Bug::SetThenExpire, Setup::Single, Trouble::Network));
    search("timestamp", Broken::Exclusion, drawn(Bug::TimestampInTheValue, Setup::Single, Trouble::None));
    search("recreates", Broken::Evidence, drawn(Bug::RenewalRecreates, Setup::Single, Trouble::Pause));
    search("by expire", Broken::Evidence, drawn(Bug::RenewalByExpire, Setup::Single, Trouble::Pause));
}
