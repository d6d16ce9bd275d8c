//! Draws a plan for a set-up and a kind of trouble from a seed.

use std::fmt;
use std::time::Duration;

use super::{Behaviour, Belief, Fault, MS, Memory, Network, Plan, Rng, SECOND, Setup, Waiting};

const TTL: Duration = Duration::from_secs(2);
/// From here on nothing goes wrong any more.
const CALM: u64 = 14 * SECOND;
/// Long enough for nodes to be admitted again, for leases to end, and for every client's turn.
const END: u64 = 32 * SECOND;
const CLIENTS: usize = 3;

/// What kind of thing goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trouble {
    /// Nothing.
    None,
    /// Messages are lost, late, repeated.
    Network,
    /// A client cannot reach some nodes.
    Partition,
    /// A holder is stopped for longer than its lease.
    Pause,
    /// A holder dies.
    Crash,
    /// A client's wall clock jumps.
    ClientClock,
    /// The clock of one node jumps by more than a ttl.
    NodeClock,
    /// The clocks of most nodes do.
    NodeClocks,
    /// A node cannot be reached, or is slow.
    NodeDown,
    /// A node is started again with what its set-up keeps; a single one too.
    Restart,
    /// Most nodes are, and an operator comes.
    Restarts,
    /// An operator runs `quorum init` while some nodes are empty and others do not answer.
    Init,
    /// An operator forgets the lock, and releases it by force; the server's clock was ahead.
    Upkeep,
    /// A node returns with older data, as another process.
    Older,
    /// A node returns with older data, as the same process.
    Snapshot,
}

impl Trouble {
    /// All of them, in the order of the tables.
    pub const ALL: [Self; 15] = [
        Self::None,
        Self::Network,
        Self::Partition,
        Self::Pause,
        Self::Crash,
        Self::ClientClock,
        Self::NodeClock,
        Self::NodeClocks,
        Self::NodeDown,
        Self::Restart,
        Self::Restarts,
        Self::Init,
        Self::Upkeep,
        Self::Older,
        Self::Snapshot,
    ];

    /// Those in which people maintain the store, or restore it from a copy.
    pub const MAINTENANCE: [Self; 4] = [Self::Init, Self::Upkeep, Self::Older, Self::Snapshot];

