//! Acquires and renews leases.

use core::time::Duration;

use super::messages::{Answer, Mode, Phase, Waiter, phases_ahead};
use super::phase::Budget;
use super::{Bug, Record, Rules};
use crate::handoff::{AcquireRequest, Reach, Renewed, after};
use crate::{AttemptId, Now, Token, TokenBlock};

impl<T: Clone, const CAP: usize, R: Rules> Record<T, CAP, R> {
    /// Grants the lease, or adds the attempt to the queue of its mode. A repeated request returns
    /// the same lease. `request.tokens` applies to writers; a reader has the token of its phase.
    ///
    /// A request that is not `fair` overtakes waiters if a phase has ended without a hand-off. It
    /// never joins a read phase for which a writer waits.
    ///
    /// If more dead waiters precede the attempt than one step removes, the answer contains zero as
    /// the remaining time. The caller then sends its request again immediately.
    pub fn acquire(
        &mut self,
        now: Now,
        mode: Mode,
        request: &AcquireRequest<T>,
        reach: Reach<'_>,
    ) -> Answer {
        let budget = &mut Budget::new(CAP, self.rules);
        self.acquire_within(now, mode, request, budget, reach)
    }

    pub(super) fn acquire_within(
        &mut self,
        now: Now,
        mode: Mode,
        request: &AcquireRequest<T>,
        budget: &mut Budget,
        reach: Reach<'_>,
    ) -> Answer {
        let attempt = request.attempt;
        let queued = self.queues.mode(attempt);
        let ended = self.is_refused(now, attempt) || queued.is_some_and(|queued| queued != mode);
        let answer = match ended {
            true => Answer::Ended,
            false => self.acquire_open(now, mode, request, budget, reach),
        };
        self.finish(now, budget, reach);
        answer
    }

    /// Acquires for an attempt that may do so.
    fn acquire_open(
        &mut self,
        now: Now,
        mode: Mode,
        request: &AcquireRequest<T>,
        budget: &mut Budget,
        reach: Reach<'_>,
    ) -> Answer {
        let seen_ns = self.seen(now);
        self.queues.handle_asked(request.attempt, seen_ns);
        match self.acquire_again(now, mode, request, budget, reach) {
            Some(answer) => answer,
            None if self.is_alive(now) => self.acquire_taken(now, mode, request, budget, reach),
            None => self.acquire_free(now, mode, request, budget, reach),
        }
    }

    /// Answers an attempt that is a member of the current phase; `None` if it must begin anew.
    fn acquire_again(
        &mut self,
        now: Now,
        mode: Mode,
        request: &AcquireRequest<T>,
        budget: &mut Budget,
        reach: Reach<'_>,
    ) -> Option<Answer> {
        let attempt = request.attempt;
        let member = self.members.get(attempt)?;
        let (until_ns, confirmed) = (member.until_ns, member.confirmed);
        if self.mode() != Some(mode) {
            // The writer has released a kept lock, or the attempt acquired in the other mode.
            return self.is_alive(now).then_some(Answer::Ended);
        }
        match (mode, confirmed) {
            _ if until_ns > now.steady_ns => {}
            (Mode::Read, false) if self.is_alive(now) => {}
            // The offer came too late. No other attempt has held the lock since.
            (Mode::Write, false) => {
                self.lose();
                return Some(self.grant(now, mode, request, budget, reach));
            }
            (Mode::Read, true) if self.is_alive(now) => {
                self.lose();
                self.members.remove(attempt);
                return None;
            }
            _ => return None,
        }
        self.extend(now, attempt, request.ttl);
        Some(self.granted(mode))
    }

    /// Acquires while another attempt holds the lock.
    fn acquire_taken(
        &mut self,
        now: Now,
        mode: Mode,
        request: &AcquireRequest<T>,
        budget: &mut Budget,
        reach: Reach<'_>,
    ) -> Answer {
        let attempt = request.attempt;
        self.lapse_and_admit(now, Some(attempt), budget, reach);
        if self.members.get(attempt).is_some() {
            return self.granted(mode);
        }
        if self.may_join(mode) {
            self.join_caller(now, request);
            return self.granted(mode);
        }
        if !request.wait {
            return Answer::Busy(self.remaining(now));
        }
        // The members know of the waiters that are queued already. A message may be lost: the first
        // waiter repeats it.
        let known = self.waiters_for(self.mode().unwrap_or(Mode::Write)) > 0;
        let new = self.enqueue(now, mode, request);
        let repeats = !self.rules.breaks(Bug::WaitersAreAnnouncedOnce);
        let says = match new {
            true => !known,
            false => self.queues.is_head(mode, attempt) && repeats,
        };
        if says {
            self.say_wanted(now, budget, reach);
        }
        self.queued(now, mode, attempt)
    }

