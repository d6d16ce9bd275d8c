//! The read leases that a client keeps after their last reader, for its next task.

use std::time::Duration;

use leasehold_proto::client::{SharedRead, decide_cache, take_cached};
use leasehold_proto::{AttemptId, Now};

use super::client::World;
use super::{CacheBug, Client, Holding, Phase, Primitive, Setup, Use, Want};

impl Client {
    /// No task of it asks or holds.
    pub(super) fn is_idle(&self) -> bool {
        self.phases.iter().all(Phase::is_cached)
    }

    /// It has sent the end of this attempt, and waits for the answer.
    pub(super) fn is_ending(&self, attempt: AttemptId) -> bool {
        self.endings.iter().any(|ending| ending.release.attempt == attempt)
    }

    /// It would keep the lease if its reader, the last one, released it now.
    pub(super) fn would_cache<P: Primitive>(&self, setup: &Setup<P>, at: usize, now: Now) -> bool {
        let Phase::Holding(Holding { task: Use::Hold(_), shared, lease, tokens, .. }) =
            &self.phases[at]
        else {
            return false;
        };
        let Some(shared) = shared.as_ref().filter(|shared| shared.readers() == 1) else {
            return false;
        };
        let wanted = shared.is_wanted(self.has_waiting_writer());
        let rules = setup.client_bug;
        setup.caches && decide_cache(lease, tokens, Duration::MAX, wanted, now, rules).is_some()
    }

    /// The last reader has released the lease, and the client keeps it. It keeps one at most.
    pub(super) fn cache(&mut self, world: &mut World<'_>, at: usize) {
        if let Phase::Holding(holding) = &mut self.phases[at] {
            if let Some(shared) = &mut holding.shared {
                shared.leave();
            }
            holding.cached = true;
        }
        let earlier = |(other, phase): (usize, &Phase)| other != at && phase.is_cached();
        if let Some(earlier) = self.phases.iter().enumerate().position(earlier) {
            self.give_back(world, earlier);
        }
    }

    /// A task takes the lease that the client keeps. One that it cannot use is given back.
    pub(super) fn take_cached(&mut self, world: &mut World<'_>, task: Use) -> bool {
        let Some(found) = self.phases.iter().position(Phase::is_cached) else { return false };
        let Phase::Holding(holding) = &mut self.phases[found] else { return false };
        let reads = task.want() == Want::Read;
        let (lease, tokens) = (&holding.lease, &holding.tokens);
        let taken = take_cached(lease, tokens, world.terms(), world.now(), world.rules);
        let Some((lease, tokens)) = taken.filter(|_| reads) else {
            if reads || world.cache_bug != Some(CacheBug::KeptFromOwnWriter) {
                self.give_back(world, found);
            }
            return false;
        };
        let Holding { attempt, suspect, .. } = *holding;
        let shared = SharedRead::new(attempt, tokens.token(), false, suspect, world.rules);
        holding.shared = Some(shared);
        (holding.lease, holding.tokens, holding.task, holding.cached) =
            (lease, tokens, task, false);
        world.uses(holding);
        world.history.taken = true;
        true
    }

    /// Ends a lease that the client keeps.
    pub(super) fn give_back(&mut self, world: &mut World<'_>, at: usize) {
        let kept = self.phases[at].clone();
        self.end_holding(world, at);
        if world.cache_bug == Some(CacheBug::TakenAfterItsEnd) {
            self.phases.insert(at, kept);
        }
    }

    /// A holder learns that others wait. A lease that no task holds is given back.
    pub(super) fn hear_wanted(&mut self, world: &mut World<'_>, found: usize) {
        let Phase::Holding(holding) = &mut self.phases[found] else { return };
        holding.handle_wanted();
        if holding.cached && world.cache_bug != Some(CacheBug::KeptThoughWanted) {
            self.give_back(world, found);
        }
    }

    /// Messages may have been missed: nothing stays cached, and nothing that is held now will be.
    pub(super) fn handle_missed(&mut self, world: &mut World<'_>) {
        while let Some(cached) = self.phases.iter().position(Phase::is_cached) {
            self.end_holding(world, cached);
        }
        if !world.caches {
            return;
        }
        for phase in &mut self.phases {
            if let Phase::Holding(Holding { shared: Some(shared), .. }) = phase {
                shared.handle_missed();
            }
        }
    }
}

impl Phase {
    fn is_cached(&self) -> bool {
        matches!(self, Self::Holding(holding) if holding.cached)
    }
}
