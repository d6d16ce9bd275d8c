//! The queue of waiters, and the hand-off of a lease to the first waiter.

use core::time::Duration;

use super::messages::{AcquireRequest, Push, State, Waiter};
use super::{OFFER, Reach, Record, TOKEN_LEAD, after};
use crate::{AttemptId, Now, Token, TokenBlock};

/// How many dead waiters a step may still remove.
#[derive(Debug)]
pub(super) struct Spare(usize);

impl Spare {
    pub(super) fn new(cap: usize) -> Self {
        Self(cap)
    }

    /// Takes one removal. Returns false if the step must leave the rest to the next step.
    fn take(&mut self) -> bool {
        let left = self.0.checked_sub(1);
        self.0 = left.unwrap_or(0);
        left.is_some()
    }
}

impl<T: Clone, const CAP: usize> Record<T, CAP> {
    /// Ends the lease without a release. A kept lease has already been released.
    pub(super) fn lose(&mut self) {
        if self.state == State::Held {
            self.lost = self.base;
        }
        self.state = State::Free;
    }

    /// Grants the free lock to the first reachable waiter. `caller` needs no push, because it gets
    /// an answer. Returns true if the lock stays free because the step may remove no more waiters.
    pub(super) fn hand_on(
        &mut self,
        now: Now,
        caller: Option<AttemptId>,
        spare: &mut Spare,
        reach: Reach<'_>,
    ) -> bool {
        while let Some(head) = self.queue.front() {
            let Some(tokens) = self.next_tokens(now, head.tokens) else { return false };
            let (attempt, ttl) = (head.attempt, head.ttl);
            let owner = (attempt, head.tag.clone());
            if caller == Some(attempt) {
                self.grant(now, tokens, owner, ttl, true);
                break;
            }
            let offer = OFFER.min(ttl);
            let waiters = self.queue.len() - 1;
            if reach(attempt, Push::Granted { tokens, offer, waiters }) {
                self.grant(now, tokens, owner, offer, false);
                break;
            }
            if !spare.take() {
                return true;
            }
            self.queue.pop_front();
        }
        self.say_next(now, caller, spare, reach);
        false
    }

    /// Tells the first waiter when to send its request again if it receives nothing else. A waiter
    /// that cannot be reached leaves the queue. `caller` gets this from its answer. Every new first
    /// waiter gets this push: its own timer is based on an earlier lease, which may have had a much
    /// longer ttl.
    pub(super) fn say_next(
        &mut self,
        now: Now,
        caller: Option<AttemptId>,
        spare: &mut Spare,
        reach: Reach<'_>,
    ) {
        if self.state == State::Free {
            return;
        }
        let next = Push::Next { base: self.base(), remaining: self.remaining(now) };
        while let Some(head) = self.queue.front().map(|head| head.attempt) {
            if caller == Some(head) || reach(head, next) || !spare.take() {
                return;
            }
            self.queue.pop_front();
        }
    }

    /// Notifies the holder that another client has begun to wait.
    pub(super) fn say_wanted(&self, reach: Reach<'_>) {
        if let Some((owner, _)) = self.owner() {
            reach(owner, Push::Wanted { base: self.base() });
        }
    }

    pub(super) fn grant(
        &mut self,
        now: Now,
        tokens: TokenBlock,
        owner: (AttemptId, T),
        term: Duration,
        confirmed: bool,
    ) {
        self.dequeue(owner.0);
        if self.top == 0 {
            // An earlier record may have been removed: how its leases ended is unknown.
            self.lost = tokens.base().get() - 1;
        }
        self.state = State::Held;
        self.owner = Some(owner);
        self.base = tokens.base().get();
        self.top = tokens.top().get();
        self.until_ns = after(now, term);
        self.confirmed = confirmed;
    }

    /// Reserves tokens above the highest one of this lock.
    pub(super) fn next_tokens(&self, now: Now, count: u32) -> Option<TokenBlock> {
        tokens_above(self.top, now, count)
    }

    /// Adds the attempt to the queue, unless it is queued already.
    pub(super) fn enqueue(&mut self, request: &AcquireRequest<T>) {
        if self.queue.iter().all(|waiter| waiter.attempt != request.attempt) {
            let AcquireRequest { attempt, ttl, tokens, .. } = *request;
            self.queue.push_back(Waiter { attempt, ttl, tokens, tag: request.tag.clone() });
        }
    }

    /// Removes the attempt from the queue and returns its place there.
    pub(super) fn dequeue(&mut self, attempt: AttemptId) -> Option<usize> {
        let place = self.queue.iter().position(|waiter| waiter.attempt == attempt)?;
        self.queue.remove(place);
        Some(place)
    }
}

/// Reserves `count` tokens from `max(top + 1, wall clock in microseconds)` on. So tokens grow even
/// after the record was lost. A waiter that ends without using its block wastes it. Blocks end at
/// [`TOKEN_LEAD`]: otherwise tokens would run ahead of the clock, and be smaller after a loss of
/// the record. Returns `None` if no token is left.
pub(crate) fn tokens_above(top: u64, now: Now, count: u32) -> Option<TokenBlock> {
    let base = Token::new(top.saturating_add(1).max(now.unix_us()))?;
    let room = (now.unix_us() + u64::from(TOKEN_LEAD)).saturating_sub(base.get());
    let room = u32::try_from(room).unwrap_or(TOKEN_LEAD);
    TokenBlock::new(base, count.min(room).max(1))
}
