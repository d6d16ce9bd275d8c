//! Acquires and renews a permit.

use core::time::Duration;

use super::rules::Bug;
use super::{AcquireRequest, Answer, Permit, Reach, Record, Waiter};
use crate::client::{Rules, SLOW_POLL};
use crate::handoff::{Renewed, after};
use crate::{AttemptId, Now, Token};

impl<T: Clone, const CAP: usize, R: Rules<Bug>> Record<T, CAP, R> {
    /// Grants a permit, or adds the attempt to the queue. A repeated request returns the same permit.
    /// The first request for a semaphore stores its limit.
    ///
    /// If another step may serve waiters immediately, the answer contains zero as the remaining
    /// time. The caller then sends its request again immediately.
    pub fn acquire(&mut self, now: Now, request: &AcquireRequest<T>, reach: Reach<'_>) -> Answer {
        let (attempt, demand) = (request.attempt, request.demand);
        if self.is_refused(now, attempt) {
            return Answer::Ended;
        }
        let (limit, _) = *self.limit.get_or_insert((demand.limit(), 1));
        let mut moved = false;
        if let Some((until_ns, held)) = self.permits.get(attempt) {
            if until_ns > now.steady_ns {
                let permit = held.permit.clone();
                self.extend(now, attempt, request.ttl);
                return Answer::Granted(permit);
            }
            if let Some(permit) = self.grant_again(now, request) {
                return Answer::Granted(permit);
            }
            self.take_back(attempt, true);
            moved = true;
        }
        let place = self.queue.place(attempt);
        if place.is_none() && demand.limit() != limit || demand.slots() > limit.get() {
            moved |= place.and_then(|place| self.queue.remove(place)).is_some();
            self.serve(now, None, moved, reach);
            return Answer::Invalid(limit);
        }
        if !self.queue.touch(attempt, now.steady_ns) && request.wait {
            self.queue.push(Waiter {
                attempt,
                slots: demand.slots(),
                ttl: request.ttl,
                tokens: request.tokens,
                seen_ns: now.steady_ns,
                tag: request.tag.clone(),
            });
        }
        self.serve(now, Some(attempt), moved, reach);
        self.answer(now, request)
    }

    /// Extends the permit to `ttl` from now, if this attempt still holds it. A renewal confirms an
    /// offer. A permit in a slot above a lowered limit is renewed like others.
    pub fn renew(&mut self, now: Now, attempt: AttemptId, base: Token, ttl: Duration) -> Renewed {
        let held = self.permits.get(attempt).filter(|(until_ns, held)| {
            *until_ns > now.steady_ns && held.permit.tokens.base() == base
        });
        if held.is_none() {
            return Renewed::Lost;
        }
        let until_ns = self.extend(now, attempt, ttl);
        let remaining = Duration::from_nanos(until_ns.saturating_sub(now.steady_ns));
        Renewed::Renewed { remaining, waiters: self.queue.iter().len() }
    }

    /// Confirms a permit, and extends it. Returns when it ends.
    fn extend(&mut self, now: Now, attempt: AttemptId, ttl: Duration) -> u64 {
        let before = self.permits.get(attempt).map_or(0, |(until_ns, _)| until_ns);
        let until_ns = before.max(after(now, ttl));
        self.permits.set_until(attempt, until_ns);
        if let Some(held) = self.permits.get_mut(attempt) {
            held.confirmed = true;
        }
        until_ns
    }

    /// Grants an offer again that its attempt did not confirm in time, with the same slots and new
    /// tokens. Returns `None` if it was confirmed, or does not fit under the present limit.
    fn grant_again(&mut self, now: Now, request: &AcquireRequest<T>) -> Option<Permit> {
        let (_, held) = self.permits.get(request.attempt)?;
        let limit = self.limit_or_zero();
        let below = held.permit.slots.iter().all(|slot| *slot < limit);
        let fits = below && self.slots.held() <= limit;
        if held.confirmed || !(fits || self.rules.breaks(Bug::LateOfferIgnoresLimit)) {
            return None;
        }
        let slots = held.permit.slots.clone();
        let tokens = self.slots.tokens_above(now, &slots, request.tokens)?;
        let permit = Permit { tokens, slots };
        self.take_back(request.attempt, true);
        self.grant(now, request.attempt, permit.clone(), request.ttl, true, request.tag.clone());
        Some(permit)
    }

    /// Returns the answer to a request after the queue was served.
    fn answer(&mut self, now: Now, request: &AcquireRequest<T>) -> Answer {
        if let Some((_, held)) = self.permits.get(request.attempt) {
            return Answer::Granted(held.permit.clone());
        }
        let more = self.needs_another_step(now);
        let remaining = if more { Duration::ZERO } else { self.next_end(now).unwrap_or(SLOW_POLL) };
        let place = self.queue.place(request.attempt);
        let first = place.unwrap_or(self.queue.iter().len()) == 0;
        let (count, tokens) = (request.demand.slots(), request.tokens);
        if !first || !self.fits_by_rules(count) {
            return match place {
                Some(place) if request.wait => Answer::Queued { place, remaining },
                _ => Answer::Busy(remaining),
            };
        }
        // No attempt is ahead: the attempt does not wait, or no token is left.
        let Some(permit) = self.next_permit(now, count, tokens) else { return Answer::UsedUp };
        let tag = request.tag.clone();
        self.grant(now, request.attempt, permit.clone(), request.ttl, true, tag);
        Answer::Granted(permit)
    }
}
