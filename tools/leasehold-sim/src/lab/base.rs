//! What the stories' plans have in common.

use std::time::Duration;

use crate::simulator::{Behaviour, Fault, MS, Network, Plan, SECOND, Setup, Waiting};

/// A plan without clients and faults: clocks are right, and a way takes a millisecond.
pub(super) fn base(setup: Setup, ttl: u64, end: u64) -> Plan {
    Plan {
        setup,
        bug: None,
        ttl: Duration::from_secs(ttl),
        limit: Duration::from_millis(50),
        looks_first: true,
        clients: Vec::new(),
        network: Network { delay: (MS, MS + 1), ..Network::GOOD },
        waiting: match waiting(setup) {
            Waiting::Listens => Waiting::Asks,
            waiting => waiting,
        },
        by_value: false,
        repeats: false,
        faults: Vec::new(),
        calm: end * SECOND,
        end: end * SECOND,
        clocks_differ: false,
        skew: 0,
        exclusive: false,
        ordered: false,
        traced: true,
    }
}

/// A client that wants the lock once, from `start` on, and works under it for `hold`: in
/// milliseconds. It does not renew.
pub(super) fn once(start: u64, hold: u64) -> Behaviour {
    Behaviour {
        start: start * MS,
        hold: (hold * MS, hold * MS + 1),
        think: None,
        renews: false,
        write: (10 * MS, 10 * MS + 1),
        patience: u64::MAX,
        claim: 0,
    }
}

/// The same with a watchdog.
pub(super) fn renewing(start: u64, hold: u64) -> Behaviour {
    Behaviour { renews: true, ..once(start, hold) }
}

/// The same without a watchdog, and its write is 100 ms on its way after the last check of the lock.
pub(super) fn writing_slowly(start: u64, hold: u64) -> Behaviour {
    Behaviour { write: (100 * MS, 100 * MS + 1), ..once(start, hold) }
}

/// A fault at a moment, in milliseconds.
pub(super) fn at(moment: u64, fault: Fault) -> (u64, Fault) {
    (moment * MS, fault)
}

/// A client cannot reach these nodes for so many seconds; where there is one node only, nothing.
pub(super) fn cut(setup: Setup, client: usize, nodes: &[usize], time: u64) -> Vec<(u64, Fault)> {
    let there = nodes.iter().filter(|node| setup.nodes() > 1 && **node < setup.nodes());
    there.map(|node| (0, Fault::Cut { client, node: *node, time: time * SECOND })).collect()
}

/// How clients wait that were turned away: those of a lock by hand listen, if the story is about that; the
/// server has a queue where the product has one.
pub(super) fn waiting(setup: Setup) -> Waiting {
    match setup {
        Setup::PlainSet => Waiting::Listens,
        Setup::Single | Setup::Replicated | Setup::ZooKeeper | Setup::Etcd => Waiting::InLine,
        _ => Waiting::Asks,
    }
}

/// The ttl, in seconds, of a lock that has none.
pub(super) const NO_TTL: u64 = 3600;
