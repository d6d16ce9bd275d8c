//! Random steps of the semaphore record: slots are neither lost nor given out twice.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::handoff::Verdict;
use crate::{ClientId, Token};

const CLIENTS: u64 = 6;

#[derive(Clone, Debug)]
enum Step {
    Acquire { client: u64, slots: u32, wait: bool, ttl: u64 },
    Renew { client: u64 },
    Release { client: u64, suspect: bool },
    SetLimit { limit: u32 },
    Pass { seconds: u64 },
    Deafen { client: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let client = 0..CLIENTS;
    let step = prop_oneof![
        6 => (client.clone(), 1..4u32, any::<bool>(), 1..40u64)
            .prop_map(|(client, slots, wait, ttl)| Step::Acquire { client, slots, wait, ttl }),
        2 => client.clone().prop_map(|client| Step::Renew { client }),
        4 => (client.clone(), any::<bool>())
            .prop_map(|(client, suspect)| Step::Release { client, suspect }),
        1 => (1..6u32).prop_map(|limit| Step::SetLimit { limit }),
        2 => (1..30u64).prop_map(|seconds| Step::Pass { seconds }),
        1 => client.prop_map(|client| Step::Deafen { client }),
    ];
    prop::collection::vec(step, 1..80)
}

/// A record in the course of random steps, and what is known about it from outside.
#[derive(Default)]
struct Run {
    record: Record<(), 2>,
    now: Now,
    attempts: BTreeMap<u64, u32>,
    deaf: BTreeSet<u64>,
    /// The highest first token of each slot so far.
    tops: BTreeMap<u32, u64>,
    /// The permits after the previous step.
    before: BTreeMap<AttemptId, Permit>,
}

impl Run {
    fn attempt(&self, client: u64) -> AttemptId {
        let sequence = self.attempts.get(&client).copied().unwrap_or(0);
        AttemptId::new(ClientId::from_bits(client), sequence, 0)
    }

    fn take(&mut self, step: &Step) {
        let (now, deaf) = (self.now, self.deaf.clone());
        let mut reach = |to: AttemptId, _: Push| {
            deaf.iter().all(|deaf| ClientId::from_bits(*deaf) != to.client())
        };
        match *step {
            Step::Acquire { client, slots, wait, ttl } => {
                let limit = self.record.limit().map_or(4, Limit::get);
                let Ok(demand) = Demand::new(slots, limit) else { return };
                let (attempt, ttl) = (self.attempt(client), Duration::from_secs(ttl));
                let request = AcquireRequest { attempt, demand, ttl, wait, tokens: slots, tag: () };
                self.record.acquire(now, &request, &mut reach);
            }
            Step::Renew { client } => {
                let attempt = self.attempt(client);
                let base = self.before.get(&attempt).map(|permit| permit.tokens.base());
                if let Some(base) = base {
                    self.record.renew(now, attempt, base, Duration::from_secs(20));
                }
            }
            Step::Release { client, suspect } => {
                let attempt = self.attempt(client);
                let held = self.before.get(&attempt);
                let base: Option<Token> = held.map(|permit| permit.tokens.base());
                let slot = held.and_then(|permit| permit.slots.first().copied());
                let release = ReleaseRequest { attempt, base, last: base, slot, suspect };
                let verdict = self.record.release(now, &release, &mut reach);
                assert_eq!(base.is_none(), verdict == Verdict::Gone);
                *self.attempts.entry(client).or_default() += 1;
                self.before.remove(&attempt);
            }
            Step::SetLimit { limit } => {
                let version = self.record.limit_version();
                let limit = Limit::new(limit).unwrap();
                assert_eq!(self.record.set_limit(now, version, limit, &mut reach), Ok(version + 1));
            }
            Step::Pass { seconds } => {
                self.now.steady_ns += seconds * 1_000_000_000;
                self.now.wall_ns += seconds;
            }
            Step::Deafen { client } => {
                let heard = self.deaf.remove(&client);
                if !heard {
                    self.deaf.insert(client);
                }
            }
        }
        self.check();
    }

    fn check(&mut self) {
        let parts = Parts::from(self.record.clone());
        let limit = self.record.limit().map_or(0, Limit::get);
        let mut held = BTreeSet::new();
        let permits: BTreeMap<AttemptId, Permit> =
            parts.permits.iter().map(|held| (held.attempt, held.permit.clone())).collect();
        for permit in permits.values() {
            for slot in &permit.slots {
                assert!(held.insert(*slot), "slot {slot} is in two permits");
            }
        }
        assert_eq!(held.len() as u32, self.record.held(), "slots are counted");
        let unused = parts.slots.len() as u32;
        assert!(parts.slots.iter().map(|(slot, _)| *slot).eq(0..unused), "slots have no gaps");
        let free: BTreeSet<u32> = (0..unused).filter(|slot| !held.contains(slot)).collect();
        assert!(self.record.slots.lowest_free(free.len() as u32).iter().eq(&free), "none is lost");
        for (attempt, permit) in &permits {
            if self.before.get(attempt) == Some(permit) {
                continue;
            }
            assert!(self.record.held() <= limit, "granted beyond the limit");
            for slot in &permit.slots {
                assert!(*slot < limit, "granted slot {slot} of {limit}");
                let top = self.tops.insert(*slot, permit.tokens.base().get()).unwrap_or(0);
                assert!(permit.tokens.base().get() > top, "tokens of slot {slot} grow");
            }
        }
        for waiter in self.record.waiters() {
            assert!(!permits.contains_key(&waiter.attempt), "a holder does not wait");
            assert!(!self.record.is_refused(self.now, waiter.attempt), "an ended attempt waits");
        }
        let ids: BTreeSet<_> = self.record.waiters().map(|waiter| waiter.attempt).collect();
        assert_eq!(ids.len(), self.record.waiters().len(), "a waiter waits once");
        self.before = permits;
    }
}

proptest! {
    #[test]
    fn slots_are_neither_lost_nor_given_out_twice(steps in steps()) {
        let mut run = Run::default();
        steps.iter().for_each(|step| run.take(step));
    }

    #[test]
    fn once_all_attempts_have_ended_the_whole_limit_is_free(steps in steps()) {
        let mut run = Run::default();
        steps.iter().for_each(|step| run.take(step));
        let (now, mut reach) = (run.now, |_: AttemptId, _: Push| true);
        let parts = Parts::from(run.record.clone());
        let waiting = parts.queue.iter().map(|waiter| waiter.attempt);
        for attempt in waiting.chain(parts.permits.iter().map(|held| held.attempt)) {
            let release = ReleaseRequest { attempt, base: None, last: None, slot: None, suspect: false };
            run.record.release(now, &release, &mut reach);
        }
        prop_assert_eq!(run.record.held(), 0);
        prop_assert_eq!(run.record.waiters().len(), 0);
        let limit = run.record.limit().map_or(0, Limit::get);
        prop_assert!(run.record.slots.lowest_free(limit).into_iter().eq(0..limit));
    }
}
