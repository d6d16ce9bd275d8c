//! What a run is: who does what, and what goes wrong when.

use std::time::Duration;

use super::{Bug, Fault, MS, SECOND, Setup};

/// Everything that a run is made from, besides its seed.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How locks are had.
    pub setup: Setup,
    /// What is wrong with it, if anything.
    pub bug: Option<Bug>,
    /// Of every lease; the longest, too.
    pub ttl: Duration,
    /// How long each node is waited for.
    pub limit: Duration,
    /// The clients look at their nodes when the run begins, not with their first request.
    pub looks_first: bool,
    /// The clients.
    pub clients: Vec<Behaviour>,
    /// The links.
    pub network: Network,
    /// How those learn of a release who were turned away.
    pub waiting: Waiting,
    /// A resource that compares the random value of the lock exists too: the client that acquires
    /// the lock claims it, and the resource accepts writes while the claim stands.
    pub by_value: bool,
    /// A client of one node repeats a request without an answer: with the same value, by which it
    /// recognises its own lock; with [`Setup::PlainSet`] it recognises nothing.
    pub repeats: bool,
    /// When what goes wrong.
    pub faults: Vec<(u64, Fault)>,
    /// From here on there are no faults, and every client must make progress.
    pub calm: u64,
    /// The end.
    pub end: u64,
    /// The rates of clocks differ within what is allowed for.
    pub clocks_differ: bool,
    /// Their wall clocks are off by as much as this.
    pub skew: u64,
    /// It is promised that there is one holder at a time.
    pub exclusive: bool,
    /// It is promised that tokens are unique and grow.
    pub ordered: bool,
    /// Write a trace.
    pub traced: bool,
}

/// What a client does, again and again.
#[derive(Clone, Copy, Debug)]
pub struct Behaviour {
    /// When it begins.
    pub start: u64,
    /// How long it works under the lock: between these.
    pub hold: (u64, u64),
    /// How long it waits before the next time: between these. `None`: it does it once.
    pub think: Option<(u64, u64)>,
    /// Whether it renews its lease.
    pub renews: bool,
    /// It looks whether it still holds the lock so long before its write gets to the resource.
    pub write: (u64, u64),
    /// How long it tries before it gives up.
    pub patience: u64,
    /// Its claim takes so long to the resource that compares random values.
    pub claim: u64,
}

/// How a refused client learns of a release. A client without a notification asks again when the
/// lease in its way has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// It does not: it asks again after random pauses.
    Asks,
    /// It begins to listen then, and a release notifies all listeners.
    Listens,
    /// It is in the queue from the moment of the refusal, and a release notifies the first waiter.
    InLine,
}

/// The links between clients and nodes.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    /// A message takes this long: between these.
    pub delay: (u64, u64),
    /// So many of a thousand are lost.
    pub lost: u32,
    /// So many of a thousand arrive twice.
    pub twice: u32,
    /// So many of a thousand take up to so much longer.
    pub late: (u32, u64),
}

impl Network {
    /// Nothing is lost; a way takes about a millisecond.
    pub const GOOD: Self = Self { delay: (MS / 5, 2 * MS), lost: 0, twice: 0, late: (0, 0) };
}

impl Behaviour {
    /// Works up to two seconds under the lock, again and again.
    pub const BUSY: Self = Self {
        start: 0,
        hold: (50 * MS, 2 * SECOND),
        think: Some((10 * MS, SECOND)),
        renews: true,
        write: (MS / 5, 5 * MS),
        patience: u64::MAX,
        claim: 0,
    };
}
