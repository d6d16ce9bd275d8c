//! The runs that are made: small ones by the tests, all of them by `cargo xtask model --full`.

use super::Semaphore;
use crate::primitive_model::{Fault, Run, Setup, Size, Stay, Use, Want};

/// One slot.
pub const ONE: &[Use] = &[Use::Hold(Want::Slots(1))];
/// Two slots at once.
pub const TWO: &[Use] = &[Use::Hold(Want::Slots(2))];
const FOUR: &[Use] = &[Use::Hold(Want::Slots(4))];
/// One slot, twice.
pub const TWICE: &[Use] = &[Use::Hold(Want::Slots(1)), Use::Hold(Want::Slots(1))];

/// The faults that every protocol must bear.
pub const ANY: &[Fault] =
    &[Fault::TimeLimit, Fault::Cut, Fault::Crash, Fault::Leave, Fault::LostPush];

const PLAIN: Setup<Semaphore<2>> = Setup { limit: 2, polls: true, ..Setup::PLAIN };

const fn run<const CAP: usize>(
    name: &'static str,
    size: Size,
    setup: Setup<Semaphore<CAP>>,
) -> Run<Semaphore<CAP>> {
    Run { name, size, setup }
}

/// The runs in which one step does two things of a kind.
pub const RUNS: &[Run<Semaphore<2>>] = &[
    run(
        "1 and 2, one fault",
        Size::Small,
        Setup { clients: &[ONE, TWO], faults: 1, kinds: ANY, ticks: 2, bound: 3, ..PLAIN },
    ),
    run("1, 2 and 1, no fault", Size::Small, Setup { clients: &[ONE, TWO, ONE], ..PLAIN }),
    run(
        "1 and 1, limit 2 to 1, one fault",
        Size::Small,
        Setup {
            clients: &[ONE, ONE],
            changes: &[1],
            faults: 1,
            kinds: ANY,
            ticks: 1,
            bound: 3,
            ..PLAIN
        },
    ),
    run(
        "1 and 1, limit 1, data lost",
        Size::Small,
        Setup {
            clients: &[ONE, ONE],
            limit: 1,
            faults: 1,
            kinds: &[Fault::Wipe],
            ticks: 2,
            bound: 3,
            ..PLAIN
        },
    ),
    run(
        "1 and 1, server's clock ahead",
        Size::Small,
        Setup {
            clients: &[ONE, ONE],
            limit: 1,
            faults: 1,
            kinds: &[Fault::Early],
            ticks: 2,
            bound: 3,
            ..PLAIN
        },
    ),
    run(
        "1 and 1, silent repetition",
        Size::Small,
        Setup {
            clients: &[ONE, ONE],
            limit: 1,
            faults: 1,
            kinds: &[Fault::Repeat],
            ticks: 1,
            bound: 3,
            ..PLAIN
        },
    ),
    run(
        "1, 2 and 1, holders stay",
        Size::Medium,
        Setup {
            clients: &[ONE, TWO, ONE],
            faults: 1,
            kinds: &[Fault::Cut, Fault::Crash],
            ticks: 1,
            bound: 4,
            stay: Stay::ForEver,
            ..PLAIN
        },
    ),
    run(
        "1 and 2, two faults",
        Size::Large,
        Setup { clients: &[ONE, TWO], faults: 2, kinds: ANY, ticks: 2, bound: 5, ..PLAIN },
    ),
    run(
        "1, 2 and 1, one fault",
        Size::Medium,
        Setup { clients: &[ONE, TWO, ONE], faults: 1, kinds: ANY, ticks: 1, bound: 3, ..PLAIN },
    ),
    run(
        "1, 1 and 1, one fault",
        Size::Medium,
        Setup { clients: &[ONE, ONE, ONE], faults: 1, kinds: ANY, ticks: 1, bound: 3, ..PLAIN },
    ),
    run(
        "2, 1 and 1, limit 2 to 1",
        Size::Medium,
        Setup {
            clients: &[TWO, ONE, ONE],
            changes: &[1],
            faults: 1,
            kinds: &[Fault::Leave, Fault::Crash],
            ticks: 1,
            bound: 3,
            ..PLAIN
        },
    ),
    run(
        "1, 1 and 1, limit 2 to 1, then 3",
        Size::Medium,
        Setup {
            clients: &[ONE, ONE, ONE],
            changes: &[1, 3],
            faults: 1,
            kinds: &[Fault::TimeLimit, Fault::Crash],
            bound: 3,
            ..PLAIN
        },
    ),
    run(
        "1 and 1, limit 2 to 1, two faults",
        Size::Large,
        Setup {
            clients: &[ONE, ONE],
            changes: &[1],
            faults: 2,
            kinds: ANY,
            ticks: 2,
            bound: 5,
            ..PLAIN
        },
    ),
    run(
        "1 twice each, limit 1, one fault",
        Size::Large,
        Setup {
            clients: &[TWICE, TWICE],
            limit: 1,
            faults: 1,
            kinds: &[Fault::TimeLimit, Fault::Leave, Fault::Crash],
            ticks: 2,
            bound: 3,
            ..PLAIN
        },
    ),
];

/// The runs in which one step does one thing of a kind.
pub const CAPPED: &[Run<Semaphore<1>>] = &[
    run(
        "1, 1 and 1, one at a time",
        Size::Small,
        Setup { clients: &[ONE, ONE, ONE], limit: 2, polls: true, ..Setup::PLAIN },
    ),
    run(
        "1, 1, 1 and 1, one at a time",
        Size::Large,
        Setup {
            clients: &[ONE, ONE, ONE, ONE],
            limit: 2,
            faults: 1,
            kinds: &[Fault::Cut, Fault::Crash, Fault::Leave],
            bound: 3,
            polls: true,
            ..Setup::PLAIN
        },
    ),
    run(
        "4, 1, 1, 1 and 1, one at a time",
        Size::Large,
        Setup { clients: &[FOUR, ONE, ONE, ONE, ONE], limit: 4, polls: true, ..Setup::PLAIN },
    ),
];
