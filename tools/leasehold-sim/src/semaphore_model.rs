//! A semaphore: clients and one server's record, over a network that loses, repeats, delays and
//! reorders, with clients that crash and give up, and an operator who changes the limit.
//!
//! The record is `leasehold_proto::semaphore`; [`primitive_model`](crate::primitive_model) has the
//! clients.

pub mod runs;

use std::time::Duration;

use leasehold_proto::handoff::Renewed;
use leasehold_proto::semaphore::{self, AcquireRequest, Bug, Demand, Limit, Parts, ReleaseRequest};
use leasehold_proto::{AttemptId, Now};

use crate::primitive_model::{
    Answer, Broken, Call, History, Holding, Lease, Primitive, Push, Reach, Setup, Want,
};

/// A semaphore. One step reaps `CAP` expired permits, and looks at `CAP` waiters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Semaphore<const CAP: usize>;

type Record<const CAP: usize> = semaphore::Record<(), CAP, Option<Bug>>;

impl<const CAP: usize> Primitive for Semaphore<CAP> {
    type Bug = Bug;
    type Record = Record<CAP>;
    /// With the last one the first waiter learns when to ask, after a step that served as many as it may.
    const MOST_PUSHES: usize = CAP + 1;

    fn record(setup: &Setup<Self>) -> Record<CAP> {
        let mut record = Record::with_rules(setup.record_bug);
        let limit = Limit::new(setup.limit);
        // No semaphore of a run has another limit than a valid one.
        if let Ok(limit) = limit {
            record.set_limit(Now::default(), 0, limit, &mut |_, _| true).ok();
        }
        record
    }

    fn carry_out(
        record: &mut Record<CAP>,
        now: Now,
        call: &Call,
        ttl: Duration,
        reach: Reach<'_>,
    ) -> Answer {
        let reach = &mut |attempt, push| match pushed(push) {
            Some(push) => reach(attempt, push),
            None => true,
        };
        match call {
            Call::Acquire(attempt, Want::Slots(slots), limit) => {
                let Ok(demand) = Demand::new(*slots, *limit) else { return Answer::Invalid };
                let request = AcquireRequest {
                    attempt: *attempt,
                    demand,
                    ttl,
                    wait: true,
                    tokens: 1,
                    tag: (),
                };
                answer(record.acquire(now, &request, reach))
            }
            Call::Renew(attempt, base) => {
                let renewed = record.renew(now, *attempt, *base, ttl);
                Answer::Renewed((renewed != Renewed::Lost).then_some(false))
            }
            Call::End(release, slot) => {
                Answer::Ended(record.release(now, &ReleaseRequest::new(*release, *slot), reach))
            }
            Call::SetLimit(version, limit) => {
                let new = Limit::new(*limit).ok();
                Answer::Limit(
                    new.is_some_and(|new| record.set_limit(now, *version, new, reach).is_ok()),
                )
            }
            Call::Acquire(..) | Call::Convert(_) => Answer::Invalid,
        }
    }

    fn leases(record: &Record<CAP>, now: Now) -> Vec<Lease> {
        let lease = |holder: semaphore::Holder<'_>| Lease {
            attempt: holder.attempt,
            base: holder.permit.tokens.base().get(),
            until_ns: now.steady_ns + holder.remaining.as_nanos() as u64,
            confirmed: holder.confirmed,
            slots: holder.permit.slots.clone(),
            want: Want::Slots(holder.permit.slots.len() as u32),
        };
        record.holders(now).map(lease).collect()
    }

    fn queue(record: &Record<CAP>) -> Vec<(AttemptId, Want)> {
        record.waiters().map(|waiter| (waiter.attempt, Want::Slots(waiter.slots))).collect()
    }

    fn has_more(record: &Record<CAP>, now: Now) -> bool {
        record.needs_another_step(now)
    }

    fn judge(
        _: &mut History,
        (before, leases_before): (&Record<CAP>, &[Lease]),
        (after, leases): (&Record<CAP>, &[Lease]),
        _: Now,
        _: (&Call, &Answer),
        _: &dyn Fn(AttemptId) -> bool,
    ) -> Option<Broken> {
        let new = |lease: &&Lease| {
            !leases_before.iter().any(|one| (one.attempt, one.base) == (lease.attempt, lease.base))
        };
        let limit = after.limit().map_or(0, Limit::get);
        let ahead = Self::queue(before);
        let place = |attempt| ahead.iter().position(|(one, _)| *one == attempt);
        let left = |attempt| after.waiters().any(|waiter| waiter.attempt == attempt);
        for lease in leases.iter().filter(new) {
            if after.held() > limit {
                return Some(Broken::Limit);
            }
            // An offer that is granted again was at its turn before.
            let again = Parts::from(before.clone())
                .permits
                .iter()
                .any(|permit| permit.attempt == lease.attempt);
            let ahead = &ahead[..place(lease.attempt).unwrap_or(ahead.len())];
            if !again && ahead.iter().any(|(one, _)| left(*one)) {
                return Some(Broken::Overtaken);
            }
        }
        None
    }

    fn waits_for_the_living(
        record: &Record<CAP>,
        now: Now,
        lives: &dyn Fn(AttemptId) -> bool,
    ) -> bool {
        let Some(first) = record.waiters().next() else { return false };
        let held: u32 = record
            .holders(now)
            .filter(|holder| lives(holder.attempt))
            .map(|holder| holder.permit.slots.len() as u32)
            .sum();
        lives(first.attempt) && held + first.slots > record.limit().map_or(0, Limit::get)
    }

    fn limit(record: &Record<CAP>) -> Option<u32> {
        record.limit().map(Limit::get)
    }

    fn collide(one: &Holding, other: &Holding) -> bool {
        one.slots.iter().any(|slot| other.slots.contains(slot))
    }
}

fn answer(answer: semaphore::Answer) -> Answer {
    let ask_again = answer.ask_again();
    match answer {
        semaphore::Answer::Granted(permit) => {
            Answer::Granted { tokens: permit.tokens, slots: permit.slots, wanted: false }
        }
        semaphore::Answer::Queued { .. } | semaphore::Answer::Busy(_) => Answer::Queued(ask_again),
        semaphore::Answer::Invalid(_) => Answer::Invalid,
        semaphore::Answer::Ended | semaphore::Answer::UsedUp => Answer::Over,
    }
}

/// The push as the model has it. No operator of a run ends a permit.
fn pushed(push: semaphore::Push) -> Option<Push> {
    Some(match push {
        semaphore::Push::Granted { permit, offer, .. } => {
            Push::Granted { tokens: permit.tokens, slots: permit.slots, offer, wanted: false }
        }
        semaphore::Push::Next { remaining } => Push::Next(remaining),
        semaphore::Push::Refused { .. } => Push::Refused,
        semaphore::Push::Lost { .. } => return None,
    })
}
