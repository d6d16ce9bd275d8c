//! Random steps on several locks.

use std::time::Duration;

use leasehold_proto::handoff::AcquireRequest;
use leasehold_proto::{AttemptId, ClientId};
use leasehold_sim::Dice;
use leasehold_sim::script::{Op, ReleaseStep, Script, Which, terms};

/// No ttl and no offer is a multiple of it.
pub(super) const UNIT: Duration = Duration::from_millis(700);
/// The number of locks; the key of the last one has data of another program.
pub(super) const LOCKS: usize = 4;
/// The number of that lock.
pub(super) const FOREIGN: usize = LOCKS - 1;

/// One step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// The lock.
    pub(super) lock: usize,
    /// The operation.
    pub(super) op: Op,
    /// It is in the same call as the previous step, if both use the same script.
    pub(super) joined: bool,
}

/// Draws `length` steps; the same seed returns the same steps.
pub(super) fn random(seed: u64, length: usize) -> Vec<Step> {
    if seed % 4 == 3 {
        return in_short(seed, length);
    }
    let mut dice = Dice::new(!seed);
    let ops = Script::random(seed, length, UNIT).ops;
    // Most steps are on one lock, so that much happens to it.
    let mut lock = || [0, 0, 0, 0, 0, 1, 1, 2, 2, FOREIGN][dice.roll(10) as usize];
    let mut steps: Vec<Step> =
        ops.into_iter().map(|op| Step { lock: lock(), op, joined: true }).collect();
    // Equal steps in a row form batches.
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

/// Short-form requests of a client: equal acquires of locks that are mostly free, and the ends of
/// those leases, with other steps between them at times.
fn in_short(seed: u64, length: usize) -> Vec<Step> {
    let mut dice = Dice::new(!seed);
    let mut others = Script::random(seed, length, UNIT).ops.into_iter();
    let mut steps = Vec::new();
    while steps.len() < length {
        let (sequence, wait) = (dice.roll(3) as u32, !dice.one_in(4));
        // Two clients with equal acquires.
        let pair = dice.roll(2) * 2;
        let mut holders = Vec::new();
        for lock in 0..LOCKS {
            if !dice.one_in(4) {
                let client = ClientId::from_bits(pair + dice.roll(2));
                holders.push((lock, AttemptId::new(client, sequence, 0)));
            }
        }
        for (lock, attempt) in holders.iter().copied() {
            let (ttl, tokens) = terms(attempt, UNIT);
            let request = AcquireRequest { attempt, ttl, wait, fair: true, tokens, tag: () };
            steps.push(Step { lock, op: Op::Acquire(request), joined: lock > 0 });
        }
        let between = dice.one_in(3).then(|| others.next()).flatten();
        steps.extend(between.map(|op| Step { lock: dice.roll(3) as usize, op, joined: false }));
        let used = dice.one_in(4).then_some(0);
        for (lock, attempt) in holders {
            let used = Some(used.unwrap_or(terms(attempt, UNIT).1 - 1));
            let ending =
                ReleaseStep { attempt, which: Which::Last, used, suspect: false, keep: None };
            steps.push(Step { lock, op: Op::Release(ending), joined: lock > 0 });
        }
    }
    steps
}

/// Returns the script of an operation.
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
