//! The server: the real record, with the planted bugs around it.

use std::time::Duration;

use leasehold_proto::handoff::{
    self, AcquireRequest, Answer, Parts, Push, ReleaseRequest, Renewed, State as Taken, Verdict,
};
use leasehold_proto::{AttemptId, Now, Token};

use super::attempt_id::client_of;
use super::{Bug, Setup, TICK};

/// The record, of which one step removes one dead waiter.
pub type Record = handoff::Record<(), 1>;

/// One server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Server {
    /// The lock.
    pub record: Record,
    /// For [`Bug::RefusedByTheRecordAlone`].
    last_ended: Option<AttemptId>,
}

/// How it reaches the clients.
pub(super) type Reach<'a> = &'a mut dyn FnMut(AttemptId, Push) -> bool;

/// The server's time if tokens do not matter. The wall clock does not advance.
pub(super) fn at(ticks: u8) -> Now {
    Now { steady_ns: (TICK * u32::from(ticks)).as_nanos() as u64, wall_ns: 0 }
}

impl Server {
    /// The owner of a lease that has not ended, and that lease's first token.
    pub(super) fn holder(&self, now: Now) -> Option<(AttemptId, u64)> {
        let held = self.record.state(now) != Taken::Free;
        let (attempt, ()) = self.record.owner().filter(|_| held)?;
        Some((attempt, self.record.base().map_or(0, Token::get)))
    }

    pub(super) fn acquire(
        &mut self,
        setup: &Setup,
        now: Now,
        attempt: AttemptId,
        reach: Reach<'_>,
    ) -> Answer {
        if setup.bug == Some(Bug::RefusedByTheRecordAlone) && self.last_ended == Some(attempt) {
            return Answer::Ended;
        }
        if setup.bug == Some(Bug::RestIsNeverRemoved) && self.record.needs_another_step() {
            let remaining = TICK;
            return Answer::Queued { place: 0, base: self.record.base(), remaining };
        }
        let blank = self.record.top().is_none();
        // A push without content has reached its client, as far as the record knows.
        let mut handed = setup.bug != Some(Bug::DirectGrantTellsNobody);
        let known = self.record.waiters().any(|waiter| waiter.attempt == attempt);
        let mute = known && setup.bug == Some(Bug::CachedLeaseIsRenewedBlindly);
        let mut reach = |to, push| match push {
            Push::Next { .. } if !handed => true,
            Push::Wanted { .. } if mute => true,
            _ => {
                handed |= matches!(push, Push::Granted { .. });
                reach(to, push)
            }
        };
        let answer = self.record.acquire(now, &request(setup, attempt), &mut reach);
        if blank && setup.bug == Some(Bug::BlankRecordKnowsTheEnds) {
            self.record = Parts { lost: 0, ..self.record.clone().into() }.into();
        }
        answer
    }

    /// Returns whether others wait; `None` if the lease does not go on.
    pub(super) fn renew(
        &mut self,
        setup: &Setup,
        now: Now,
        attempt: AttemptId,
        base: u64,
    ) -> Option<bool> {
        let base = Token::new(base)?;
        let renewed = self.record.renew(now, attempt, base, ttl(setup, attempt));
        if renewed == Renewed::Lost
            && setup.bug == Some(Bug::RenewalRevives)
            && self.holder(now).is_none()
        {
            let revived = self.record.acquire(now, &request(setup, attempt), &mut |_, _| true);
            return matches!(revived, Answer::Granted { .. }).then_some(false);
        }
        let blind = !setup.caches || setup.bug == Some(Bug::CachedLeaseIsRenewedBlindly);
        match renewed {
            Renewed::Renewed { waiters, .. } => Some(waiters > 0 && !blind),
            Renewed::Lost => None,
        }
    }

    pub(super) fn release(
        &mut self,
        setup: &Setup,
        now: Now,
        mut release: ReleaseRequest,
        reach: Reach<'_>,
    ) -> Verdict {
        let owner = self.record.owner().map(|(attempt, ())| attempt);
        let holds = self.holder(now).is_some_and(|(holder, _)| holder == release.attempt);
        let same = release.base.is_none_or(|base| self.record.base() == Some(base));
        match setup.bug {
            Some(Bug::GivingUpFreesOffersOnly)
                if release.base.is_none() && holds && self.record.is_confirmed() =>
            {
                return Verdict::Gone;
            }
            Some(Bug::ReleaseComparesTheBase) if holds && !same => return Verdict::Lost,
            Some(Bug::ReleaseAskedAgainIsLost) if !holds && release.base.is_some() => {
                self.record.release(now, &release, reach);
                return Verdict::Lost;
            }
            Some(Bug::RestIsNeverRemoved) if self.record.needs_another_step() => {
                return Verdict::Gone;
            }
            Some(Bug::TombstoneIgnored) => release.suspect = false,
            Some(Bug::RefusedByTheRecordAlone) => {
                release.suspect = false;
                if owner == Some(release.attempt) || !holds && self.holder(now).is_none() {
                    self.last_ended = Some(release.attempt);
                }
            }
            Some(Bug::ReleaseIgnoresTheAttempt) => {
                release.attempt = owner.unwrap_or(release.attempt);
                release.base = None;
            }
            Some(Bug::TokensGivenBackWheneverOwner) if holds && !same => {
                return self.give_back_too_much(now, release, reach);
            }
            Some(Bug::LeavingTellsNobody) if owner != Some(release.attempt) => {
                let mut mute = |to, push| matches!(push, Push::Next { .. }) || reach(to, push);
                return self.record.release(now, &release, &mut mute);
            }
            _ => {}
        }
        self.record.release(now, &release, reach)
    }

    /// Ends the lease as if the block were the one that `end` speaks of.
    fn give_back_too_much(
        &mut self,
        now: Now,
        release: ReleaseRequest,
        reach: Reach<'_>,
    ) -> Verdict {
        let base = self.record.base();
        self.record.release(now, &ReleaseRequest { base, ..release }, reach);
        Verdict::Lost
    }

    pub(super) fn rotate(
        &mut self,
        setup: &Setup,
        now: Now,
        release: ReleaseRequest,
        next: AttemptId,
        reach: Reach<'_>,
    ) -> (Verdict, Answer) {
        if matches!(setup.bug, None | Some(Bug::CapTellsNobody)) {
            return self.record.rotate(now, &release, &request(setup, next), reach);
        }
        // The other bugs are planted in the two halves.
        let verdict = self.release(setup, now, release, reach);
        (verdict, self.acquire(setup, now, next, reach))
    }
}

/// The answer as clients hear it. Only those that keep leases care whether others wait.
pub(super) fn told(setup: &Setup, answer: Answer) -> Answer {
    let hides = !setup.caches || setup.bug == Some(Bug::GrantHidesWaiters);
    match answer {
        Answer::Granted { tokens, .. } if hides => Answer::Granted { tokens, waiters: 0 },
        answer => answer,
    }
}

fn request(setup: &Setup, attempt: AttemptId) -> AcquireRequest {
    AcquireRequest {
        attempt,
        ttl: ttl(setup, attempt),
        wait: true,
        fair: true,
        tokens: setup.block,
        tag: (),
    }
}

fn ttl(setup: &Setup, attempt: AttemptId) -> Duration {
    TICK * u32::from(setup.ttl(client_of(attempt)))
}
