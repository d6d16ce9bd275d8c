//! What a client does by itself.

use std::time::Duration;

use leasehold_proto::client::{
    self, AfterRelease, HeldTokens, Leave, Next, PendingAttempt, Release, ReleaseResult, Reply,
    Successor, decide_cache, decide_leave, decide_release, take_cached, take_over,
};
use leasehold_proto::handoff::ReleaseRequest;
use leasehold_proto::{Deadline, Lease, Now};

use super::client::{Holding, Rules, SentRelease, Waiting, World, no_pause, now, terms};
use super::{Bug, Call, Client, Phase, Setup};

impl Client {
    /// Begins to acquire.
    pub(super) fn start(&mut self, world: &mut World<'_>) {
        let attempt = self.new_attempt();
        self.phase = Phase::Waiting(Waiting::new(PendingAttempt::new(attempt, world.rules())));
        self.ask(world);
    }

    /// The time limit of a call has passed without an answer: of the oldest ending, of the request,
    /// or of the renewal.
    pub(super) fn again(&mut self, world: &mut World<'_>) {
        if let Some(ending) = self.endings.first_mut() {
            let after = ending.machine.handle_result(ReleaseResult::Unanswered, world.rules());
            if after != AfterRelease::Repeat {
                self.endings.remove(0);
                return;
            }
            if ending.machine.then().is_some() {
                ending.sent = world.clock;
            }
            let call = ending.call();
            return self.send(world, call);
        }
        match &mut self.phase {
            Phase::Waiting(waiting) => {
                let (sent, silent) = (now(waiting.sent), Reply::Unanswered(()));
                let next = waiting.acquire.handle_reply(sent, world.now(), silent, no_pause);
                debug_assert_eq!(next, Next::Wait { answered: false });
                self.read_mail(world);
                self.ask_if_due(world);
            }
            Phase::Holding(holding) => holding.renewing = None,
            Phase::Idle => {}
        }
    }

    pub(super) fn renew(&mut self, world: &mut World<'_>) {
        if let Phase::Holding(holding) = &mut self.phase {
            holding.renewing = Some(world.clock);
            let call = Call::Renew(holding.attempt, holding.tokens.base().get());
            self.send(world, call);
        }
    }

    /// What it does with its lease if another task waits, and a client outside has waited for so
    /// long.
    pub(super) fn decide(&self, setup: &Setup, now: Now, waited: Duration) -> Option<Release> {
        let Phase::Holding(holding) = &self.phase else { return None };
        let rules = setup.bug.and_then(Bug::of_client);
        let next = Successor { terms: terms(setup.ttl(self.id)), fair: true };
        Some(decide_release(&holding.lease, &holding.tokens, false, &next, waited, now, rules))
    }

    /// Another task gets the lease.
    pub(super) fn pass(&mut self, world: &mut World<'_>) {
        let Phase::Holding(holding) = &mut self.phase else { return };
        holding.released = true;
        if !world.setup.tasks {
            self.take_over(world);
        }
    }

    /// The next task takes the lease over. If it was lost meanwhile, the task ends it, and asks.
    pub(super) fn take_over(&mut self, world: &mut World<'_>) {
        let terms = terms(world.setup.ttl(self.id));
        let Phase::Holding(holding) = &mut self.phase else { return };
        let taken = take_over(&holding.lease, &holding.tokens, terms, world.now(), world.rules());
        let Some((lease, tokens)) = taken else {
            self.release(world);
            if self.attempts < world.setup.attempts {
                self.start(world);
            }
            return;
        };
        (holding.lease, holding.tokens, holding.released) = (lease, tokens, false);
        world.history.uses(tokens.token().get(), world.setup.in_order());
    }

    pub(super) fn release(&mut self, world: &mut World<'_>) {
        if let Phase::Holding(holding) = &self.phase {
            let release = holding.end(world.rules());
            self.phase = Phase::Idle;
            self.end(world, release);
        }
    }

    /// The client would keep its lease for the next task.
    pub(super) fn would_cache(&self, setup: &Setup, now: Now) -> bool {
        let Phase::Holding(holding) = &self.phase else { return false };
        let Holding { lease, tokens, wanted, .. } = holding;
        let rules = setup.bug.and_then(Bug::of_client);
        setup.caches && decide_cache(lease, tokens, Duration::MAX, *wanted, now, rules).is_some()
    }

    /// Returns the lease and the token of a task that takes the lease that the client keeps.
    pub(super) fn takes(&self, setup: &Setup, now: Now) -> Option<(Lease, HeldTokens)> {
        let Phase::Holding(holding) = &self.phase else { return None };
        let rules = setup.bug.and_then(Bug::of_client);
        take_cached(&holding.lease, &holding.tokens, terms(setup.ttl(self.id)), now, rules)
    }

