//! Random steps of readers and writers on one lock.

use std::time::Duration;

use leasehold_proto::read_write::Mode;
use leasehold_proto::{AttemptId, ClientId};
use leasehold_sim::Dice;
use leasehold_sim::script::CLIENTS;

use super::super::steps::UNIT;

/// Which lease a request names.
#[derive(Clone, Copy, Debug)]
pub(super) enum Which {
    /// None: the client has heard of no grant.
    Unheard,
    /// The last one of its attempt.
    Own,
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
    pub(super) keep: Option<Duration>,
}

/// An acquire.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    pub(super) attempt: AttemptId,
    pub(super) mode: Mode,
    pub(super) wait: bool,
    pub(super) fair: bool,
}

/// One step.
#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    Pass(Duration),
    Listen(ClientId, bool),
    Acquire(Ask),
    Renew(AttemptId, Which),
    Release(End),
    Rotate(End, Ask),
    Downgrade(End, Ask),
    Upgrade(End, Ask, bool),
    Force(Which),
    ForceOne(AttemptId),
    /// The record is lost.
    ForgetRecord,
    /// All keys but the tombstones are lost.
    ForgetAll,
    ForgetTombstones,
}

/// The mode of an attempt: it is the same in nearly all its requests.
fn mode(attempt: AttemptId) -> Mode {
    if attempt.to_bytes()[11] < 2 { Mode::Read } else { Mode::Write }
}

/// Draws `length` steps; the same seed returns the same steps.
pub(super) fn random(seed: u64, length: usize) -> Vec<Op> {
    let mut dice = Dice::new(seed ^ 0x5eed_0000);
    (0..length).map(|_| op(&mut dice)).collect()
}

fn op(dice: &mut Dice) -> Op {
    let attempt = some_attempt(dice);
    match dice.roll(100) {
        0 => match dice.roll(3) {
            0 => Op::ForgetRecord,
            1 => Op::ForgetAll,
            _ => Op::ForgetTombstones,
        },
        // Longer than a tombstone or the record is kept, or than a waiter stays that asks no more.
        1 => Op::Pass(UNIT * 10_000),
        2..5 => Op::Pass(UNIT * (30 + 20 * dice.roll(3)) as u32),
        5..14 => Op::Pass(UNIT * (1 + dice.roll(4)) as u32),
        14..18 => Op::Listen(attempt.client(), !dice.one_in(3)),
        18..56 => Op::Acquire(ask(dice, attempt)),
        56..63 => Op::Renew(attempt, which(dice)),
        63..82 => Op::Release(end(dice, attempt)),
        82..87 => {
            let next = some_attempt(dice);
            Op::Rotate(end(dice, attempt), ask(dice, next))
        }
        87..92 => {
            let next = other_mode(dice, Mode::Read);
            Op::Downgrade(end(dice, attempt), next)
        }
        92..97 => {
            let next = other_mode(dice, Mode::Write);
            Op::Upgrade(end(dice, attempt), next, dice.one_in(2))
        }
        97 => Op::ForceOne(attempt),
        _ => Op::Force(which(dice)),
    }
}

fn some_attempt(dice: &mut Dice) -> AttemptId {
    AttemptId::new(ClientId::from_bits(dice.roll(CLIENTS)), dice.roll(4) as u32, 0)
}

/// Draws the new attempt of a conversion.
fn other_mode(dice: &mut Dice, mode: Mode) -> Ask {
    let sequence = dice.roll(2) as u32 + if mode == Mode::Read { 0 } else { 2 };
    let attempt = AttemptId::new(ClientId::from_bits(dice.roll(CLIENTS)), sequence, 0);
    Ask { attempt, mode, wait: false, fair: true }
}

fn ask(dice: &mut Dice, attempt: AttemptId) -> Ask {
    let mode = if dice.one_in(20) { mode(attempt).other() } else { mode(attempt) };
    Ask { attempt, mode, wait: !dice.one_in(5), fair: !dice.one_in(8) }
}

fn which(dice: &mut Dice) -> Which {
    [Which::Unheard, Which::Latest, Which::Own, Which::Own, Which::Own][dice.roll(5) as usize]
}

fn end(dice: &mut Dice, attempt: AttemptId) -> End {
    let used = (!dice.one_in(3)).then(|| dice.roll(3));
    let keep = dice.one_in(8).then_some(UNIT * 2 + UNIT / 2);
    End { attempt, which: which(dice), used, suspect: dice.one_in(6), keep }
}
