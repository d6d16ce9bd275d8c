//! Random sequences of operations on one hand-off record, to be replayed against several engines.
//!
//! An operation names leases by who got them, not by number, since tokens differ from engine to
//! engine: a [`Replay`] per engine turns operations into requests, and what was said into a form
//! that can be compared. Time passes in whole units and a ttl ends half-way between two, so that an
//! engine with a clock of its own has half a unit to spare. The offer's length is fixed: where that
//! matters, take a unit that it is not a multiple of, and compare times with a tolerance.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_proto::handoff::{
    AcquireRequest, Answer, Forced, Part, Push, ReleaseRequest, Renewed, Verdict,
};
use leasehold_proto::{AttemptId, ClientId, Token, TokenBlock};

use crate::dice::Dice;

/// A sequence of operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// One after the other.
    pub ops: Vec<Op>,
}

/// Which of its leases an attempt speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// None: it has not heard of a grant.
    Unheard,
    /// The first that it was told of.
    First,
    /// The last.
    Last,
}

/// How an attempt is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReleaseStep {
    /// Which attempt.
    pub attempt: AttemptId,
    /// Which lease of it.
    pub which: Which,
    /// How many tokens of the block were used; `None` when that is not said.
    pub used: Option<u32>,
    /// An ask was never answered.
    pub suspect: bool,
    /// How long the lock stays taken.
    pub keep: Option<Duration>,
}

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Time passes.
    Pass(Duration),
    /// Whether pushes reach this client from now on.
    Listen(ClientId, bool),
    /// Acquire.
    Acquire(AcquireRequest),
    /// Renew a lease for so long.
    Renew(AttemptId, Which, Duration),
    /// End an attempt.
    Release(ReleaseStep),
    /// End one and ask for another in one step.
    Rotate(ReleaseStep, AcquireRequest),
    /// End the lease of an attempt by one of its tokens.
    Force(AttemptId, Which),
    /// The engine loses a part of what it knows.
    Forget(Part),
}

/// An operation as an engine takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are the record's steps with their arguments")]
pub enum Request {
    Acquire(AcquireRequest),
    Renew(AttemptId, Token, Duration),
    Release(ReleaseRequest),
    Rotate(ReleaseRequest, AcquireRequest),
    Force(Token),
}

/// What an engine answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are the answers to the requests of the same names")]
pub enum Said {
    Acquired(Answer),
    Renewed(Renewed),
    Released(Verdict),
    Rotated(Verdict, Answer),
    Forced(Forced),
}

/// The clients of a script.
pub const CLIENTS: u64 = 4;
/// How many attempts each has.
const ATTEMPTS: u64 = 3;

impl Script {
    /// `length` operations; the same seed gives the same script. Everything is asked of few
    /// attempts, so that most requests are late, repeated or out of place.
    pub fn random(seed: u64, length: usize, unit: Duration) -> Self {
        let mut dice = Dice::new(seed);
        Self { ops: (0..length).map(|_| op(&mut dice, unit)).collect() }
    }
}

fn op(dice: &mut Dice, unit: Duration) -> Op {
    let attempt = some_attempt(dice);
    let which = some_which(dice);
    match dice.roll(100) {
        0 => Op::Forget([Part::Lease, Part::Queue, Part::Tombstones][dice.roll(3) as usize]),
        // Longer than everything but the record itself is kept.
        1 => Op::Pass(unit * 10_000),
        2..15 => Op::Pass(unit * (1 + dice.roll(4)) as u32),
        15..20 => Op::Listen(attempt.client(), !dice.one_in(2)),
        20..55 => Op::Acquire(some_ask(dice, attempt, unit)),
        55..65 => Op::Renew(attempt, which, terms(attempt, unit).0),
        65..85 => Op::Release(some_release(dice, attempt, unit)),
        85..95 => {
            let next = some_attempt(dice);
            Op::Rotate(some_release(dice, attempt, unit), some_ask(dice, next, unit))
        }
        _ => Op::Force(attempt, which),
    }
}

fn some_attempt(dice: &mut Dice) -> AttemptId {
    let client = ClientId::from_bits(dice.roll(CLIENTS));
    AttemptId::new(client, dice.roll(ATTEMPTS) as u32, 0)
}

fn some_which(dice: &mut Dice) -> Which {
    [Which::Unheard, Which::First, Which::Last, Which::Last][dice.roll(4) as usize]
}

/// An attempt asks for the same each time; whether it waits may change.
fn some_ask(dice: &mut Dice, attempt: AttemptId, unit: Duration) -> AcquireRequest {
    let (wait, fair) = (!dice.one_in(4), !dice.one_in(6));
    let (ttl, tokens) = terms(attempt, unit);
    AcquireRequest { attempt, ttl, wait, fair, tokens, tag: () }
}

/// The ttl and the number of tokens that an attempt asks for.
pub fn terms(attempt: AttemptId, unit: Duration) -> (Duration, u32) {
    // Small numbers that differ between the attempts of a client; some clients ask alike.
    let bytes = attempt.to_bytes();
    let kind = bytes[7] / 2 * 3 + bytes[11];
    let ttl = unit * [2, 4, 4, 7, 7][usize::from(kind % 5)] + unit / 2;
    (ttl, 1 + u32::from(kind % 4))
}

