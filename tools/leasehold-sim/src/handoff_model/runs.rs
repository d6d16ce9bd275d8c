//! The runs that are made: small ones by the tests, all of them by `cargo xtask model --full`.

use leasehold_proto::handoff::TOKEN_LEAD;

use super::{Setup, Upkeep};

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

/// What a run costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Size {
    /// Seconds: the tests make it.
    Small,
    /// Half a minute: `cargo xtask model` makes it.
    Medium,
    /// Minutes, and gigabytes of memory: `cargo xtask model --full` makes it.
    Large,
}

/// Two clients with one attempt each and no fault; the runs say what is otherwise.
const PLAIN: Setup = Setup {
    clients: 2,
    attempts: 1,
    faults: 0,
    ticks: 4,
    block: 1,
    bad_timing: false,
    silent: false,
    waiters_leave: true,
    rotate: false,
    local_queue: false,
    tasks: false,
    timers: false,
    prompt: false,
    caches: false,
    upkeep: Upkeep::NONE,
    bug: None,
};

const FORCE: Upkeep = Upkeep { times: 1, force: true, ..Upkeep::NONE };
const EMPTY: Upkeep = Upkeep { times: 1, empty: true, ..Upkeep::NONE };

/// How far the server's clock is ahead in runs in which it is set right: longer than these last.
const AHEAD: u32 = 60_000_000;

const fn run(name: &'static str, size: Size, setup: Setup) -> Run {
    Run { name, setup, size }
}