    /// Acquires after the end of a phase.
    fn acquire_free(
        &mut self,
        now: Now,
        mode: Mode,
        request: &AcquireRequest<T>,
        budget: &mut Budget,
        reach: Reach<'_>,
    ) -> Answer {
        let attempt = request.attempt;
        self.end_phase();
        let first = self.next_mode().is_none_or(|next| self.queues.is_head(next, attempt));
        if !request.fair || self.queues.is_empty() {
            return self.grant(now, mode, request, budget, reach);
        }
        if request.wait {
            self.enqueue(now, mode, request);
        }
        let caller = (request.wait || first).then_some(attempt);
        let more = self.hand_on(now, caller, budget, reach);
        match self.phase {
            Phase::Free if !more => self.grant(now, mode, request, budget, reach),
            Phase::Free if request.wait => self.queued(now, mode, attempt),
            Phase::Free => Answer::Busy(Duration::ZERO),
            _ if self.members.get(attempt).is_some() => self.granted(mode),
            _ if self.may_join(mode) => {
                self.join_caller(now, request);
                self.granted(mode)
            }
            _ if request.wait => self.queued(now, mode, attempt),
            _ => Answer::Busy(self.remaining(now)),
        }
    }

    /// Extends the lease of one attempt to `ttl` from now, if this attempt still holds it. A renewal
    /// confirms an offer. It changes the lease of no other attempt.
    pub fn renew(
        &mut self,
        now: Now,
        attempt: AttemptId,
        base: Token,
        ttl: Duration,
        reach: Reach<'_>,
    ) -> Renewed {
        let renewed = match (self.mode(), self.members.get(attempt)) {
            (Some(mode), Some(member))
                if member.until_ns > now.steady_ns && self.base == base.get() =>
            {
                let until_ns = member.until_ns.max(after(now, ttl));
                let remaining = Duration::from_nanos(until_ns - now.steady_ns);
                self.extend(now, attempt, ttl);
                let waiters = match self.rules.breaks(Bug::WaitersAreAnnouncedOnce) {
                    true => 0,
                    false => self.waiters_for(mode),
                };
                Renewed::Renewed { remaining, waiters }
            }
            _ => Renewed::Lost,
        };
        self.finish(now, &mut Budget::new(CAP, self.rules), reach);
        renewed
    }

    /// Confirms the lease of one attempt and extends it to `ttl` from now.
    pub(super) fn extend(&mut self, now: Now, attempt: AttemptId, ttl: Duration) {
        let until_ns = after(now, ttl);
        let everyone = self.rules.breaks(Bug::OneExpiryForAllMembers);
        let offers = self.rules.breaks(Bug::ConfirmationConfirmsAll);
        if everyone || offers {
            let chosen = |member: &&super::Member<T>| everyone || !member.confirmed;
            let others = self.members.iter().filter(chosen).map(|member| member.attempt);
            for other in others.collect::<Vec<_>>() {
                self.members.confirm(other, |before| before.max(until_ns));
            }
        }
        self.members.confirm(attempt, |before| before.max(until_ns));
    }

    /// Returns true if a request in this mode joins the current phase.
    fn may_join(&self, mode: Mode) -> bool {
        let passes = self.rules.breaks(Bug::ReaderJoinsPastQueuedWriter);
        let reads = (mode, self.phase) == (Mode::Read, Phase::Read);
        reads && (self.queues.len(Mode::Write) == 0 || passes)
    }

    /// Begins a phase with the caller.
    fn grant(
        &mut self,
        now: Now,
        mode: Mode,
        request: &AcquireRequest<T>,
        budget: &mut Budget,
        reach: Reach<'_>,
    ) -> Answer {
        let Some(tokens) = self.next_tokens(now, mode, request.tokens) else {
            return Answer::UsedUp;
        };
        self.begin(mode, tokens);
        self.join_caller(now, request);
        self.say_next(now, Some(request.attempt), budget, reach);
        self.granted(mode)
    }

    /// Returns the tokens of the current phase.
    pub(super) fn tokens(&self) -> Option<TokenBlock> {
        let count = u32::try_from(self.top.saturating_sub(self.base)).unwrap_or(u32::MAX);
        TokenBlock::new(Token::new(self.base)?, count.saturating_add(1))
    }

    fn granted(&self, mode: Mode) -> Answer {
        let waiters = match self.rules.breaks(Bug::GrantHidesWaiters) {
            true => 0,
            false => self.waiters_for(mode),
        };
        self.tokens().map_or(Answer::UsedUp, |tokens| Answer::Granted { tokens, waiters })
    }

    /// Returns the answer to a queued attempt: its place counts the phases ahead.
    fn queued(&self, now: Now, mode: Mode, attempt: AttemptId) -> Answer {
        let ahead = self.queues.ahead(mode, attempt);
        let others = self.queues.len(mode.other());
        let place = phases_ahead(mode, self.turn, ahead, others, CAP);
        Answer::Queued { place, base: self.base(), remaining: self.remaining(now) }
    }

    /// Adds the attempt to the queue. Returns false if it was queued already.
    fn enqueue(&mut self, now: Now, mode: Mode, request: &AcquireRequest<T>) -> bool {
        let AcquireRequest { attempt, ttl, tokens, .. } = *request;
        let new = self.queues.mode(attempt).is_none();
        let seen_ns = self.seen(now);
        self.queues.push(Waiter { attempt, mode, ttl, tokens, seen_ns, tag: request.tag.clone() });
        new
    }

    fn seen(&self, now: Now) -> u64 {
        if self.lapses() { now.steady_ns } else { 0 }
    }
}
