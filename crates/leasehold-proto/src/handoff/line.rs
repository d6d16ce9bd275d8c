//! The line of waiters, and how a lease passes to its head.

use core::time::Duration;

use super::words::{Ask, Push, State, Waiter};
use super::{OFFER, Reach, Record, TOKEN_LEAD, after};
use crate::{AttemptId, Now, Token, TokenBlock};

impl<T: Clone> Record<T> {
    /// Ends the lease other than by its release; a kept one has been released already.
    pub(super) fn lose(&mut self) {
        if self.state == State::Held {
            self.lost = self.base;
        }
        self.state = State::Free;
    }

    /// Gives the free lock to the first waiter that can be reached. `caller` needs no push: it
    /// gets an answer.
    pub(super) fn hand_on(&mut self, now: Now, caller: Option<AttemptId>, reach: Reach<'_>) {
        while let Some(head) = self.queue.front() {
            let Some(tokens) = self.next_tokens(now, head.tokens) else { return };
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
            self.queue.pop_front();
        }
        self.say_next(now, caller, reach);
    }

    /// Tells the new head when to ask should nothing else be heard; one that cannot be reached
    /// leaves the line. `caller` is told by its answer. Whoever becomes the first in line is told,
    /// however that came about: its own timer reckons with an earlier lease, which may have had a
    /// much longer ttl.
    pub(super) fn say_next(&mut self, now: Now, caller: Option<AttemptId>, reach: Reach<'_>) {
        if self.state == State::Free {
            return;
        }
        let next = Push::Next { base: self.base(), remaining: self.remaining(now) };
        while let Some(head) = self.queue.front().map(|head| head.attempt) {
            if caller == Some(head) || reach(head, next) {
                return;
            }
            self.queue.pop_front();
        }
    }

    /// Tells the holder that somebody has begun to wait.
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
        self.state = State::Held;
        self.owner = Some(owner);
        self.base = tokens.base().get();
        self.top = tokens.top().get();
        self.until_ns = after(now, term);
        self.confirmed = confirmed;
    }

    /// From `max(top + 1, wall clock in microseconds)` on: tokens grow even after the record was
    /// lost. A waiter that ends without its block burns it. So blocks end at [`TOKEN_LEAD`], or
    /// tokens would leave the clock behind, and fall with the record's loss.
    pub(super) fn next_tokens(&self, now: Now, count: u32) -> Option<TokenBlock> {
        let base = Token::new((self.top + 1).max(now.unix_us()))?;
        let room = (now.unix_us() + u64::from(TOKEN_LEAD)).saturating_sub(base.get());
        let room = u32::try_from(room).unwrap_or(TOKEN_LEAD);
        TokenBlock::new(base, count.min(room).max(1))
    }

    /// True when the attempt was not in line yet.
    pub(super) fn enqueue(&mut self, ask: &Ask<T>) -> bool {
        let new = !self.queue.iter().any(|waiter| waiter.attempt == ask.attempt);
        if new {
            let Ask { attempt, ttl, tokens, .. } = *ask;
            self.queue.push_back(Waiter { attempt, ttl, tokens, tag: ask.tag.clone() });
        }
        new
    }

    /// The place that the attempt had in line.
    pub(super) fn dequeue(&mut self, attempt: AttemptId) -> Option<usize> {
        let place = self.queue.iter().position(|waiter| waiter.attempt == attempt)?;
        self.queue.remove(place);
        Some(place)
    }
}
