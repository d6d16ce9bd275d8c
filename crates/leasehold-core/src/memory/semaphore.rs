//! One semaphore in memory: the record of a semaphore behind the types of the `Backend` trait, with the
//! names of the holders.

use std::time::Duration;

use leasehold_proto::semaphore::{self, Limit};
use leasehold_proto::{AttemptId, ClientId, Now, Token};

use super::record::{Participant, Reach, SHOWN};
use crate::backend::{
    AcquireRequest, Answer, Ended, LimitChange, LimitChanged, ReleaseRequest, Renewal, Renewed,
    StoredLimit, Verdict, answer_of_semaphore, event_of_semaphore, is_a_semaphore,
};
use crate::{Forced, Name, Permits, Permitted, Result, State, Status, Waiter};

#[derive(Debug, Default)]
pub(super) struct Semaphore {
    record: semaphore::Record<Participant>,
    touched: Now,
}

impl Semaphore {
    pub(super) fn acquire(
        &mut self,
        now: Now,
        request: &AcquireRequest,
        reach: Reach<'_>,
    ) -> Result<Answer> {
        let tag = Participant::new(now, &request.origin);
        let question = request.for_semaphore(tag).ok_or_else(is_a_semaphore)?;
        let answer = self
            .step(now, &request.name, reach, |record, reach| record.acquire(now, &question, reach));
        answer_of_semaphore(answer, question.demand)
    }

    pub(super) fn renew(&mut self, now: Now, renewal: &Renewal) -> Renewed {
        self.touched = now;
        let Renewal { attempt, base, ttl, .. } = *renewal;
        self.record.renew(now, attempt, base, ttl).into()
    }

    pub(super) fn release(
        &mut self,
        now: Now,
        release: &ReleaseRequest,
        reach: Reach<'_>,
    ) -> Verdict {
        let ending = release.for_semaphore();
        self.step(now, &release.name, reach, |record, reach| record.release(now, &ending, reach))
            .into()
    }

    /// Releases, and then acquires with another attempt.
    pub(super) fn end(
        &mut self,
        now: Now,
        release: &ReleaseRequest,
        reach: Reach<'_>,
    ) -> Result<Ended> {
        let verdict = self.release(now, release, reach);
        let then = release.then.as_ref().map(|next| self.acquire(now, next, reach)).transpose()?;
        Ok(Ended { verdict, then })
    }

    pub(super) fn force_release(
        &mut self,
        now: Now,
        name: &Name,
        token: Token,
        reach: Reach<'_>,
    ) -> Forced {
        let forced = self
            .step(now, name, reach, |record, reach| record.force_release(now, token, None, reach));
        forced.into()
    }

    pub(super) fn force_release_attempt(
        &mut self,
        now: Now,
        name: &Name,
        attempt: AttemptId,
        reach: Reach<'_>,
    ) -> Forced {
        let forced = self.step(now, name, reach, |record, reach| {
            record.force_release_attempt(now, attempt, reach)
        });
        forced.into()
    }

    pub(super) fn limit(&self) -> Option<StoredLimit> {
        let limit = self.record.limit()?;
        Some(StoredLimit { limit, version: self.record.limit_version() })
    }

    pub(super) fn set_limit(
        &mut self,
        now: Now,
        change: &LimitChange,
        reach: Reach<'_>,
    ) -> LimitChanged {
        let LimitChange { name, version, limit } = change;
        self.step(now, name, reach, |record, reach| record.set_limit(now, *version, *limit, reach))
            .into()
    }

    /// Continues the queue after a step that did as much as one step may. Returns false if nothing is
    /// left to do.
    pub(super) fn serve(&mut self, now: Now, name: &Name, reach: Reach<'_>) -> bool {
        let left = |record: &semaphore::Record<_>| (record.waiters().len(), record.held());
        let before = left(&self.record);
        if self.record.needs_another_step(now) {
            // No attempt has this id, so the step ends nothing.
            let attempt = AttemptId::new(ClientId::from_bits(0), 0, 0);
            let (base, last, slot, suspect) = (None, None, None, false);
            let release = semaphore::ReleaseRequest { attempt, base, last, slot, suspect };
            self.step(now, name, reach, |record, reach| record.release(now, &release, reach));
        }
        self.record.needs_another_step(now) && left(&self.record) != before
    }

    pub(super) fn status(&self, now: Now, name: &Name) -> Status {
        let permitted = |holder: semaphore::Holder<'_, Participant>| Permitted {
            holder: holder.tag.holder(holder.attempt),
            slots: holder.permit.slots.clone(),
            token: holder.permit.tokens.base(),
            remaining: Some(holder.remaining),
        };
        let mut holders: Vec<Permitted> = self.record.holders(now).map(permitted).collect();
        let held = holders.iter().map(|one| one.slots.len() as u32).sum();
        holders.sort_by(|one, other| one.slots.cmp(&other.slots));
        holders.truncate(SHOWN);
        let waiter = |waiter: &semaphore::Waiter<Participant>| {
            let holder = waiter.tag.holder(waiter.attempt);
            Waiter::new(holder, waiter.tag.asked_unix_ms).with_slots(waiter.slots)
        };
        let (limit, version) = (self.record.limit().map_or(0, Limit::get), self.limit_version());
        Status {
            state: if held > 0 { State::Permits } else { State::Free },
            holder: holders.first().map(|one| one.holder.clone()),
            permits: Some(Permits { limit, version, held, holders }),
            waiters: Some(self.record.waiters().map(waiter).collect()),
            ..Status::free(name)
        }
    }

    /// Returns true if the record contains nothing that the next client would not store. The clock must
    /// have passed its tokens too, or the next tokens would be lower.
    pub(super) fn is_idle(&self, now: Now, retention: Duration) -> bool {
        let idle = Duration::from_nanos(now.steady_ns.saturating_sub(self.touched.steady_ns));
        let unused = self.record.held() == 0 && self.record.waiters().len() == 0;
        // A limit that was changed is kept: the next client would store the previous one.
        unused && idle >= retention && self.limit_version() <= 1 && {
            let parts = semaphore::Parts::from(self.record.clone());
            parts.slots.iter().all(|(_, mark)| mark.top < now.unix_us())
        }
    }

    fn limit_version(&self) -> u64 {
        self.record.limit_version()
    }

    /// Runs one step of the machine and turns its pushes into events.
    fn step<A>(
        &mut self,
        now: Now,
        name: &Name,
        reach: Reach<'_>,
        step: impl FnOnce(&mut semaphore::Record<Participant>, semaphore::Reach<'_>) -> A,
    ) -> A {
        self.touched = now;
        step(&mut self.record, &mut |attempt, push| {
            reach(attempt, event_of_semaphore(now, name, attempt, push))
        })
    }
}
