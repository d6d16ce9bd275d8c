//! What random steps of readers and writers never break.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::tests::{at, attempt, end, request};
use super::*;
use crate::handoff::{AcquireRequest, Push, ReleaseRequest};

const CAP: usize = 2;

#[derive(Clone, Debug)]
enum Op {
    Pass(u64),
    Listen(u64, bool),
    Acquire(AttemptId, u64, bool, bool),
    Renew(AttemptId),
    Release(AttemptId, bool, bool),
    Downgrade(AttemptId, AttemptId),
    Upgrade(AttemptId, AttemptId, bool),
    Force,
}

fn attempts() -> impl Strategy<Value = AttemptId> {
    (0..6u64, 0..2u32).prop_map(|(client, sequence)| attempt(client, sequence))
}

fn ops() -> impl Strategy<Value = Op> {
    let two = || (attempts(), attempts()).prop_filter("two attempts", |(one, two)| one != two);
    prop_oneof![
        4 => (0..8u64).prop_map(Op::Pass),
        1 => (0..6u64, any::<bool>()).prop_map(|(client, on)| Op::Listen(client, on)),
        12 => (attempts(), 1..20u64, prop::bool::weighted(0.8), prop::bool::weighted(0.9))
            .prop_map(|(attempt, ttl, wait, fair)| Op::Acquire(attempt, ttl, wait, fair)),
        4 => attempts().prop_map(Op::Renew),
        8 => (attempts(), any::<bool>(), any::<bool>())
            .prop_map(|(attempt, suspect, heard)| Op::Release(attempt, suspect, heard)),
        2 => two().prop_map(|(one, two)| Op::Downgrade(one, two)),
        2 => (two(), any::<bool>()).prop_map(|((one, two), again)| Op::Upgrade(one, two, again)),
        1 => Just(Op::Force),
    ]
}

/// Clients 0 to 2 read, the others write, and a second attempt has the other mode.
fn mode(attempt: AttemptId) -> Mode {
    let bytes = attempt.to_bytes();
    if (bytes[7] < 3) == (bytes[11] == 0) { Mode::Read } else { Mode::Write }
}

/// The attempts that hold, and until when.
fn holders(record: &Record<(), CAP>, now: Now) -> BTreeMap<AttemptId, u64> {
    record.holders(now).map(|member| (member.attempt, member.until_ns)).collect()
}

/// Carries out one step, and returns the attempts whose leases it may end or prolong; `None`: all.
fn step(record: &mut Record<(), CAP>, now: Now, op: &Op, deaf: &[u64]) -> Option<Vec<AttemptId>> {
    let mut sent = 0;
    let mut reach = |attempt: AttemptId, _: Push| {
        sent += 1;
        deaf.iter().all(|bits| attempt.client() != crate::ClientId::from_bits(*bits))
    };
    let base = record.base().map(Token::get);
    let ends = match *op {
        Op::Acquire(attempt, ttl, wait, fair) => {
            let ttl = Duration::from_secs(ttl);
            let request = AcquireRequest { ttl, wait, fair, ..request(attempt) };
            record.acquire(now, mode(attempt), &request, &mut reach);
            Some(vec![attempt])
        }
        Op::Renew(attempt) => {
            let base = record.base()?;
            record.renew(now, attempt, base, Duration::from_secs(9), &mut reach);
            Some(vec![attempt])
        }
        Op::Release(attempt, suspect, heard) => {
            let release = end(attempt, base.filter(|_| heard));
            record.release(now, &ReleaseRequest { suspect, ..release }, &mut reach);
            Some(vec![attempt])
        }
        Op::Downgrade(one, two) => {
            record.downgrade(now, &end(one, base), &request(two), &mut reach);
            Some(vec![one, two])
        }
        Op::Upgrade(one, two, again) => {
            record.upgrade(now, &end(one, base), &request(two), again, &mut reach);
            Some(vec![one, two])
        }
        Op::Force => {
            record.force_release(now, record.base()?, &mut reach);
            None
        }
        Op::Pass(_) | Op::Listen(..) => return Some(Vec::new()),
    };
    assert!(sent <= 2 * CAP + 1, "{sent} messages in one step");
    ends
}

fn check(record: &Record<(), CAP>, now: Now) {
    let parts = Parts::from(record.clone());
    let members = parts.members.len();
    match parts.phase {
        Phase::Free => assert_eq!(members, 0),
        Phase::Read => assert!(members > 0),
        Phase::Write | Phase::Kept => assert_eq!(members, 1),
    }
    assert!(parts.base <= parts.top && parts.lost <= parts.top);
    let queued = |attempt| parts.queue.iter().any(|waiter| waiter.attempt == attempt);
    assert!(!parts.members.iter().any(|member| queued(member.attempt)), "it holds and waits");
    let over = record.phase(now) == Phase::Free;
    assert!(!over || parts.queue.is_empty() || record.needs_another_step(), "waiters are left");
    let again = Parts::from(Record::<(), CAP>::from(parts.clone()));
    assert_eq!(again, parts);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_step_of_one_attempt_neither_ends_nor_prolongs_the_lease_of_another(
        steps in prop::collection::vec(ops(), 1..60),
    ) {
        let mut record = Record::<(), CAP>::default().with_waiter_lease(Duration::from_secs(20));
        let mut deaf = Vec::new();
        let (mut seconds, mut highest) = (0, 0);
        for op in steps {
            match op {
                Op::Pass(more) => seconds += more,
                Op::Listen(client, true) => deaf.retain(|one| *one != client),
                Op::Listen(client, false) => deaf.push(client),
                _ => {}
            }
            let now = at(seconds);
            let before = holders(&record, now);
            let phase = record.base();
            let may_change = step(&mut record, now, &op, &deaf);
            if !matches!(op, Op::Pass(_) | Op::Listen(..)) {
                check(&record, now);
            }
            let after = holders(&record, now);
            for (attempt, until) in &before {
                let named = may_change.as_ref().is_none_or(|some| some.contains(attempt));
                prop_assert!(named || after.get(attempt) == Some(until), "{op:?}: {attempt}");
            }
            if record.base() != phase {
                let base = record.base().map_or(0, Token::get);
                prop_assert!(base > highest, "token {base} after {highest}");
                highest = base;
            }
        }
    }
}