fn some_release(dice: &mut Dice, attempt: AttemptId, unit: Duration) -> ReleaseStep {
    let which = some_which(dice);
    let used = (!dice.one_in(3)).then(|| dice.roll(3) as u32);
    let keep = dice.one_in(6).then_some(unit * 2 + unit / 2);
    ReleaseStep { attempt, which, used, suspect: dice.one_in(6), keep }
}

/// What one engine has said so far in one script.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    /// Every block by the attempt that was told of it, in order.
    told: BTreeMap<AttemptId, Vec<TokenBlock>>,
    /// First tokens, in the order in which they were heard of.
    leases: Vec<u64>,
}

impl Replay {
    /// Returns the request of an operation; `None` for operations that ask nothing, or that concern
    /// a lease that no client received.
    pub fn request(&self, op: &Op) -> Option<Request> {
        Some(match *op {
            Op::Pass(_) | Op::Listen(..) | Op::Forget(_) => return None,
            Op::Acquire(request) => Request::Acquire(request),
            Op::Renew(attempt, which, ttl) => {
                Request::Renew(attempt, self.block(attempt, which)?.base(), ttl)
            }
            Op::Release(ending) => Request::Release(self.end(ending)),
            Op::Rotate(ending, request) => Request::Rotate(self.end(ending), request),
            Op::Force(attempt, which) => Request::Force(self.block(attempt, which)?.top()),
        })
    }

    /// Takes down what was said and pushed, with every first token replaced by the number of its
    /// lease, counted from 1 in the order in which they were heard of.
    pub fn heard(&mut self, asked: &Request, said: Said, pushed: &[(AttemptId, Push)]) -> String {
        for (attempt, push) in pushed {
            if let Push::Granted { tokens, .. } = push {
                self.tell(*attempt, *tokens);
            }
        }
        match (asked, said) {
            (Request::Acquire(request), Said::Acquired(Answer::Granted { tokens, .. }))
            | (Request::Rotate(_, request), Said::Rotated(_, Answer::Granted { tokens, .. })) => {
                self.tell(request.attempt, tokens);
            }
            _ => {}
        }
        let pushed: Vec<_> = pushed.iter().map(|(to, push)| (to, self.push(*push))).collect();
        format!("{} {pushed:?}", self.said(said))
    }

    fn tell(&mut self, attempt: AttemptId, tokens: TokenBlock) {
        let base = tokens.base().get();
        if !self.leases.contains(&base) {
            self.leases.push(base);
        }
        let told = self.told.entry(attempt).or_default();
        if told.last() != Some(&tokens) {
            told.push(tokens);
        }
    }

    fn block(&self, attempt: AttemptId, which: Which) -> Option<TokenBlock> {
        let told = self.told.get(&attempt)?;
        match which {
            Which::Unheard => None,
            Which::First => told.first().copied(),
            Which::Last => told.last().copied(),
        }
    }

    fn end(&self, ending: ReleaseStep) -> ReleaseRequest {
        let ReleaseStep { attempt, which, used, suspect, keep } = ending;
        let block = self.block(attempt, which);
        let last = block.zip(used).and_then(|(block, used)| {
            let last = block.base().get() + u64::from(used) - 1;
            Token::new(last.min(block.top().get()))
        });
        ReleaseRequest { attempt, base: block.map(TokenBlock::base), last, suspect, keep }
    }

    fn lease(&self, base: Option<Token>) -> Option<usize> {
        let base = base?.get();
        self.leases.iter().position(|lease| *lease == base).map(|place| place + 1)
    }

    fn block_name(&self, tokens: TokenBlock) -> String {
        let count = tokens.top().get() - tokens.base().get() + 1;
        format!("lease {:?} of {count}", self.lease(Some(tokens.base())))
    }

    fn said(&self, said: Said) -> String {
        match said {
            Said::Acquired(answer) => self.answer(answer),
            Said::Rotated(verdict, answer) => format!("{verdict:?}, {}", self.answer(answer)),
            Said::Forced(Forced::Other(base)) => format!("Other({:?})", self.lease(Some(base))),
            Said::Forced(forced) => format!("{forced:?}"),
            Said::Renewed(renewed) => format!("{renewed:?}"),
            Said::Released(verdict) => format!("{verdict:?}"),
        }
    }

    fn answer(&self, answer: Answer) -> String {
        match answer {
            Answer::Granted { tokens, waiters } => {
                format!("{}, {waiters} wait", self.block_name(tokens))
            }
            Answer::Queued { place, base, remaining } => {
                format!("Queued({place}, {:?}, {remaining:?})", self.lease(base))
            }
            Answer::Busy(_) | Answer::Ended | Answer::UsedUp => format!("{answer:?}"),
        }
    }

    fn push(&self, push: Push) -> String {
        match push {
            Push::Granted { tokens, offer, waiters } => {
                format!("{} for {offer:?}, {waiters} wait", self.block_name(tokens))
            }
            Push::Next { base, remaining } => {
                format!("Next({:?}, {remaining:?})", self.lease(base))
            }
            Push::Wanted { base } => format!("Wanted({:?})", self.lease(base)),
            Push::Lost { base } => format!("Lost({:?})", self.lease(base)),
        }
    }
}
