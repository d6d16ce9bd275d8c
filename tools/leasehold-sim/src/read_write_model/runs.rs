//! The runs that are made: small ones by the tests, all of them by `cargo xtask model --full`.

use super::ReadWrite;
use crate::primitive_model::{Fault, Run, Setup, Size, Stay, Use, Want};

/// A reader.
pub const R: &[Use] = &[Use::Hold(Want::Read)];
/// A writer.
pub const W: &[Use] = &[Use::Hold(Want::Write)];
/// A writer that makes itself a reader.
pub const D: &[Use] = &[Use::Downgrade];
/// A reader that tries to make itself a writer.
pub const U: &[Use] = &[Use::Upgrade];
/// Two tasks of one client that read.
pub const RR: &[Use] = &[Use::Hold(Want::Read), Use::Hold(Want::Read)];
/// Two tasks of one client, one of which writes.
pub const RW: &[Use] = &[Use::Hold(Want::Read), Use::Hold(Want::Write)];
/// Three tasks of one client: two read, and then one writes.
pub const RRW: &[Use] = &[Use::Hold(Want::Read), Use::Hold(Want::Read), Use::Hold(Want::Write)];
/// Two tasks of one client, one of which tries to make itself a writer.
pub const UR: &[Use] = &[Use::Upgrade, Use::Hold(Want::Read)];

/// The faults that every protocol must bear.
pub const ANY: &[Fault] =
    &[Fault::TimeLimit, Fault::Cut, Fault::Crash, Fault::Restart, Fault::Leave, Fault::LostPush];

const PLAIN: Setup<ReadWrite<2>> = Setup { bound: 2, ..Setup::PLAIN };

const fn run<const CAP: usize>(
    name: &'static str,
    size: Size,
    setup: Setup<ReadWrite<CAP>>,
) -> Run<ReadWrite<CAP>> {
    Run { name, size, setup }
}

/// The runs in which one step does two things of a kind.
pub const RUNS: &[Run<ReadWrite<2>>] = &[
    run(
        "R,W, one fault",
        Size::Small,
        Setup { clients: &[R, W], faults: 1, kinds: ANY, ticks: 1, ..PLAIN },
    ),
    run("R,R,W", Size::Small, Setup { clients: &[R, R, W], bound: 0, ..PLAIN }),
    run(
        "R,W, waiters lapse, one fault",
        Size::Small,
        Setup {
            clients: &[R, W],
            faults: 1,
            kinds: &[Fault::TimeLimit, Fault::Leave],
            ticks: 2,
            waiter_lease: 1,
            polls: true,
            ..PLAIN
        },
    ),
    run(
        "R,W, data lost",
        Size::Small,
        Setup { clients: &[R, W], faults: 1, kinds: &[Fault::Wipe], ticks: 1, ..PLAIN },
    ),
    run(
        "R,W, server's clock ahead",
        Size::Small,
        Setup { clients: &[R, W], faults: 1, kinds: &[Fault::Early], ticks: 1, ..PLAIN },
    ),
    run(
        "R,W, silent repetition",
        Size::Small,
        Setup { clients: &[R, W], faults: 1, kinds: &[Fault::Repeat], ticks: 1, ..PLAIN },
    ),
    run(
        "R,W, one fault, longer",
        Size::Large,
        Setup { clients: &[R, W], faults: 1, kinds: ANY, ticks: 3, bound: 4, ..PLAIN },
    ),
    run(
        "R,W, two faults",
        Size::Large,
        Setup { clients: &[R, W], faults: 2, kinds: ANY, ticks: 2, bound: 6, ..PLAIN },
    ),
    run(
        "R,R,W, one fault",
        Size::Large,
        Setup { clients: &[R, R, W], faults: 1, kinds: ANY, ticks: 1, bound: 3, ..PLAIN },
    ),
    run(
        "R,W,W, waiters lapse",
        Size::Large,
        Setup { clients: &[R, W, W], ticks: 2, waiter_lease: 1, bound: 3, polls: true, ..PLAIN },
    ),
    run(
        "R,R,W, reader stays, writer dead",
        Size::Medium,
        Setup {
            clients: &[R, R, W],
            faults: 1,
            kinds: &[Fault::Crash],
            waiter_lease: 3,
            polls: true,
            stay: Stay::ForEver,
            bound: 4,
            ..PLAIN
        },
    ),
];

