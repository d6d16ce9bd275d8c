//! Ends an attempt: at the client's request, in exchange for a new attempt, or by an operator.

use super::messages::{Answer, Mode, Phase};
use super::phase::Budget;
use super::{Bug, Record, Rules};
use crate::handoff::{
    AcquireRequest, Forced, Push, Reach, ReleaseRequest, TOMBSTONE, Verdict, after,
    verdict_on_the_past,
};
use crate::{AttemptId, Now, Token};

impl<T: Clone, const CAP: usize, R: Rules> Record<T, CAP, R> {
    /// Ends an attempt: removes it from the queue, ends its lease, and refuses it later if it is
    /// suspect. When the last member of a phase ends, the lock is handed off. `keep` applies to
    /// writers only.
    ///
    /// The attempt id alone decides which lease ends. The base decides only the verdict and the
    /// tokens. A late request may have granted an offer again, with a base that its owner does not
    /// know; that offer must end too.
    ///
    /// The verdict on a reader that has ended earlier is [`Verdict::Unknown`] if any reader of its
    /// phase lost its lease, because the record does not remember which reader it was.
    pub fn release(&mut self, now: Now, release: &ReleaseRequest, reach: Reach<'_>) -> Verdict {
        let budget = &mut Budget::new(CAP, self.rules);
        self.release_within(now, release, budget, reach)
    }

    pub(super) fn release_within(
        &mut self,
        now: Now,
        release: &ReleaseRequest,
        budget: &mut Budget,
        reach: Reach<'_>,
    ) -> Verdict {
        let left = self.queues.remove(release.attempt);
        self.tombstones.retain(|_, until| *until > now.steady_ns);
        if release.suspect {
            self.refuse(now, release.attempt);
        }
        let member = self.members.get(release.attempt).map(|member| member.until_ns);
        let verdict = match (self.mode(), member) {
            (Some(mode), Some(until_ns)) => {
                let alive = until_ns > now.steady_ns;
                self.release_member(now, mode, alive, release, budget, reach)
            }
            _ => {
                if let Some((mode, true)) = left.filter(|left| self.precedes_others(left.0)) {
                    self.say_next_to(mode, now, None, budget, reach);
                }
                self.remove_for_another(release);
                self.verdict_on_the_past(release.base)
            }
        };
        self.finish(now, budget, reach);
        verdict
    }

    /// Ends the lease of a member.
    fn release_member(
        &mut self,
        now: Now,
        mode: Mode,
        alive: bool,
        release: &ReleaseRequest,
        budget: &mut Budget,
        reach: Reach<'_>,
    ) -> Verdict {
        let same = release.base.is_none_or(|base| base.get() == self.base);
        let latest_ns = self.members.latest_ns();
        if !alive {
            self.lose();
        } else if let (Mode::Write, true, Some(_), Some(last)) =
            (mode, same, release.base, release.last)
        {
            self.top = self.base.max(last.get());
        }
        let removed = self.members.remove(release.attempt);
        match (release.keep.filter(|_| alive && same && mode == Mode::Write), removed) {
            (Some(keep), Some(writer)) => {
                self.phase = Phase::Kept;
                let until_ns = after(now, keep);
                self.members.insert(super::Member { until_ns, ..writer });
                // The first waiter expects the end of the lease; the keep ends at another time.
                self.say_next(now, None, budget, reach);
            }
            _ if !self.is_alive(now) => {
                self.end_phase();
                self.hand_on(now, None, budget, reach);
            }
            _ if self.members.latest_ns() < latest_ns
                && !self.rules.breaks(Bug::LeavingMemberTellsNobody) =>
            {
                self.say_next(now, None, budget, reach);
            }
            _ => {}
        }
        if alive && same { Verdict::Released } else { Verdict::Lost }
    }

