//! What a client does by itself.

use leasehold_proto::client::{AfterRelease, ReleaseResult, Reply};

use super::client::World;
use super::{Call, Client, Link, Phase};

impl Client {
    /// The time limit of a request has passed without an answer.
    pub(super) fn handle_no_answer(
        &mut self,
        world: &mut World<'_>,
        attempt: leasehold_proto::AttemptId,
    ) {
        world.no_answer(self.id, attempt);
        let ends = |ending: &super::SentRelease| ending.release.attempt == attempt;
        if let Some(ending) = self.endings.iter().position(ends) {
            let one = &mut self.endings[ending];
            let after = one.machine.handle_result(ReleaseResult::Unanswered, world.rules);
            let (release, slot) = (one.release, one.slot);
            match after {
                AfterRelease::Repeat => self.send(world, Call::End(release, slot)),
                _ => drop(self.endings.remove(ending)),
            }
            return;
        }
        let Some(found) = self.find(attempt) else { return };
        match &mut self.phases[found] {
            Phase::Waiting(waiting) => {
                waiting.pending.handle_reply(world.now(), Reply::Unanswered(()));
                waiting.pending.set_ask_at(None);
                self.read_mail(world, found);
            }
            Phase::Holding(holding) => holding.renewing = None,
            Phase::Converting(one) => {
                one.conversion.handle_unanswered();
                self.ask_conversion(world, found);
            }
        }
    }

    pub(super) fn renew(&mut self, world: &mut World<'_>, found: usize) {
        if let Phase::Holding(holding) = &mut self.phases[found] {
            holding.renewing = Some(world.clock);
            let call = Call::Renew(holding.attempt, holding.tokens.base());
            self.send(world, call);
        }
    }

    /// A task gives its guard back. Others may still read.
    pub(super) fn release(&mut self, world: &mut World<'_>, found: usize) {
        let Phase::Holding(holding) = &mut self.phases[found] else { return };
        let others = holding.shared.as_mut().is_some_and(|shared| shared.leave().is_none());
        if !others {
            self.end_holding(world, found);
        }
    }

    /// The lease ends, with all its guards.
    pub(super) fn end_holding(&mut self, world: &mut World<'_>, found: usize) {
        if let Phase::Holding(holding) = self.phases.remove(found) {
            let slot = holding.slots.first().copied();
            self.end(world, holding.end(world.rules), slot);
        }
    }

    pub(super) fn crash(&mut self, world: &mut World<'_>, link: Link) {
        for attempt in self.unanswered().collect::<Vec<_>>() {
            world.no_answer(self.id, attempt);
        }
        self.up = false;
        self.link = link;
        self.phases.clear();
        self.endings.clear();
    }

    /// Pushes may have been missed: what waits asks again, and nothing is left to date pushes by.
    pub(super) fn resubscribe(&mut self, world: &mut World<'_>) {
        self.link = Link::Up;
        self.handle_missed(world);
        for found in 0..self.phases.len() {
            if let Phase::Waiting(waiting) = &mut self.phases[found] {
                waiting.reference = None;
                waiting.mail.ask_again = true;
                self.read_mail(world, found);
            }
        }
    }
}