/// The runs in which leases are converted, and tasks of one client share a lease or ask at once.
pub const CONVERSIONS: &[Run<ReadWrite<2>>] = &[
    run("D,R, one fault", Size::Small, Setup { clients: &[D, R], faults: 1, kinds: ANY, ..PLAIN }),
    run("U,W, one fault", Size::Small, Setup { clients: &[U, W], faults: 1, kinds: ANY, ..PLAIN }),
    run("U,R, one fault", Size::Small, Setup { clients: &[U, R], faults: 1, kinds: ANY, ..PLAIN }),
    run(
        "RR,W, readers join until wanted",
        Size::Small,
        Setup { clients: &[RR, W], concurrent: true, stay: Stay::UntilWanted, ..PLAIN },
    ),
    run(
        "UR,W, a reader beside an upgrade",
        Size::Small,
        Setup { clients: &[UR, W], concurrent: true, ..PLAIN },
    ),
    run("RW,W", Size::Small, Setup { clients: &[RW, W], concurrent: true, ..PLAIN }),
    run(
        "D,R, data lost",
        Size::Small,
        Setup { clients: &[D, R], faults: 1, kinds: &[Fault::Wipe], ..PLAIN },
    ),
    run(
        "D,R, two ticks",
        Size::Large,
        Setup { clients: &[D, R], faults: 1, kinds: ANY, ticks: 2, bound: 4, ..PLAIN },
    ),
    run(
        "U,W, two ticks",
        Size::Large,
        Setup { clients: &[U, W], faults: 1, kinds: ANY, ticks: 2, bound: 4, ..PLAIN },
    ),
    run(
        "U,R, two ticks",
        Size::Large,
        Setup { clients: &[U, R], faults: 1, kinds: ANY, ticks: 2, ..PLAIN },
    ),
    run(
        "D,U, one fault",
        Size::Large,
        Setup { clients: &[D, U], faults: 1, kinds: ANY, ticks: 1, bound: 3, ..PLAIN },
    ),
    run(
        "RR,W, one fault",
        Size::Medium,
        Setup {
            clients: &[RR, W],
            concurrent: true,
            stay: Stay::UntilWanted,
            faults: 1,
            kinds: ANY,
            ticks: 1,
            bound: 3,
            ..PLAIN
        },
    ),
    run("D,R,W", Size::Large, Setup { clients: &[D, R, W], ticks: 1, ..PLAIN }),
    run(
        "D,W,R, one fault",
        Size::Large,
        Setup { clients: &[D, W, R], faults: 1, kinds: &[Fault::TimeLimit, Fault::Leave], ..PLAIN },
    ),
    run(
        "U,R,W, one fault",
        Size::Large,
        Setup { clients: &[U, R, W], faults: 1, kinds: &[Fault::TimeLimit, Fault::Leave], ..PLAIN },
    ),
    run(
        "UR,W, one fault",
        Size::Large,
        Setup {
            clients: &[UR, W],
            concurrent: true,
            faults: 1,
            kinds: &[Fault::TimeLimit, Fault::Leave],
            ..PLAIN
        },
    ),
];

/// A client caches its read leases.
const CACHED: Setup<ReadWrite<2>> = Setup { caches: true, ..PLAIN };

/// The runs in which clients cache their read leases.
pub const CACHING: &[Run<ReadWrite<2>>] = &[
    run("RR,W, cached", Size::Small, Setup { clients: &[RR, W], ticks: 1, ..CACHED }),
    run("RR,W, cached, two ticks", Size::Medium, Setup { clients: &[RR, W], ticks: 2, ..CACHED }),
    run(
        "RR,W, cached, one fault",
        Size::Small,
        Setup { clients: &[RR, W], faults: 1, kinds: ANY, ..CACHED },
    ),
    run(
        "RR,W, cached, readers beside each other",
        Size::Small,
        Setup { clients: &[RR, W], concurrent: true, ticks: 1, ..CACHED },
    ),
    run(
        "RRW, cached, a lost push",
        Size::Small,
        Setup { clients: &[RRW], faults: 1, kinds: &[Fault::LostPush], ticks: 2, ..CACHED },
    ),
    run(
        "RR,W, cached, data lost",
        Size::Small,
        Setup { clients: &[RR, W], faults: 1, kinds: &[Fault::Wipe], ticks: 1, bound: 3, ..CACHED },
    ),
    run(
        "RR,W, cached, server's clock ahead",
        Size::Small,
        Setup { clients: &[RR, W], faults: 1, kinds: &[Fault::Early], ticks: 1, ..CACHED },
    ),
    run(
        "RR,W, cached, one fault, longer",
        Size::Medium,
        Setup { clients: &[RR, W], faults: 1, kinds: ANY, ticks: 2, bound: 4, ..CACHED },
    ),
    run(
        "RR,R,W, cached",
        Size::Medium,
        Setup { clients: &[RR, R, W], concurrent: true, ticks: 1, bound: 3, ..CACHED },
    ),
];

/// The runs in which one step does one thing of a kind.
pub const CAPPED: &[Run<ReadWrite<1>>] = &[run(
    "R,R,W, one at a time",
    Size::Small,
    Setup { clients: &[R, R, W], polls: true, ..Setup::PLAIN },
)];
