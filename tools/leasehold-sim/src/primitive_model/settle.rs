//! "No waiter waits for long" as a question about one state: what if nothing goes wrong from here on?

use super::client::now;
use super::state::lives;
use super::{Action, CacheBug, Client, Link, Message, Phase, Primitive, Setup, State, Stay};

/// More steps than these without time in between are an endless loop.
const MOST_STEPS: usize = 300;

impl<P: Primitive> State<P> {
    /// Returns after how many ticks all who wait are served and all that must end has ended, when
    /// from now on every message arrives, every timer fires and every task leaves, but those that
    /// stay. Requests whose time limit has passed are lost. `None`: not within the bound.
    pub fn ticks_to_settle(&self, setup: &Setup<P>) -> Option<u8> {
        let mut state = self.clone();
        state.network.retain(|message| !matches!(message, Message::Request { late: true, .. }));
        for ticks in 0..=setup.bound {
            let mut steps = 0;
            while state.step(setup) {
                steps += 1;
                if steps > MOST_STEPS {
                    return None;
                }
            }
            if state.is_quiet() {
                return Some(ticks);
            }
            state.clock += 1;
        }
        let alive = |attempt| lives(&state.clients, attempt);
        let excused = setup.stay == Stay::ForEver
            && P::waits_for_the_living(&state.record, state.now(), &alive);
        excused.then_some(setup.bound)
    }

    fn is_quiet(&self) -> bool {
        let holds = |phase: &Phase| matches!(phase, Phase::Holding(_));
        let quiet = |client: &Client| client.endings.is_empty() && client.phases.iter().all(holds);
        self.network.is_empty() && self.clients.iter().all(quiet)
    }

    /// Lets one thing happen that needs no time; false when there is none.
    fn step(&mut self, setup: &Setup<P>) -> bool {
        if let Some(message) = self.network.pop_first() {
            self.deliver(setup, message);
            self.sweep();
            return true;
        }
        let action = self.clients.iter().find_map(|client| self.next_by_itself(setup, client));
        if let Some(action) = &action {
            self.apply(setup, action);
        }
        action.is_some()
    }

    fn next_by_itself(&self, setup: &Setup<P>, client: &Client) -> Option<Action> {
        let id = client.id;
        if client.up && client.link != Link::Up {
            return Some(Action::Resubscribe(id));
        }
        client.phases.iter().enumerate().find_map(|(at, phase)| match phase {
            Phase::Waiting(waiting) => {
                waiting.pending.is_due(now(self.clock)).then_some(Action::Timer(id, at))
            }
            Phase::Converting(one) => {
                let over = !one.from.lease.is_valid(now(self.clock));
                (over && one.from.shared.is_some()).then_some(Action::Abandon(id, at))
            }
            Phase::Holding(holding) => {
                let renews = holding.renews(setup.ttl(client.role), self.clock);
                if holding.cached {
                    return (renews && setup.cache_bug == Some(CacheBug::RenewedBlindly))
                        .then_some(Action::Renew(id, at));
                }
                let next = match client.would_cache(setup, at, now(self.clock)) {
                    true => Action::Cache(id, at),
                    false => self.next_of(id, at, holding),
                };
                let stays = match setup.stay {
                    Stay::No => false,
                    Stay::UntilWanted => !holding.is_shut(),
                    Stay::ForEver => holding.stays(),
                };
                let stays = stays
                    && matches!(next, Action::Release(..) | Action::Cache(..))
                    && holding.lease.is_valid(now(self.clock));
                if stays { renews.then_some(Action::Renew(id, at)) } else { Some(next) }
            }
        })
    }
}

impl super::Holding {
    /// A reader or the holder of a permit may stay. A writer would keep all others waiting.
    fn stays(&self) -> bool {
        self.want != super::Want::Write
    }
}
