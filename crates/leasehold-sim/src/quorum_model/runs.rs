//! The runs that are made: small ones by the tests, all of them by `cargo xtask model --full`.

use super::Setup;
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
    patient: false,
    bug: None,
};

/// One client that acquires twice while a node forgets; there is time to admit it again.
pub const FORGETS: Setup =
    Setup { clients: 1, attempts: 2, forgets: 1, ticks: 3, patient: true, ..PLAIN };

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
    run("a lease ends early", Size::Medium, Setup { proposals: 2, expiries: 1, ..PLAIN }),
    run("time, all nodes", Size::Medium, Setup { ticks: 2, ..PLAIN }),
    run("a node forgets", Size::Medium, Setup { clients: 2, attempts: 1, ticks: 0, ..FORGETS }),
    run("a request twice, early", Size::Medium, Setup { repeats: 1, expiries: 1, ..PLAIN }),
    run("five nodes, two down", Size::Medium, Setup { nodes: 5, down: 2, proposals: 2, ..PLAIN }),
    run("two leases end early", Size::Large, Setup { proposals: 2, expiries: 2, ..PLAIN }),
    run("a node forgets, time", Size::Large, Setup { clients: 2, attempts: 1, ..FORGETS }),
];
