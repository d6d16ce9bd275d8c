//! Random steps on one semaphore.

use std::time::Duration;

use leasehold_proto::{AttemptId, ClientId};
use leasehold_sim::Dice;
use leasehold_sim::script::CLIENTS;

use super::super::steps::UNIT;

/// How many attempts a client makes.
const ATTEMPTS: u64 = 5;

/// Which permit a request names.
#[derive(Clone, Copy, Debug)]
pub(super) enum Which {
    /// None: the client has heard of no grant.
    Unheard,
    /// The last one of its attempt.
    Own,
    /// The last one of its attempt, without its slot.
    OwnToken,
    /// The last one of all.
    Latest,
}

/// How an attempt ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub(super) attempt: AttemptId,
    pub(super) which: Which,
    pub(super) used: Option<u64>,
    pub(super) suspect: bool,
}

/// An acquire.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    pub(super) attempt: AttemptId,
    pub(super) wait: bool,
    /// A limit that may not be the stored one.
    pub(super) limit: Option<u32>,
}

/// One step.
#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    Pass(Duration),
    Listen(ClientId, bool),
    Acquire(Ask),
    /// The leases of two attempts, in one call.
    Renew(AttemptId, AttemptId, Which),
    Release(End),
    Rotate(End, Ask),
    /// A change of the limit, with a version this much older than the stored one.
    Limit(u64, u32),
    /// With its slot, or without.
    Force(Which, bool),
    ForceOne(AttemptId),
    /// All keys are lost, but not the tombstones.
    ForgetAll,
    /// The record is lost.
    ForgetRecord,
    /// One of the keys of permits and slots is lost.
    ForgetPart(u8),
    ForgetQueue,
    ForgetTombstones,
}

/// Returns how many slots an attempt needs.
pub(super) fn weight(attempt: AttemptId) -> u32 {
    let bytes = attempt.to_bytes();
    [1, 1, 1, 2, 3][usize::from((bytes[7] * 2 + bytes[11]) % 5)]
}

/// Draws `length` steps; the same seed returns the same steps.
pub(super) fn random(seed: u64, length: usize) -> Vec<Op> {
    let mut dice = Dice::new(seed ^ 0x5e4a_0000);
    let mut steps = Vec::new();
    while steps.len() < length {
        if dice.one_in(25) {
            // An offer expires under a lower limit, and its attempt asks again before any other one.
            let limit = Op::Limit(0, 1 + dice.roll(2) as u32);
            let attempt = some_attempt(&mut dice);
            let again = Op::Acquire(Ask { attempt, wait: true, limit: None });
            steps.extend([limit, Op::Pass(UNIT * 3), again]);
        } else {
            steps.push(op(&mut dice));
        }
    }
    steps
}

fn op(dice: &mut Dice) -> Op {
    let attempt = some_attempt(dice);
    match dice.roll(100) {
        0 if dice.one_in(2) => match dice.roll(5) {
            0 => Op::ForgetAll,
            1 => Op::ForgetRecord,
            2 => Op::ForgetPart(dice.roll(4) as u8),
            3 => Op::ForgetQueue,
            _ => Op::ForgetTombstones,
        },
        // Longer than a tombstone or the record is kept, or than a waiter stays that asks no more.
        1 => Op::Pass(UNIT * 10_000),
        2..5 => Op::Pass(UNIT * (30 + 20 * dice.roll(3)) as u32),
        0..14 => Op::Pass(UNIT * (1 + dice.roll(4)) as u32),
        14..18 => Op::Listen(attempt.client(), !dice.one_in(3)),
        18..56 => Op::Acquire(ask(dice, attempt)),
        56..64 => Op::Renew(attempt, some_attempt(dice), which(dice)),
        64..86 => Op::Release(end(dice, attempt)),
        86..91 => {
            let next = some_attempt(dice);
            Op::Rotate(end(dice, attempt), ask(dice, next))
        }
        91..96 => {
            let older = [0, 0, 0, 1, 2][dice.roll(5) as usize];
            Op::Limit(older, 1 + dice.roll(5) as u32)
        }
        96..98 => Op::ForceOne(attempt),
        _ => Op::Force(which(dice), dice.one_in(2)),
    }
}

fn some_attempt(dice: &mut Dice) -> AttemptId {
    let client = ClientId::from_bits(dice.roll(CLIENTS));
    AttemptId::new(client, dice.roll(ATTEMPTS) as u32, 0)
}

fn ask(dice: &mut Dice, attempt: AttemptId) -> Ask {
    let limit = dice.one_in(20).then(|| 1 + dice.roll(5) as u32);
    Ask { attempt, wait: !dice.one_in(5), limit }
}

fn which(dice: &mut Dice) -> Which {
    let all = [Which::Unheard, Which::Latest, Which::OwnToken, Which::Own, Which::Own, Which::Own];
    all[dice.roll(6) as usize]
}

fn end(dice: &mut Dice, attempt: AttemptId) -> End {
    let used = (!dice.one_in(3)).then(|| dice.roll(3));
    End { attempt, which: which(dice), used, suspect: dice.one_in(6) }
}
