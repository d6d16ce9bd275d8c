//! Serves the queue: reaps expired permits, and grants permits to the first waiters that fit.

use core::time::Duration;

use super::rules::Bug;
use super::{Held, Permit, Push, Reach, Record};
use crate::client::{Rules, SLOW_POLL};
use crate::handoff::{OFFER, after};
use crate::{AttemptId, Now};

impl<T: Clone, const CAP: usize, R: Rules<Bug>> Record<T, CAP, R> {
    /// Grants permits to the first waiters while they fit. `caller` needs no push, because it gets an
    /// answer. The first waiter that does not fit is never passed: it learns when the next permit may
    /// expire, if this step has `moved` the queue or a permit, and knows it otherwise. A waiter leaves
    /// the queue if it has lapsed, cannot be reached while a slot is free, or needs more slots than the
    /// limit.
    pub(super) fn serve(
        &mut self,
        now: Now,
        caller: Option<AttemptId>,
        mut moved: bool,
        reach: Reach<'_>,
    ) {
        moved |= self.reap(now);
        for _ in 0..CAP {
            let place = self.next_place();
            let Some(head) = self.queue.get(place) else { return };
            let (attempt, count, ttl) = (head.attempt, head.slots, head.ttl);
            let is_caller = caller == Some(attempt);
            let lapsed = head.has_lapsed(now) && !self.rules.breaks(Bug::WaitersNeverLapse);
            if !is_caller && lapsed {
                self.queue.remove(place);
                moved = true;
                continue;
            }
            if let Some(limit) = self.limit().filter(|limit| count > limit.get()) {
                self.queue.remove(place);
                moved = true;
                reach(attempt, Push::Refused { limit });
                continue;
            }
            if !self.fits_by_rules(count) {
                let remaining = self.next_end(now).unwrap_or(SLOW_POLL);
                // If slots are free, a waiter behind it may fit when it cannot be reached.
                let knows = !moved && self.slots.held() >= self.limit_or_zero();
                if is_caller || knows || reach(attempt, Push::Next { remaining }) {
                    return;
                }
                self.queue.remove(place);
                continue;
            }
            let Some(permit) = self.next_permit(now, count, head.tokens) else { return };
            let tag = head.tag.clone();
            moved = true;
            if is_caller {
                self.grant(now, attempt, permit, ttl, true, tag);
                continue;
            }
            let offer = OFFER.min(ttl);
            let waiters = self.queue.iter().len() - 1;
            if reach(attempt, Push::Granted { permit: permit.clone(), offer, waiters }) {
                self.grant(now, attempt, permit, offer, false, tag);
            } else {
                self.queue.remove(place);
            }
        }
        // The step did as much as it may. Who is the first one now learns it here.
        if let Some(head) = self.queue.get(self.next_place())
            && caller != Some(head.attempt)
            && !self.fits_by_rules(head.slots)
        {
            let remaining = self.next_end(now).unwrap_or(SLOW_POLL);
            reach(head.attempt, Push::Next { remaining });
        }
    }

    /// Returns the place of the waiter that is served next: the first one.
    fn next_place(&self) -> usize {
        if !self.rules.breaks(Bug::SmallPassesFirst) {
            return 0;
        }
        self.queue.iter().position(|waiter| self.fits_by_rules(waiter.slots)).unwrap_or(0)
    }

    /// Takes the slots of expired permits back. Returns true if there were any.
    fn reap(&mut self, now: Now) -> bool {
        let mut reaped = 0;
        while let Some((until_ns, attempt)) = self.permits.first() {
            let ends = until_ns <= now.steady_ns && reaped < CAP;
            if !ends || self.keeps_offer(attempt) {
                break;
            }
            self.take_back(attempt, true);
            reaped += 1;
        }
        reaped > 0
    }

    fn keeps_offer(&self, attempt: AttemptId) -> bool {
        let offer = self.permits.get(attempt).is_some_and(|(_, held)| !held.confirmed);
        offer && self.rules.breaks(Bug::OffersAreNotReaped)
    }

    /// Grants these free slots.
    pub(super) fn grant(
        &mut self,
        now: Now,
        attempt: AttemptId,
        permit: Permit,
        term: Duration,
        confirmed: bool,
        tag: T,
    ) {
        if let Some(place) = self.queue.place(attempt) {
            self.queue.remove(place);
        }
        self.slots.take(&permit);
        if !self.rules.breaks(Bug::SlotTokensNotRaised) {
            self.slots.raise(&permit, permit.tokens.top().get());
        }
        self.permits.insert(attempt, after(now, term), Held { permit, confirmed, tag });
    }

    /// Takes the slots of a permit back. `lost`: it ended without a release.
    pub(super) fn take_back(&mut self, attempt: AttemptId, lost: bool) {
        let Some(held) = self.permits.remove(attempt) else { return };
        if lost {
            self.slots.lose(&held.permit);
        }
        let drops = self.rules.breaks(Bug::SlotsAboveLimitAreDropped);
        let limit = self.limit_or_zero();
        self.slots.give_back(&held.permit, |slot| !drops || slot < limit);
    }

    /// Returns [`fits`](Self::fits), unless a bug is planted there.
    pub(super) fn fits_by_rules(&self, count: u32) -> bool {
        let below =
            || self.slots.lowest_free(count).iter().all(|slot| *slot < self.limit_or_zero());
        self.fits(count) || self.rules.breaks(Bug::OnlyFreeSlotsCount) && below()
    }
}

impl<T, const CAP: usize, R> Record<T, CAP, R> {
    /// Returns true if a permit of `count` slots may be granted now: all permits together stay within
    /// the limit, those in slots above a lowered limit included, and enough slots below the limit are
    /// free.
    pub(super) fn fits(&self, count: u32) -> bool {
        let limit = self.limit_or_zero();
        limit.checked_sub(self.slots.held()).is_some_and(|room| room >= count)
            && self.slots.lowest_free(count).iter().all(|slot| *slot < limit)
    }

    /// Returns the permit that a grant of `count` slots has now; `None` if no token is left.
    pub(super) fn next_permit(&self, now: Now, count: u32, tokens: u32) -> Option<Permit> {
        let slots = self.slots.lowest_free(count);
        let tokens = self.slots.tokens_above(now, &slots, tokens)?;
        Some(Permit { tokens, slots })
    }
}
