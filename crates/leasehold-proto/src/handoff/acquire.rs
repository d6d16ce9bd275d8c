//! Acquires and renews the lease.

use core::time::Duration;

use super::messages::{AcquireRequest, Answer, Renewed, State};
use super::queue::Spare;
use super::{Reach, Record, after};
use crate::{AttemptId, Now, Token, TokenBlock};

impl<T: Clone, const CAP: usize> Record<T, CAP> {
    /// Grants the lease, or adds the attempt to the queue. A repeated request returns the same
    /// lease.
    ///
    /// If more dead waiters precede the attempt than one step removes, the answer contains zero as
    /// the remaining time. The caller then sends its request again immediately.
    pub fn acquire(&mut self, now: Now, request: &AcquireRequest<T>, reach: Reach<'_>) -> Answer {
        self.acquire_within(now, request, &mut Spare::new(CAP), reach)
    }

    pub(super) fn acquire_within(
        &mut self,
        now: Now,
        request: &AcquireRequest<T>,
        spare: &mut Spare,
        reach: Reach<'_>,
    ) -> Answer {
        if self.is_refused(now, request.attempt) {
            return Answer::Ended;
        }
        if self.is_alive(now) {
            return self.acquire_taken(now, request, reach);
        }
        let late_offer =
            self.state == State::Held && self.is_owner(request.attempt) && !self.confirmed;
        self.lose();
        let first = self.queue.front().is_none_or(|head| head.attempt == request.attempt);
        if late_offer || first || !request.fair {
            return self.grant_now(now, request, spare, reach);
        }
        if request.wait {
            self.enqueue(request);
        }
        let more = self.hand_on(now, request.wait.then_some(request.attempt), spare, reach);
        match self.state {
            State::Free if !more => self.grant_now(now, request, spare, reach),
            State::Free if request.wait => self.queued(now, request.attempt),
            State::Free => Answer::Busy(Duration::ZERO),
            _ if self.is_owner(request.attempt) => self.granted(),
            _ if request.wait => self.queued(now, request.attempt),
            _ => Answer::Busy(self.remaining(now)),
        }
    }

    /// Extends the lease to `ttl` from now, if this attempt still holds it. A renewal confirms an
    /// offer.
    pub fn renew(&mut self, now: Now, attempt: AttemptId, base: Token, ttl: Duration) -> Renewed {
        let held = self.state == State::Held && self.is_alive(now);
        if !held || !self.is_owner(attempt) || self.base != base.get() {
            return Renewed::Lost;
        }
        self.extend(now, ttl);
        Renewed::Renewed { remaining: self.remaining(now), waiters: self.queue.len() }
    }

    fn acquire_taken(&mut self, now: Now, request: &AcquireRequest<T>, reach: Reach<'_>) -> Answer {
        if self.is_owner(request.attempt) {
            // The owner has released a kept lock; its earlier requests arrive too late.
            if self.state == State::Kept {
                return Answer::Ended;
            }
            self.extend(now, request.ttl);
            return self.granted();
        }
        if !request.wait {
            return Answer::Busy(self.remaining(now));
        }
        // The first waiter notifies the holder, also each time that it asks again: a message may
        // be lost. The holder knows then that others wait.
        self.enqueue(request);
        if self.queue.front().is_some_and(|head| head.attempt == request.attempt) {
            self.say_wanted(reach);
        }
        self.queued(now, request.attempt)
    }

    fn extend(&mut self, now: Now, ttl: Duration) {
        self.confirmed = true;
        self.until_ns = self.until_ns.max(after(now, ttl));
    }

    fn grant_now(
        &mut self,
        now: Now,
        request: &AcquireRequest<T>,
        spare: &mut Spare,
        reach: Reach<'_>,
    ) -> Answer {
        let Some(tokens) = self.next_tokens(now, request.tokens) else { return Answer::UsedUp };
        self.grant(now, tokens, (request.attempt, request.tag.clone()), request.ttl, true);
        self.say_next(now, Some(request.attempt), spare, reach);
        Answer::Granted { tokens, waiters: self.queue.len() }
    }

    fn granted(&self) -> Answer {
        let count = u32::try_from(self.top.saturating_sub(self.base)).unwrap_or(u32::MAX);
        Token::new(self.base)
            .and_then(|base| TokenBlock::new(base, count.saturating_add(1)))
            .map_or(Answer::UsedUp, |tokens| Answer::Granted { tokens, waiters: self.queue.len() })
    }

    fn queued(&self, now: Now, attempt: AttemptId) -> Answer {
        let place = self.queue.iter().take_while(|waiter| waiter.attempt != attempt).count();
        Answer::Queued { place, base: self.base(), remaining: self.remaining(now) }
    }
}