    /// Does a [`release`](Self::release) and an [`acquire`](Self::acquire) in one step.
    ///
    /// `next` has its own attempt id. The client must not take an old push for the ended attempt as
    /// the new grant.
    pub fn rotate(
        &mut self,
        now: Now,
        release: &ReleaseRequest,
        mode: Mode,
        next: &AcquireRequest<T>,
        reach: Reach<'_>,
    ) -> (Verdict, Answer) {
        let budget = &mut Budget::new(CAP, self.rules);
        (
            self.release_within(now, release, budget, reach),
            self.acquire_within(now, mode, next, budget, reach),
        )
    }

    /// Ends the current phase if its block contains `token`, with the leases of all members.
    /// Notifies the members with the longest leases, as many as one step may.
    pub fn force_release(&mut self, now: Now, token: Token, reach: Reach<'_>) -> Forced {
        let budget = &mut Budget::new(CAP, self.rules);
        let named = (self.base..=self.top).contains(&token.get());
        let forced = match (self.is_alive(now), named, self.base()) {
            (true, false, Some(base)) => return Forced::Other(base),
            (true, true, _) => Forced::Ended,
            _ => Forced::NotHeld,
        };
        if named && self.phase != Phase::Free {
            if forced == Forced::Ended && self.phase != Phase::Kept {
                let base = self.base();
                for attempt in self.members.alive(now.steady_ns).take(CAP) {
                    budget.take_notice();
                    reach(attempt, Push::Lost { base });
                }
            }
            self.end_phase();
            self.hand_on(now, None, budget, reach);
        }
        self.finish(now, budget, reach);
        forced
    }

    /// Ends the lease of one member of the current phase, and notifies it. The other readers of a phase stay.
    pub fn force_release_attempt(
        &mut self,
        now: Now,
        attempt: AttemptId,
        reach: Reach<'_>,
    ) -> Forced {
        let budget = &mut Budget::new(CAP, self.rules);
        let until_ns = self.mode().and(self.members.get(attempt)).map(|member| member.until_ns);
        let held = until_ns.is_some_and(|until_ns| until_ns > now.steady_ns);
        if held {
            let (base, latest_ns) = (self.base(), self.members.latest_ns());
            budget.take_notice();
            reach(attempt, Push::Lost { base });
            self.lose();
            self.members.remove(attempt);
            if !self.is_alive(now) {
                self.end_phase();
                self.hand_on(now, None, budget, reach);
            } else if self.members.latest_ns() < latest_ns {
                // The timer of the first waiter counts on the lease that has ended.
                self.say_next(now, None, budget, reach);
            }
        }
        self.finish(now, budget, reach);
        if held { Forced::Ended } else { Forced::NotHeld }
    }

    pub(super) fn refuse(&mut self, now: Now, attempt: AttemptId) {
        self.tombstones.insert(attempt, after(now, TOMBSTONE));
    }

    /// Returns true if the first waiter of this mode may enter when the current phase ends.
    fn precedes_others(&self, mode: Mode) -> bool {
        mode == Mode::Write || self.phase != Phase::Read
    }

    /// A planted bug: a count of readers cannot tell which reader has left.
    fn remove_for_another(&mut self, release: &ReleaseRequest) {
        let counted = self.rules.breaks(Bug::ReadersAreCounted) && self.phase == Phase::Read;
        if counted && release.base == self.base() && release.base.is_some() {
            if let Some((_, other)) = self.members.earliest() {
                self.members.remove(other);
            }
            if self.members.is_empty() {
                self.end_phase();
            }
        }
    }

    /// Returns how a lease ended whose attempt is no member any more. Another reader of the phase may
    /// be the one that lost its lease.
    fn verdict_on_the_past(&self, base: Option<Token>) -> Verdict {
        let reader = self.lost_mode == Mode::Read && base.map(Token::get) == Some(self.lost);
        let hides = reader && !self.rules.breaks(Bug::AnotherReadersLossIsTold);
        match verdict_on_the_past(base, self.top, self.lost) {
            Verdict::Lost if hides && self.top >= self.lost => Verdict::Unknown,
            verdict => verdict,
        }
    }
}
