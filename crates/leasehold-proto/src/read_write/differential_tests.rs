//! Exclusive steps have the same effect on this record and on `handoff::Record`.
//!
//! The differences, which the test takes into account:
//!
//! - A waiter may leave the queue because it has not asked for long; here that is switched off.
//! - The limit of a step counts waiters that receive a lease too, and notices have a limit of their
//!   own. No step reaches a limit here.
//! - Every step hands on a lock whose lease is over, also a renewal or the end of another attempt.
//!   Here the step that follows the end of a lease is an acquire, which does so in both records.

use proptest::prelude::*;

use super::tests::attempt;
use super::*;
use crate::handoff::{self, AcquireRequest, Push, ReleaseRequest};

const CAP: usize = 64;

#[derive(Clone, Debug)]
enum Op {
    Pass(u64),
    Listen(u64, bool),
    Acquire(AcquireRequest),
    Renew(AttemptId, usize),
    Release(AttemptId, End),
    Rotate(AttemptId, End, AcquireRequest),
    Force(usize),
    Forget(Part),
}

/// How an attempt ends: which of the grants it names, if any, and which token it used last.
#[derive(Clone, Debug)]
struct End {
    grant: Option<usize>,
    used: Option<u64>,
    suspect: bool,
    keep: Option<u64>,
}

fn attempts() -> impl Strategy<Value = AttemptId> {
    (0..4u64, 0..3u32).prop_map(|(client, sequence)| attempt(client, sequence))
}

fn requests() -> impl Strategy<Value = AcquireRequest> {
    let flags = (prop::bool::weighted(0.8), prop::bool::weighted(0.8));
    (attempts(), 1..12u64, flags, 0..5u32).prop_map(|(attempt, ttl, (wait, fair), tokens)| {
        AcquireRequest { attempt, ttl: Duration::from_secs(ttl), wait, fair, tokens, tag: () }
    })
}

fn ends() -> impl Strategy<Value = End> {
    let grant = prop::option::weighted(0.8, 0..3usize);
    let used = prop::option::of(0..4u64);
    (grant, used, any::<bool>(), prop::option::weighted(0.2, 1..6u64))
        .prop_map(|(grant, used, suspect, keep)| End { grant, used, suspect, keep })
}

fn ops() -> impl Strategy<Value = Op> {
    let part = prop_oneof![Just(Part::Lease), Just(Part::Queue), Just(Part::Tombstones)];
    prop_oneof![
        3 => (0..6u64).prop_map(Op::Pass),
        1 => (0..4u64, any::<bool>()).prop_map(|(client, on)| Op::Listen(client, on)),
        8 => requests().prop_map(Op::Acquire),
        3 => (attempts(), 0..3usize).prop_map(|(attempt, grant)| Op::Renew(attempt, grant)),
        6 => (attempts(), ends()).prop_map(|(attempt, end)| Op::Release(attempt, end)),
        2 => (attempts(), ends(), requests()).prop_map(|(one, end, two)| Op::Rotate(one, end, two)),
        1 => (0..3usize).prop_map(Op::Force),
        1 => part.prop_map(Op::Forget),
    ]
}

/// What a step returned, in the words of `handoff`.
#[derive(Debug, PartialEq)]
enum Said {
    Nothing,
    Answer(handoff::Answer),
    Renewed(handoff::Renewed),
    Verdict(handoff::Verdict),
    Both(handoff::Verdict, handoff::Answer),
    Forced(handoff::Forced),
}

/// The answer in the words of `handoff`.
fn in_words(answer: Answer) -> handoff::Answer {
    match answer {
        Answer::Granted { tokens, waiters } => handoff::Answer::Granted { tokens, waiters },
        Answer::Queued { place, base, remaining } => {
            handoff::Answer::Queued { place, base, remaining }
        }
        Answer::Busy(remaining) => handoff::Answer::Busy(remaining),
        Answer::Ended => handoff::Answer::Ended,
        Answer::UsedUp => handoff::Answer::UsedUp,
    }
}

struct Pair {
    before: handoff::Record<(), CAP>,
    after: Record<(), CAP>,
    now: Now,
    deaf: Vec<u64>,
    /// The first tokens that were granted, the latest last.
    bases: Vec<Token>,
    fresh: u32,
}

impl Pair {
    fn base(&self, back: usize) -> Option<Token> {
        self.bases.iter().rev().nth(back).copied()
    }