    /// Its task has released the lease, and the client keeps it.
    pub(super) fn cache(&mut self) {
        if let Phase::Holding(holding) = &mut self.phase {
            holding.cached = true;
        }
    }

    /// A task takes the lease that the client keeps.
    pub(super) fn take(&mut self, world: &mut World<'_>) {
        let Some((lease, tokens)) = self.takes(world.setup, world.now()) else { return };
        let Phase::Holding(holding) = &mut self.phase else { return };
        (holding.lease, holding.tokens, holding.cached) = (lease, tokens, false);
        world.history.uses(tokens.token().get(), world.setup.in_order());
    }

    /// Ends a lease that no task holds.
    pub(super) fn give_back(&mut self, world: &mut World<'_>) {
        let before = self.phase.clone();
        self.release(world);
        if world.setup.bug == Some(Bug::CachedLeaseIsTakenAfterItsEnd) {
            self.phase = before;
        }
    }

    /// Ends the lease, and asks for another task in the same step.
    pub(super) fn exchange(&mut self, world: &mut World<'_>) {
        let decided = self.decide(world.setup, world.now(), Duration::MAX);
        let Phase::Holding(holding) = &self.phase else { return };
        if decided == Some(Release::Exchange) {
            self.exchange_for_next(world, holding.end(world.rules()));
        }
    }

    /// Ends an attempt, and asks for the next task in the same step.
    fn exchange_for_next(&mut self, world: &mut World<'_>, release: ReleaseRequest) {
        let mut next = self.new_attempt();
        if matches!(
            world.setup.bug,
            Some(Bug::RotateKeepsTheAttempt | Bug::TokensGivenBackWheneverOwner)
        ) {
            next = release.attempt;
        }
        let ending = SentRelease {
            release,
            machine: client::PendingRelease::new(Some(next)),
            sent: world.clock,
        };
        self.send(world, ending.call());
        self.endings.push(ending);
        let ask_at = Deadline::after(world.now(), Duration::MAX);
        let pending = PendingAttempt::in_exchange(next, ask_at, world.rules());
        self.phase = Phase::Waiting(Waiting::new(pending));
    }

    /// The task that waits leaves, and the next one continues its attempt.
    pub(super) fn inherit(&mut self, world: &mut World<'_>) {
        self.attempts += 1;
        let Phase::Waiting(waiting) = &mut self.phase else { return };
        if decide_leave(waiting.pending(), true, true) == Leave::Inherit {
            waiting.inherit();
            self.read_mail(world);
        }
    }

    /// The task that waits leaves, and the next one asks for a lease with other terms.
    pub(super) fn leave(&mut self, world: &mut World<'_>) {
        let Phase::Waiting(waiting) = &self.phase else { return };
        let leave = decide_leave(waiting.pending(), false, world.setup.rotate);
        match waiting.pending().end().filter(|_| leave == Leave::Exchange) {
            Some(release) => self.exchange_for_next(world, release),
            None => {
                self.end_waiting(world);
                self.start(world);
            }
        }
    }

    /// Pushes may have been missed: what waits asks again, and nothing is left to date pushes by.
    pub(super) fn resubscribed(&mut self, world: &mut World<'_>) {
        if let Phase::Waiting(waiting) = &mut self.phase {
            waiting.reference = None;
            waiting.mail.ask_again = true;
            self.read_mail(world);
        }
        self.handle_wanted(world);
    }
}

impl Bug {
    /// The bug as it is planted in the machines of the client.
    pub(super) fn of_client(self) -> Rules {
        Some(match self {
            Self::PushCountsFromReceipt => client::Bug::PushCountsFromReceipt,
            Self::ValidityCountsFromTheAnswer => client::Bug::ValidityCountsFromTheAnswer,
            Self::NeverSuspect => client::Bug::NeverSuspect,
            Self::ExchangeIsNotSuspect => client::Bug::ExchangeIsNotSuspect,
            Self::InheritedIsNotSuspect => client::Bug::InheritedIsNotSuspect,
            Self::PassedTokensGivenBack => client::Bug::PassedTokensGivenBack,
            Self::LostLeaseIsPassedOn => client::Bug::LostLeaseIsPassedOn,
            Self::EarlierPushIsBelieved => client::Bug::EarlierPushIsBelieved,
            Self::WantedBeforeGrantIsForgotten => client::Bug::WantedBeforeGrantIsForgotten,
            Self::WantedLeaseIsCached => client::Bug::WantedLeaseIsCached,
            Self::CachedDeadlineIsIgnored => client::Bug::CachedDeadlineIsIgnored,
            Self::EndIsSentOnce => client::Bug::EndIsSentOnce,
            Self::RefusedExchangeEndsNothing => client::Bug::RefusedExchangeEndsNothing,
            _ => return None,
        })
    }
}
