//! Begins and ends phases: who enters, and who is notified.

use core::time::Duration;

use super::messages::{Member, Mode, Phase};
use super::{Bug, Record, Rules};
use crate::handoff::{AcquireRequest, OFFER, Push, Reach, TOMBSTONE, after, tokens_above};
use crate::{AttemptId, Now, TokenBlock};

/// The most expired members that one new member removes. Two keep the number of members that have
/// expired long ago from growing.
const REAPED: usize = 2;

/// How much a step may still do.
#[derive(Debug)]
pub(super) struct Budget {
    /// Waiters that it may grant a lease to or remove.
    offers: usize,
    /// Other messages that it may send.
    notices: usize,
}

impl Budget {
    pub(super) fn new(cap: usize, rules: impl Rules) -> Self {
        match rules.breaks(Bug::StepsAreNotCapped) {
            false => Self { offers: cap, notices: cap + 1 },
            true => Self { offers: usize::MAX, notices: usize::MAX },
        }
    }

    /// Returns false if the step may send no more messages of this kind.
    pub(super) fn take_notice(&mut self) -> bool {
        take(&mut self.notices)
    }
}

fn take(left: &mut usize) -> bool {
    let taken = *left > 0;
    *left -= usize::from(taken);
    taken
}

fn nanos(time: Duration) -> u64 {
    after(Now::default(), time)
}

/// What became of the first waiter of a queue.
enum Offered {
    /// It made this request, and has the whole lease.
    Caller(AttemptId, Duration),
    /// It has received an offer.
    Pushed(AttemptId, Duration),
    /// It cannot be reached, and has left the queue.
    Unreachable,
    /// The step may do no more.
    NoMore,
}

impl<T: Clone, const CAP: usize, R: Rules> Record<T, CAP, R> {
    pub(super) fn next_tokens(&self, now: Now, mode: Mode, count: u32) -> Option<TokenBlock> {
        tokens_above(self.top, now, if mode == Mode::Read { 1 } else { count })
    }

    /// Begins a phase without members.
    pub(super) fn begin(&mut self, mode: Mode, tokens: TokenBlock) {
        if self.top == 0 {
            // An earlier record may have been removed: how its leases ended is unknown.
            (self.lost, self.lost_mode) = (tokens.base().get() - 1, Mode::Write);
        }
        self.phase = mode.into();
        self.turn = mode.other();
        self.base = tokens.base().get();
        self.top = tokens.top().get();
        self.members = super::Members::default();
    }

    /// Adds a member. Its attempt leaves the queue.
    pub(super) fn join(
        &mut self,
        now: Now,
        (attempt, tag): (AttemptId, T),
        term: Duration,
        confirmed: bool,
    ) {
        self.queues.remove(attempt);
        self.remove_long_expired(now);
        self.last = Some((attempt, tag.clone()));
        let until_ns = after(now, term);
        self.members.insert(Member { attempt, until_ns, confirmed, tag });
    }

    /// Adds the caller, with its whole lease.
    pub(super) fn join_caller(&mut self, now: Now, request: &AcquireRequest<T>) {
        self.join(now, (request.attempt, request.tag.clone()), request.ttl, true);
    }

    /// Removes members that expired long ago, so that a read phase that lasts for days does not
    /// collect them.
    fn remove_long_expired(&mut self, now: Now) {
        for _ in 0..REAPED {
            match self.members.earliest() {
                Some((until_ns, attempt))
                    if until_ns.saturating_add(nanos(TOMBSTONE)) <= now.steady_ns =>
                {
                    self.lose();
                    self.members.remove(attempt);
                }
                _ => return,
            }
        }
    }

    /// Records that a lease of the current phase has ended without a release.
    pub(super) fn lose(&mut self) {
        if let Some(mode) = self.mode() {
            (self.lost, self.lost_mode) = (self.base, mode);
        }
    }

    /// Ends the phase. Its members, if there are any, have lost their leases; the writer of a kept
    /// lock has released it before.
    pub(super) fn end_phase(&mut self) {
        if !self.members.is_empty() {
            self.lose();
        }
        self.phase = Phase::Free;
        self.members = super::Members::default();
    }

    /// Returns the mode that enters next, if an attempt waits.
    pub(super) fn next_mode(&self) -> Option<Mode> {
        let turn = match () {
            () if self.rules.breaks(Bug::ReadersAlwaysFirst) => Mode::Read,
            () if self.rules.breaks(Bug::WritersAlwaysFirst) => Mode::Write,
            () => self.turn,
        };
        [turn, turn.other()].into_iter().find(|mode| self.queues.len(*mode) > 0)
    }

    /// Grants the free lock to the waiters whose turn it is. `caller` needs no push, because it gets
    /// an answer. Returns true if the lock stays free because the step may do no more.
    pub(super) fn hand_on(
        &mut self,
        now: Now,
        caller: Option<AttemptId>,
        budget: &mut Budget,
        reach: Reach<'_>,
    ) -> bool {
        while let Some(mode) = self.next_mode() {
            let count = self.queues.head(mode).map_or(1, |head| head.tokens);
            let Some(tokens) = self.next_tokens(now, mode, count) else { return false };
            match self.offer(mode, tokens, caller, budget, reach) {
                Offered::NoMore => return true,
                Offered::Unreachable => continue,
                offered => {
                    self.begin(mode, tokens);
                    self.enter(now, mode, offered);
                }
            }
            if mode == Mode::Read && !self.rules.breaks(Bug::OneReaderPerPhase) {
                self.admit(now, caller, budget, reach);
            }
            break;
        }
        self.say_next(now, caller, budget, reach);
        false
    }