/// All runs of the protocol without bugs.
pub const RUNS: &[Run] = &[
    run("no fault", Size::Small, PLAIN),
    run("one fault", Size::Small, Setup { faults: 1, ticks: 2, ..PLAIN }),
    run(
        "second attempts",
        Size::Small,
        Setup { attempts: 2, ticks: 1, waiters_leave: false, ..PLAIN },
    ),
    run(
        "rotation, blocks of tokens",
        Size::Small,
        Setup { attempts: 2, ticks: 0, block: 2, rotate: true, waiters_leave: false, ..PLAIN },
    ),
    run(
        "lines in a process",
        Size::Small,
        Setup {
            attempts: 2,
            ticks: 0,
            rotate: true,
            local_queue: true,
            waiters_leave: false,
            ..PLAIN
        },
    ),
    run(
        "one line alone, one fault",
        Size::Small,
        Setup {
            clients: 1,
            attempts: 3,
            faults: 1,
            ticks: 0,
            block: 2,
            rotate: true,
            local_queue: true,
            ..PLAIN
        },
    ),
    run(
        "tasks that differ",
        Size::Small,
        Setup {
            ticks: 3,
            block: 2,
            attempts: 2,
            tasks: true,
            waiters_leave: false,
            prompt: true,
            ..PLAIN
        },
    ),
    run(
        "tasks that differ, exchanges",
        Size::Small,
        Setup {
            clients: 1,
            attempts: 2,
            faults: 1,
            ticks: 0,
            block: 2,
            rotate: true,
            waiters_leave: false,
            tasks: true,
            ..PLAIN
        },
    ),
    run("three clients", Size::Small, Setup { clients: 3, ticks: 0, ..PLAIN }),
    run(
        "dead waiters beyond the cap",
        Size::Small,
        Setup {
            clients: 3,
            attempts: 2,
            faults: 2,
            ticks: 0,
            prompt: true,
            rotate: true,
            waiters_leave: false,
            ..PLAIN
        },
    ),
    run("bad timing", Size::Small, Setup { bad_timing: true, faults: 1, ticks: 1, ..PLAIN }),
    run("silent repetition", Size::Small, Setup { silent: true, faults: 1, ticks: 0, ..PLAIN }),
    run(
        "timers, two ttls",
        Size::Small,
        Setup { clients: 3, ticks: 4, timers: true, waiters_leave: false, ..PLAIN },
    ),
    run(
        "init and forget",
        Size::Small,
        Setup {
            faults: 1,
            ticks: 1,
            upkeep: Upkeep { times: 2, init: true, forget: true, ..Upkeep::NONE },
            ..PLAIN
        },
    ),
    run(
        "sweep, clock was ahead",
        Size::Small,
        Setup {
            attempts: 2,
            ticks: 2,
            prompt: true,
            upkeep: Upkeep { times: 1, sweep: true, ahead: AHEAD, ..Upkeep::NONE },
            ..PLAIN
        },
    ),
    run(
        "forget, a lease is over",
        Size::Small,
        Setup {
            ticks: 4,
            prompt: true,
            upkeep: Upkeep { times: 1, forget: true, ..Upkeep::NONE },
            ..PLAIN
        },
    ),
    run("forced release", Size::Small, Setup { faults: 1, ticks: 1, upkeep: FORCE, ..PLAIN }),
    run(
        "forced release, more attempts",
        Size::Small,
        Setup { attempts: 2, ticks: 1, prompt: true, upkeep: FORCE, ..PLAIN },
    ),
    run("server returns empty", Size::Small, Setup { faults: 1, ticks: 1, upkeep: EMPTY, ..PLAIN }),
    run(
        "empty, blocks of tokens",
        Size::Small,
        Setup { attempts: 2, ticks: 0, block: TOKEN_LEAD, prompt: true, upkeep: EMPTY, ..PLAIN },
    ),
    run(
        "server returns older",
        Size::Small,
        Setup {
            ticks: 2,
            block: TOKEN_LEAD,
            prompt: true,
            upkeep: Upkeep { times: 1, older: true, ..Upkeep::NONE },
            ..PLAIN
        },
    ),
    run("cached leases", Size::Small, Setup { ticks: 3, block: 2, caches: true, ..PLAIN }),
    run(
        "cached leases, one fault",
        Size::Small,
        Setup { faults: 1, ticks: 1, block: 2, caches: true, ..PLAIN },
    ),
    run(
        "cached leases, forced release",
        Size::Small,
        Setup { ticks: 1, block: 2, caches: true, upkeep: FORCE, ..PLAIN },
    ),
    run(
        "cached leases, server returns empty",
        Size::Small,
        Setup { ticks: 1, block: 2, caches: true, upkeep: EMPTY, ..PLAIN },
    ),
    run(
        "cached leases, bad timing",
        Size::Small,
        Setup { bad_timing: true, faults: 1, ticks: 0, block: 2, caches: true, ..PLAIN },
    ),
    run(
        "cached leases, one fault, longer",
        Size::Medium,
        Setup { faults: 1, ticks: 3, block: 2, caches: true, waiters_leave: false, ..PLAIN },
    ),
    run(
        "cached leases, second attempts",
        Size::Medium,
        Setup { attempts: 2, ticks: 1, block: 2, caches: true, waiters_leave: false, ..PLAIN },
    ),
    run(
        "cached leases, three clients",
        Size::Medium,
        Setup { clients: 3, ticks: 0, block: 2, caches: true, ..PLAIN },
    ),
    run("one fault, longer", Size::Medium, Setup { faults: 1, ..PLAIN }),
    run("two faults", Size::Medium, Setup { faults: 2, ticks: 0, ..PLAIN }),
    run(
        "second attempts, longer",
        Size::Medium,
        Setup { attempts: 2, ticks: 2, waiters_leave: false, ..PLAIN },
    ),
    run(
        "second attempts, one fault",
        Size::Medium,
        Setup { attempts: 2, faults: 1, ticks: 1, waiters_leave: false, ..PLAIN },
    ),
    run(
        "rotation, longer",
        Size::Medium,
        Setup { attempts: 2, ticks: 2, rotate: true, waiters_leave: false, ..PLAIN },
    ),
    run(
        "rotation, one fault",
        Size::Medium,
        Setup {
            attempts: 2,
            faults: 1,
            ticks: 0,
            block: 2,
            rotate: true,
            waiters_leave: false,
            ..PLAIN
        },
    ),
    run(
        "rotation alone, two faults",
        Size::Medium,
        Setup { clients: 1, attempts: 2, faults: 2, ticks: 2, block: 2, rotate: true, ..PLAIN },
    ),
    run(
        "three clients, one fault",
        Size::Medium,
        Setup { clients: 3, faults: 1, ticks: 0, ..PLAIN },
    ),
    run("bad timing, longer", Size::Medium, Setup { bad_timing: true, faults: 1, ..PLAIN }),
    run(
        "silent repetition, longer",
        Size::Medium,
        Setup { silent: true, faults: 1, ticks: 2, ..PLAIN },
    ),
    run(
        "timers, two ttls, giving up",
        Size::Medium,
        Setup { clients: 3, ticks: 3, timers: true, ..PLAIN },
    ),
    run(
        "lines in a process, giving up",
        Size::Medium,
        Setup { attempts: 2, ticks: 0, block: 2, rotate: true, local_queue: true, ..PLAIN },
    ),
    run(
        "lines in a process, one fault",
        Size::Medium,
        Setup {
            attempts: 2,
            faults: 1,
            ticks: 0,
            rotate: true,
            local_queue: true,
            waiters_leave: false,
            ..PLAIN
        },
    ),
    run(
        "tasks that differ, longer",
        Size::Large,
        Setup { attempts: 2, ticks: 1, block: 2, tasks: true, waiters_leave: false, ..PLAIN },
    ),
    run(
        "tasks that differ, more attempts",
        Size::Medium,
        Setup {
            clients: 1,
            attempts: 3,
            faults: 1,
            ticks: 0,
            block: 2,
            rotate: true,
            tasks: true,
            ..PLAIN
        },
    ),
    run(
        "tasks that differ, one fault",
        Size::Medium,
        Setup {
            attempts: 2,
            faults: 1,
            ticks: 0,
            rotate: true,
            tasks: true,
            waiters_leave: false,
            ..PLAIN
        },
    ),
    run("two faults, longer", Size::Large, Setup { faults: 2, ..PLAIN }),
    run(
        "two faults, bad timing",
        Size::Large,
        Setup { bad_timing: true, faults: 2, ticks: 3, ..PLAIN },
    ),
    run("three clients, longer", Size::Large, Setup { clients: 3, ticks: 2, ..PLAIN }),
    run(
        "three clients, fault, longer",
        Size::Large,
        Setup { clients: 3, faults: 1, ticks: 2, waiters_leave: false, ..PLAIN },
    ),
    run("second attempts, giving up", Size::Large, Setup { attempts: 2, ticks: 1, ..PLAIN }),
    run(
        "rotation, time and fault",
        Size::Large,
        Setup { attempts: 2, faults: 1, ticks: 1, rotate: true, waiters_leave: false, ..PLAIN },
    ),
];
