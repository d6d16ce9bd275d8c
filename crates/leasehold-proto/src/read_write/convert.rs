//! Converts a lease of one mode into a lease of the other mode, in one step.

use super::messages::{Converted, Mode, Phase};
use super::phase::Budget;
use super::{Answer, Bug, Record, Rules};
use crate::handoff::{AcquireRequest, Reach, ReleaseRequest};
use crate::{AttemptId, Now};

impl<T: Clone, const CAP: usize, R: Rules> Record<T, CAP, R> {
    /// Ends the lease of a writer and starts a read phase with `next`, in one step, so that no
    /// other writer acquires in between. The queued readers enter with it. The phase has a new
    /// token.
    ///
    /// `end` names the writer's attempt, its base, and the last token that it used. It is suspect if
    /// a request of it was never answered. `next` is a new attempt. If the answer is
    /// [`Converted::Lost`], end both attempts: the record has queued nothing.
    pub fn downgrade(
        &mut self,
        now: Now,
        end: &ReleaseRequest,
        next: &AcquireRequest<T>,
        reach: Reach<'_>,
    ) -> Converted {
        let budget = &mut Budget::new(CAP, self.rules);
        let converted = self.downgrade_within(now, end, next, budget, reach);
        self.finish(now, budget, reach);
        converted
    }

    fn downgrade_within(
        &mut self,
        now: Now,
        end: &ReleaseRequest,
        next: &AcquireRequest<T>,
        budget: &mut Budget,
        reach: Reach<'_>,
    ) -> Converted {
        if self.is_refused(now, next.attempt) {
            return Converted::Lost;
        }
        if self.holds(now, Phase::Read, next.attempt) {
            self.extend(now, next.attempt, next.ttl);
            return self.converted(Mode::Read);
        }
        let owner = self.holds(now, Phase::Write, end.attempt) && end.base == self.base();
        let tokens = self.next_tokens(now, Mode::Read, 1);
        if owner && tokens.is_none() {
            return Converted::UsedUp;
        }
        if end.suspect {
            self.refuse(now, end.attempt);
        }
        if self.rules.breaks(Bug::DowngradeQueuesAgain) {
            self.release_within(now, end, budget, reach);
            return match self.acquire_within(now, Mode::Read, next, budget, reach) {
                Answer::Granted { tokens, waiters } => Converted::Granted { tokens, waiters },
                _ => Converted::Lost,
            };
        }
        if !owner {
            return Converted::Lost;
        }
        if let Some(last) = end.last {
            self.top = self.base.max(last.get());
        }
        let kept = self.tokens().filter(|_| self.rules.breaks(Bug::DowngradeKeepsToken));
        let Some(tokens) = kept.or_else(|| self.next_tokens(now, Mode::Read, 1)) else {
            return Converted::UsedUp;
        };
        self.begin(Mode::Read, tokens);
        self.join_caller(now, next);
        self.admit(now, None, budget, reach);
        self.say_next(now, None, budget, reach);
        self.converted(Mode::Read)
    }

    /// Converts the only reader to a writer, in one step, if no other attempt reads or waits. It
    /// never waits, because two readers that upgrade would wait for each other forever. The writer
    /// has new tokens.
    ///
    /// `end` names the reader's attempt and its token. It is suspect if a request of it was never
    /// answered. `next` is a new attempt. `again`: this upgrade was sent before, without an answer.
    /// If it is refused then, the refusal is permanent: an earlier copy of the request that arrives
    /// later is refused too.
    pub fn upgrade(
        &mut self,
        now: Now,
        end: &ReleaseRequest,
        next: &AcquireRequest<T>,
        again: bool,
        reach: Reach<'_>,
    ) -> Converted {
        let converted = self.upgrade_within(now, end, next, again);
        self.finish(now, &mut Budget::new(CAP, self.rules), reach);
        converted
    }

    fn upgrade_within(
        &mut self,
        now: Now,
        end: &ReleaseRequest,
        next: &AcquireRequest<T>,
        again: bool,
    ) -> Converted {
        let refused = Converted::Refused { waiters: self.waiters_for(Mode::Read) };
        if self.is_refused(now, next.attempt) {
            return refused;
        }
        if self.holds(now, Phase::Write, next.attempt) {
            self.extend(now, next.attempt, next.ttl);
            return self.converted(Mode::Write);
        }
        let reads = self.holds(now, Phase::Read, end.attempt) && end.base == self.base();
        let first = self.queues.is_empty() || self.rules.breaks(Bug::UpgradePassesQueue);
        if !(reads && first && self.reads_alone(now, end.attempt)) {
            if again && !self.rules.breaks(Bug::RefusedUpgradeIsNotSealed) {
                self.refuse(now, next.attempt);
            }
            return if reads { refused } else { Converted::Lost };
        }
        let kept = self.tokens().filter(|_| self.rules.breaks(Bug::UpgradeKeepsToken));
        let Some(tokens) = kept.or_else(|| self.next_tokens(now, Mode::Write, next.tokens)) else {
            return Converted::UsedUp;
        };
        if end.suspect {
            self.refuse(now, end.attempt);
        }
        if self.members.len() > 1 && !self.rules.breaks(Bug::UpgradeForgetsLostReaders) {
            self.lose();
        }
        self.begin(Mode::Write, tokens);
        self.join_caller(now, next);
        self.converted(Mode::Write)
    }

    /// Returns true if the attempt has a lease in this phase that has not expired.
    fn holds(&self, now: Now, phase: Phase, attempt: AttemptId) -> bool {
        let alive = |member: &super::Member<T>| member.until_ns > now.steady_ns;
        self.phase == phase && self.members.get(attempt).is_some_and(alive)
    }

    /// Returns true if no other member has a lease that has not expired. An offer counts.
    fn reads_alone(&self, now: Now, attempt: AttemptId) -> bool {
        let confirmed = |other: AttemptId| self.members.get(other).is_some_and(|one| one.confirmed);
        let ignores = self.rules.breaks(Bug::UpgradeIgnoresOffers);
        let mut others = self.members.alive(now.steady_ns).filter(|other| *other != attempt);
        !others.any(|other| !ignores || confirmed(other))
    }

    fn converted(&self, mode: Mode) -> Converted {
        let hides = mode == Mode::Read && self.rules.breaks(Bug::DowngradeHidesWaiters);
        let waiters = if hides { 0 } else { self.waiters_for(mode) };
        self.tokens().map_or(Converted::UsedUp, |tokens| Converted::Granted { tokens, waiters })
    }
}