    /// Admits the first queued readers to the current read phase, as many as one step may.
    pub(super) fn admit(
        &mut self,
        now: Now,
        caller: Option<AttemptId>,
        budget: &mut Budget,
        reach: Reach<'_>,
    ) {
        let Some(token) = self.base() else { return };
        while self.queues.len(Mode::Read) > 0 {
            match self.offer(Mode::Read, TokenBlock::single(token), caller, budget, reach) {
                Offered::NoMore => return,
                offered => self.enter(now, Mode::Read, offered),
            }
        }
    }

    /// Offers a lease to the first waiter of a mode.
    fn offer(
        &mut self,
        mode: Mode,
        tokens: TokenBlock,
        caller: Option<AttemptId>,
        budget: &mut Budget,
        reach: Reach<'_>,
    ) -> Offered {
        let Some(head) = self.queues.head(mode) else { return Offered::NoMore };
        let (attempt, ttl) = (head.attempt, head.ttl);
        if caller == Some(attempt) {
            return Offered::Caller(attempt, ttl);
        }
        if !take(&mut budget.offers) {
            return Offered::NoMore;
        }
        let itself = usize::from(mode == Mode::Write);
        let waiters = self.waiters_for(mode) - itself;
        let offer = OFFER.min(ttl);
        if reach(attempt, Push::Granted { tokens, offer, waiters }) {
            return Offered::Pushed(attempt, offer);
        }
        self.queues.remove(attempt);
        Offered::Unreachable
    }

    /// The first waiter of a mode becomes a member, if it has received the lease.
    fn enter(&mut self, now: Now, mode: Mode, offered: Offered) {
        let (attempt, term, confirmed) = match offered {
            Offered::Caller(attempt, ttl) => (attempt, ttl, true),
            Offered::Pushed(attempt, offer) => (attempt, offer, false),
            Offered::Unreachable | Offered::NoMore => return,
        };
        if let Some(tag) = self.queues.head(mode).map(|head| head.tag.clone()) {
            self.join(now, (attempt, tag), term, confirmed);
        }
    }

    /// Notifies the first waiter of each mode that may enter next when to ask again if it receives
    /// nothing else. Its own timer counts on an earlier phase, which may have had a longer ttl.
    pub(super) fn say_next(
        &mut self,
        now: Now,
        caller: Option<AttemptId>,
        budget: &mut Budget,
        reach: Reach<'_>,
    ) {
        self.say_next_to(Mode::Write, now, caller, budget, reach);
        if self.phase != Phase::Read {
            self.say_next_to(Mode::Read, now, caller, budget, reach);
        }
    }

    /// Notifies the first waiter of a mode. A waiter that cannot be reached leaves the queue.
    /// `caller` learns it from its answer.
    pub(super) fn say_next_to(
        &mut self,
        mode: Mode,
        now: Now,
        caller: Option<AttemptId>,
        budget: &mut Budget,
        reach: Reach<'_>,
    ) {
        if self.phase == Phase::Free {
            return;
        }
        let next = Push::Next { base: self.base(), remaining: self.remaining(now) };
        while let Some(head) = self.queues.head(mode).map(|head| head.attempt) {
            if caller == Some(head) || !budget.take_notice() || reach(head, next) {
                return;
            }
            self.queues.remove(head);
        }
    }

    /// Notifies the members that another attempt waits: those with the longest leases, since the
    /// others renew soon. A member that cannot be reached stays, because its guard may be valid.
    pub(super) fn say_wanted(&self, now: Now, budget: &mut Budget, reach: Reach<'_>) {
        for attempt in self.members.alive(now.steady_ns) {
            if !budget.take_notice() {
                return;
            }
            reach(attempt, Push::Wanted { base: self.base() });
        }
    }

    /// Removes the first waiters that have not asked for long, and admits queued readers if no
    /// writer is queued any more.
    pub(super) fn lapse_and_admit(
        &mut self,
        now: Now,
        caller: Option<AttemptId>,
        budget: &mut Budget,
        reach: Reach<'_>,
    ) {
        for mode in [Mode::Write, Mode::Read] {
            while let Some(head) = self.queues.head(mode).filter(|_| self.lapses())
                && head.seen_ns.saturating_add(nanos(self.waiter_lease)) < now.steady_ns
                && take(&mut budget.offers)
            {
                let attempt = head.attempt;
                self.queues.remove(attempt);
            }
        }
        let reading = self.phase == Phase::Read && self.is_alive(now);
        let admits = !self.rules.breaks(Bug::LeavingWriterAdmitsNoReader);
        if reading && admits && self.queues.len(Mode::Write) == 0 {
            self.admit(now, caller, budget, reach);
        }
    }

    /// Ends a step: what every step does, whatever it was asked for.
    pub(super) fn finish(&mut self, now: Now, budget: &mut Budget, reach: Reach<'_>) {
        self.lapse_and_admit(now, None, budget, reach);
        if !self.is_alive(now) && !self.queues.is_empty() {
            self.end_phase();
            self.hand_on(now, None, budget, reach);
        }
    }

    pub(super) fn lapses(&self) -> bool {
        !self.waiter_lease.is_zero() && !self.rules.breaks(Bug::WaitersNeverLapse)
    }
}
