//! Draws a plan for a set-up and a kind of trouble from a seed.

use std::fmt;
use std::time::Duration;

use super::{Behaviour, Belief, Fault, MS, Memory, Network, Plan, Rng, SECOND, Setup, Waiting};

const TTL: Duration = Duration::from_secs(2);
/// From here on nothing goes wrong any more.
const CALM: u64 = 14 * SECOND;
/// Long enough for nodes to be admitted again, for leases to end, and for everybody's turn.
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
}

impl Trouble {
    /// All of them, in the order of the tables.
    pub const ALL: [Self; 11] = [
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
    ];

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
        }
    }

    /// Whether this set-up promises that there is one holder at a time.
    ///
    /// A clock that jumps ends leases before their time. With five nodes that is harmless as long
    /// as the holder has more than a bare majority, which nobody can promise.
    pub fn exclusive(self, setup: Setup) -> bool {
        match (self, setup) {
            (_, Setup::PlainSet) | (Self::NodeClock | Self::NodeClocks, _) => false,
            (Self::Restart | Self::Restarts, _) => {
                setup.admission() || setup.memory() == Memory::Everything
            }
            (Self::Pause, _) => setup.belief() == Belief::Deadline,
            _ => true,
        }
    }

    /// Whether this set-up promises that tokens are unique and grow.
    pub fn ordered(self, setup: Setup) -> bool {
        let safe = setup.admission() || setup.memory() == Memory::Everything;
        setup.tokens() && (safe || !matches!(self, Self::Restart | Self::Restarts))
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
    for time in moments {
        match trouble {
            Trouble::None => {}
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
                // With the others out of reach the lock is held by a bare majority.
                for other in (1..few + 1).map(|step| (node + step) % nodes) {
                    if other != node && rng.chance(700) {
                        let time = time.saturating_sub(SECOND);
                        faults.push((time, Fault::NodeDown { node: other, time: SECOND }));
                    }
                }
                faults.push((time, Fault::Restart { node, time: away }));
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
    let client = Behaviour { renews: setup.belief() != Belief::Finished, ..Behaviour::BUSY };
    Plan {
        setup,
        bug: None,
        ttl: TTL,
        limit: Duration::from_millis(20),
        clients: vec![client; CLIENTS],
        network,
        waiting: Waiting::Asks,
        by_value: false,
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
