//! Random steps on several locks.

use std::time::Duration;

use leasehold_sim::Dice;
use leasehold_sim::script::{Op, Script};

/// A ttl is never a multiple of it, an offer neither.
pub(super) const UNIT: Duration = Duration::from_millis(700);
/// How many locks there are; the last one's key holds something of somebody else's.
pub(super) const LOCKS: usize = 4;
/// The number of that lock.
pub(super) const FOREIGN: usize = LOCKS - 1;

/// One step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// Which lock.
    pub(super) lock: usize,
    /// What is done.
    pub(super) op: Op,
    /// In the same call as the one before, if they are for the same script.
    pub(super) joined: bool,
}

/// `length` steps; the same seed gives the same ones.
pub(super) fn random(seed: u64, length: usize) -> Vec<Step> {
    let mut dice = Dice::new(!seed);
    let ops = Script::random(seed, length, UNIT).ops;
    // Most on one lock, so that much happens to it.
    let mut lock = || [0, 0, 0, 0, 0, 1, 1, 2, 2, FOREIGN][dice.roll(10) as usize];
    let mut steps: Vec<Step> =
        ops.into_iter().map(|op| Step { lock: lock(), op, joined: true }).collect();
    // Batches come of equal ones that stand together.
    let mut dice = Dice::new(seed);
    let mut from = 0;
    while from < steps.len() {
        let to = steps.len().min(from + 1 + dice.roll(16) as usize);
        if dice.one_in(4) {
            steps[from..to].sort_by_key(|step| kind(&step.op));
        } else {
            steps[from..to].iter_mut().for_each(|step| step.joined = false);
        }
        from = to;
    }
    steps
}

/// Which script an operation is for.
pub(super) fn kind(op: &Op) -> u8 {
    match op {
        Op::Pass(_) | Op::Listen(..) | Op::Forget(_) => 0,
        Op::Acquire(_) => 1,
        Op::Release(_) => 2,
        Op::Rotate(..) => 3,
        Op::Renew(..) => 4,
        Op::Force(..) => 5,
    }
}
