//! The runs that are made: small ones by the tests, all of them by `cargo xtask model --full`.

use super::{Maintenance, Setup};
use crate::handoff_model::runs::Size;

/// One run.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// What the table calls it.
    pub name: &'static str,
    /// Its bound.
    pub setup: Setup,
    /// What it costs.
    pub size: Size,
}

/// Three nodes, two clients with one attempt each, nothing that goes wrong.
pub const PLAIN: Setup = Setup {
    nodes: 3,
    clients: 2,
    attempts: 1,
    renewals: 0,
    proposals: 1,
    ticks: 0,
    expiries: 0,
    forgets: 0,
    repeats: 0,
    down: 0,
    maintenance: Maintenance::NONE,
    patient: false,
    bug: None,
};

/// One client that acquires twice while a node forgets; there is time to admit it again.
pub const FORGETS: Setup =
    Setup { clients: 1, attempts: 2, forgets: 1, ticks: 3, patient: true, ..PLAIN };

/// An operator runs `quorum init` while a client may hold a lock and a node has forgotten.
pub const INIT: Setup = Setup {
    forgets: 1,
    patient: true,
    maintenance: Maintenance { inits: 1, ..Maintenance::NONE },
    ..PLAIN
};

/// An operator sets nodes up for the first time, and one of the nodes loses its data meanwhile.
pub const FIRST_START: Setup = Setup {
    patient: true,
    maintenance: Maintenance { fresh: true, inits: 1, flushes: 1, ..Maintenance::NONE },
    ..PLAIN
};

/// Two operators set nodes up at once.
pub const TWO_INITS: Setup = Setup {
    patient: true,
    maintenance: Maintenance { fresh: true, inits: 2, coarse: true, ..Maintenance::NONE },
    ..PLAIN
};

/// Two of three nodes forget, and an operator sets them up after the loss.
pub const AFTER_LOSS: Setup = Setup {
    forgets: 2,
    attempts: 1,
    maintenance: Maintenance { after_loss: 1, coarse: true, ..Maintenance::NONE },
    ..FORGETS
};

/// A single node is started again with older data.
pub const OLDER_DATA: Setup = Setup {
    nodes: 1,
    clients: 1,
    attempts: 3,
    ticks: 3,
    patient: true,
    maintenance: Maintenance { returns: 1, ..Maintenance::NONE },
    ..PLAIN
};

/// A lease is ended by force while its holder renews.
pub const FORCE: Setup = Setup {
    renewals: 1,
    down: 1,
    maintenance: Maintenance { forces: 1, ..Maintenance::NONE },
    ..PLAIN
};

/// `forget` removes records from nodes beside two clients.
pub const FORGET: Setup =
    Setup { maintenance: Maintenance { removals: 2, ..Maintenance::NONE }, ..PLAIN };

/// A node gets older data and keeps its process id: nothing notices, and nothing is promised.
pub const ROLLED_BACK: Setup = Setup {
    patient: true,
    maintenance: Maintenance { rollbacks: 1, ..Maintenance::NONE },
    ..PLAIN
};

const fn run(name: &'static str, size: Size, setup: Setup) -> Run {
    Run { name, setup, size }
}

/// All runs of the protocol without bugs.
pub const RUNS: &[Run] = &[
    run("any proposal", Size::Small, Setup { proposals: 2, ..PLAIN }),
    run("time", Size::Small, Setup { ticks: 2, down: 1, ..PLAIN }),
    run("renewal", Size::Small, Setup { renewals: 1, ticks: 2, down: 1, ..PLAIN }),
    run("renewals of one", Size::Small, Setup { clients: 1, renewals: 2, ticks: 3, ..PLAIN }),
    run("a node forgets, one client", Size::Small, FORGETS),
    run("a request twice", Size::Small, Setup { repeats: 1, ..PLAIN }),
    run("three clients", Size::Small, Setup { clients: 3, down: 1, ..PLAIN }),
    run("init, a node forgets", Size::Medium, INIT),
    run("older data", Size::Small, OLDER_DATA),
    run("force-release", Size::Small, FORCE),
    run("forget", Size::Small, FORGET),
    run(
        "forget, a request twice",
        Size::Medium,
        Setup { repeats: 1, down: 1, proposals: 2, ..FORGET },
    ),
    run(
        "forget, a node forgets",
        Size::Large,
        Setup { forgets: 1, ticks: 3, patient: true, clients: 1, attempts: 2, ..FORGET },
    ),
    run(
        "older data, three nodes",
        Size::Medium,
        Setup {
            nodes: 3,
            attempts: 2,
            maintenance: Maintenance { coarse: true, ..OLDER_DATA.maintenance },
            ..OLDER_DATA
        },
    ),
    run("first start", Size::Small, FIRST_START),
    run("two inits at once", Size::Small, TWO_INITS),
    run("init after loss", Size::Small, AFTER_LOSS),
    run("init after loss, two attempts", Size::Large, Setup { attempts: 2, ..AFTER_LOSS }),
    run("a lease ends early", Size::Medium, Setup { proposals: 2, expiries: 1, ..PLAIN }),
    run("time, all nodes", Size::Medium, Setup { ticks: 2, ..PLAIN }),
    run("a node forgets", Size::Medium, Setup { clients: 2, attempts: 1, ticks: 0, ..FORGETS }),
    run("a request twice, early", Size::Medium, Setup { repeats: 1, expiries: 1, ..PLAIN }),
    run("five nodes, two down", Size::Medium, Setup { nodes: 5, down: 2, proposals: 2, ..PLAIN }),
    run("two leases end early", Size::Large, Setup { proposals: 2, expiries: 2, ..PLAIN }),
    run("a node forgets, time", Size::Large, Setup { clients: 2, attempts: 1, ..FORGETS }),
];