    /// As it is written in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "nothing",
            Self::Network => "messages lost, late, repeated",
            Self::Partition => "clients cut off from nodes",
            Self::Pause => "clients stopped beyond the ttl",
            Self::Crash => "a holder dies",
            Self::ClientClock => "a client's wall clock jumps",
            Self::NodeClock => "one node's clock jumps",
            Self::NodeClocks => "most nodes' clocks jump",
            Self::NodeDown => "nodes out of reach",
            Self::Restart => "a node starts again",
            Self::Restarts => "most nodes start again",
            Self::Init => "init beside silent nodes",
            Self::Upkeep => "forget and force-release",
            Self::Older => "a node returns with old data",
            Self::Snapshot => "a node resumes a snapshot",
        }
    }

    /// Whether this set-up promises that there is one holder at a time.
    ///
    /// A clock that jumps ends leases before their time. With five nodes that is harmless as long
    /// as the holder has more than a bare majority, which no set-up guarantees. With one node,
    /// `init` relies on the operator's statement that no client holds a lock. A node that resumes
    /// from a snapshot cannot know that it lost leases.
    pub fn exclusive(self, setup: Setup) -> bool {
        match (self, setup) {
            (_, Setup::PlainSet | Setup::RedissonRedlock)
            | (Self::NodeClock | Self::NodeClocks | Self::Snapshot, _) => false,
            (Self::Init, Setup::SingleStrict) => false,
            (Self::Older, _) => setup.admission(),
            (Self::Restart | Self::Restarts | Self::Init, _) => {
                setup.admission() || setup.memory() == Memory::Everything
            }
            (Self::Pause, _) => setup.belief() == Belief::Deadline,
            _ => true,
        }
    }

    /// Whether this set-up promises that tokens are unique and grow.
    pub fn ordered(self, setup: Setup) -> bool {
        let safe = setup.admission() || setup.memory() == Memory::Everything;
        setup.tokens()
            && match self {
                Self::Restart | Self::Restarts | Self::Init => safe,
                Self::Older | Self::Snapshot => false,
                _ => true,
            }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The plan of a seed.
pub fn plan(setup: Setup, trouble: Trouble, seed: u64) -> Plan {
    let mut rng = Rng::new(seed ^ 0x5eed);
    let mut faults = Vec::new();
    let mut network = Network::GOOD;
    let nodes = setup.nodes();
    let few = nodes.saturating_sub(nodes / 2 + 1).max(1);
    let most = nodes / 2 + 1;
    let mut moments: Vec<u64> = (0..3).map(|_| rng.between(SECOND, CALM - 3 * SECOND)).collect();
    moments.sort_unstable();
    let long = |rng: &mut Rng| rng.between(SECOND, 3 * SECOND);
    if trouble == Trouble::Upkeep {
        upkeep(&mut rng, nodes, &moments, &mut faults);
    }
    for time in moments {
        match trouble {
            Trouble::None | Trouble::Upkeep => {}
            Trouble::Network => {
                network = Network { lost: 50, twice: 50, late: (100, 3 * SECOND), ..network };
            }
            Trouble::Partition => {
                let client = rng.below(CLIENTS as u64) as usize;
                for node in some(&mut rng, nodes, most) {
                    faults.push((time, Fault::Cut { client, node, time: long(&mut rng) }));
                }
            }
            Trouble::Pause => {
                let stop = rng.between(SECOND / 2, 7 * SECOND / 2);
                let fault = match rng.chance(700) {
                    true => Fault::PauseHolder { time: stop },
                    false => Fault::PauseAsker { time: stop },
                };
                faults.push((time, fault));
            }
            Trouble::Crash => {
                let back = rng.between(MS, 3 * SECOND);
                faults.push((time, Fault::CrashHolder { back }));
            }
            Trouble::ClientClock => {
                let client = rng.below(CLIENTS as u64) as usize;
                let by = jump(&mut rng);
                faults.push((time, Fault::ClientClock { client, by }));
            }
            Trouble::NodeClock => {
                let node = (seed % nodes as u64) as usize;
                faults.push((time, Fault::NodeClock { node, by: ahead(&mut rng) }));
            }
            Trouble::NodeClocks => {
                for node in some(&mut rng, nodes, most) {
                    faults.push((time, Fault::NodeClock { node, by: ahead(&mut rng) }));
                }
            }
            Trouble::NodeDown => {
                for node in some(&mut rng, nodes, few) {
                    faults.push((time, Fault::NodeDown { node, time: long(&mut rng) }));
                }
            }
            Trouble::Restart => {
                let node = (seed % nodes as u64) as usize;
                let away = rng.between(MS, SECOND / 2);
                silent(&mut rng, (node + 1, few), nodes, (time, SECOND), &mut faults);
                faults.push((time, Fault::Restart { node, time: away }));
            }
            Trouble::Older | Trouble::Snapshot => {
                let node = (seed % nodes as u64) as usize;
                let away = rng.between(20 * MS, SECOND / 2);
                silent(&mut rng, (node + 1, few), nodes, (time, SECOND), &mut faults);
                let saved = time.saturating_sub(rng.between(SECOND / 10, 3 * SECOND));
                faults.push((saved, Fault::Save { node }));
                let same = trouble == Trouble::Snapshot;
                faults.push((time, Fault::Older { node, time: away, same }));
            }
            Trouble::Init => {
                let first = (seed % nodes as u64) as usize;
                let away = rng.between(MS, SECOND / 4);
                silent(&mut rng, (first + few, few), nodes, (time, 2 * SECOND), &mut faults);
                for node in (first..first + few).map(|node| node % nodes) {
                    faults.push((time, Fault::Restart { node, time: away }));
                }
                if setup.admission() {
                    let late = away + rng.between(10 * MS, SECOND / 2);
                    faults.push((time + late, Fault::Init));
                }
            }
            Trouble::Restarts => {
                for node in some(&mut rng, nodes, most) {
                    let away = rng.between(MS, SECOND / 2);
                    faults.push((time, Fault::Restart { node, time: away }));
                }
                if nodes > 1 && setup.admission() {
                    faults.push((CALM, Fault::Operator));
                }
            }
        }
    }
    faults.push((CALM, Fault::Calm));
    let client = Behaviour { renews: setup != Setup::PlainSet, ..Behaviour::BUSY };
    Plan {
        setup,
        bug: None,
        ttl: TTL,
        limit: Duration::from_millis(20),
        looks_first: false,
        clients: vec![client; CLIENTS],
        network,
        waiting: Waiting::Asks,
        by_value: false,
        repeats: false,
        faults,
        calm: CALM,
        end: END,
        clocks_differ: true,
        skew: 3 * SECOND / 2,
        exclusive: trouble.exclusive(setup),
        ordered: trouble.ordered(setup),
        traced: false,
    }
}

/// Some of these nodes, from a second before the moment on: without them the lock is held by a bare
/// majority.
fn silent(
    rng: &mut Rng,
    (first, many): (usize, usize),
    nodes: usize,
    (moment, time): (u64, u64),
    faults: &mut Vec<(u64, Fault)>,
) {
    for node in (first..first + many).map(|node| node % nodes) {
        if nodes > 1 && rng.chance(700) {
            faults.push((moment.saturating_sub(SECOND), Fault::NodeDown { node, time }));
        }
    }
}

/// The clock of a node is ahead until the first moment; from then on `forget` runs again and again, and
/// holders are released by force.
fn upkeep(rng: &mut Rng, nodes: usize, moments: &[u64], faults: &mut Vec<(u64, Fault)>) {
    let node = rng.below(nodes as u64) as usize;
    let by = rng.between(5 * SECOND, 60 * SECOND) as i64;
    let from = moments.first().copied().unwrap_or(SECOND);
    faults.push((0, Fault::NodeWall { node, by }));
    faults.push((from, Fault::NodeWall { node, by: -by }));
    for moment in moments {
        faults.push((moment + rng.between(MS, SECOND), Fault::ForceHolder));
    }
    for _ in 0..30 {
        faults.push((rng.between(from + 1, CALM), Fault::Forget));
    }
}

/// So many different nodes.
fn some(rng: &mut Rng, nodes: usize, many: usize) -> Vec<usize> {
    let first = rng.below(nodes as u64) as usize;
    (0..many.min(nodes)).map(|step| (first + step) % nodes).collect()
}

/// More than a ttl ahead, rarely back.
fn ahead(rng: &mut Rng) -> i64 {
    rng.between(2 * SECOND, 5 * SECOND) as i64
}

fn jump(rng: &mut Rng) -> i64 {
    let by = rng.between(SECOND, 1000 * SECOND) as i64;
    if rng.chance(500) { by } else { -by }
}