    fn end(&self, attempt: AttemptId, end: &End) -> ReleaseRequest {
        let base = end.grant.and_then(|back| self.base(back));
        let last = end.used.zip(base).and_then(|(used, base)| Token::new(base.get() + used));
        let keep = end.keep.map(Duration::from_secs);
        ReleaseRequest { attempt, base, last, suspect: end.suspect, keep }
    }

    /// Returns true if the lease is over and the record has not handed the lock on.
    fn is_overdue(&self) -> bool {
        let over = self.before.state(self.now) == handoff::State::Free;
        over && self.before.waiters().len() > 0
    }

    fn apply(&mut self, op: Op) {
        let op = match op {
            Op::Acquire(request) if self.is_overdue() => {
                self.fresh += 1;
                Op::Acquire(AcquireRequest { attempt: attempt(0, 100 + self.fresh), ..request })
            }
            Op::Renew(..) | Op::Release(..) | Op::Rotate(..) | Op::Force(_)
                if self.is_overdue() =>
            {
                return;
            }
            op => op,
        };
        let (mut pushed, mut pushed_after) = (Vec::new(), Vec::new());
        let deaf = self.deaf.clone();
        let listens = |attempt: AttemptId| {
            deaf.iter().all(|bits| attempt.client() != crate::ClientId::from_bits(*bits))
        };
        let mut reach = |attempt: AttemptId, push: Push| {
            pushed.push((attempt, push));
            listens(attempt)
        };
        let mut reach_after = |attempt: AttemptId, push: Push| {
            pushed_after.push((attempt, push));
            listens(attempt)
        };
        let now = self.now;
        let (said, said_after) = match op {
            Op::Pass(seconds) => {
                self.now.steady_ns += seconds * 1_000_000_000;
                self.now.wall_ns += seconds * 1_000;
                (Said::Nothing, Said::Nothing)
            }
            Op::Listen(client, on) => {
                self.deaf.retain(|one| *one != client);
                if !on {
                    self.deaf.push(client);
                }
                (Said::Nothing, Said::Nothing)
            }
            Op::Acquire(request) => {
                let said = self.before.acquire(now, &request, &mut reach);
                let after = self.after.acquire(now, Mode::Write, &request, &mut reach_after);
                (Said::Answer(said), Said::Answer(in_words(after)))
            }
            Op::Renew(attempt, back) => {
                let Some(base) = self.base(back) else { return };
                let ttl = Duration::from_secs(9);
                let after = self.after.renew(now, attempt, base, ttl, &mut reach_after);
                (Said::Renewed(self.before.renew(now, attempt, base, ttl)), Said::Renewed(after))
            }
            Op::Release(attempt, end) => {
                let release = self.end(attempt, &end);
                let said = self.before.release(now, &release, &mut reach);
                let after = self.after.release(now, &release, &mut reach_after);
                (Said::Verdict(said), Said::Verdict(after))
            }
            Op::Rotate(attempt, end, next) => {
                let release = self.end(attempt, &end);
                let (verdict, answer) = self.before.rotate(now, &release, &next, &mut reach);
                let after = self.after.rotate(now, &release, Mode::Write, &next, &mut reach_after);
                (Said::Both(verdict, answer), Said::Both(after.0, in_words(after.1)))
            }
            Op::Force(back) => {
                let Some(base) = self.base(back) else { return };
                let said = self.before.force_release(now, base, &mut reach);
                let after = self.after.force_release(now, base, &mut reach_after);
                (Said::Forced(said), Said::Forced(after))
            }
            Op::Forget(part) => {
                self.before.forget(part);
                self.after.forget(part);
                (Said::Nothing, Said::Nothing)
            }
        };
        assert_eq!(said, said_after);
        assert_eq!(pushed, pushed_after);
        let parts: Parts<()> = handoff::Parts::from(self.before.clone()).into();
        assert_eq!(parts, Parts::from(self.after.clone()));
        if let Some(base) = self.before.base().filter(|base| self.bases.last() != Some(base)) {
            self.bases.push(base);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn exclusive_steps_have_the_same_effect_as_on_the_handoff_record(
        steps in prop::collection::vec(ops(), 1..60),
    ) {
        let mut pair = Pair {
            before: handoff::Record::default(),
            after: Record::default().with_waiter_lease(Duration::ZERO),
            now: Now { steady_ns: 0, wall_ns: 0 },
            deaf: Vec::new(),
            bases: Vec::new(),
            fresh: 0,
        };
        for op in steps {
            pair.apply(op);
        }
    }
}
