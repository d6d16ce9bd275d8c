//! "No waiter is lost" as a question about one state: what if nothing goes wrong from here on?

use super::client::now;
use super::{Action, Client, Phase, Setup, State, TTL};

impl State {
    /// Returns true if every waiter acquires the lock, and everything that must end does, when from
    /// now on every message arrives, every timer fires and every holder releases at once. A client
    /// that must take another attempt does so. A lease that a client keeps stays as long as it can.
    pub(super) fn settles(&self, setup: &Setup) -> bool {
        let wants = |client: &Client| client.up && matches!(client.phase, Phase::Waiting(_));
        let mut wants: Vec<bool> = self.clients.iter().map(wants).collect();
        if self.is_quiet() {
            return true;
        }
        let mut state = self.clone();
        // One ttl for a crashed holder, one for the turn of each client, one to spare.
        for _ in 0..TTL * (setup.clients + 2) {
            while state.step(setup, &wants) {
                for (client, wants) in state.clients.iter().zip(&mut wants) {
                    *wants &= !matches!(client.phase, Phase::Holding(_));
                }
            }
            if state.is_quiet() {
                return !wants.contains(&true);
            }
            state.apply(setup, &Action::Tick);
        }
        false
    }

    fn is_quiet(&self) -> bool {
        let quiet = |client: &Client| {
            let rests = match &client.phase {
                Phase::Idle => true,
                Phase::Holding(holding) => holding.cached,
                Phase::Waiting(_) => false,
            };
            !client.up || rests && client.endings.is_empty()
        };
        self.network.is_empty() && self.clients.iter().all(quiet)
    }

    /// Lets one thing happen that needs no time; false when there is none.
    fn step(&mut self, setup: &Setup, wants: &[bool]) -> bool {
        if let Some(message) = self.network.pop_first() {
            self.deliver(setup, message);
            self.sweep();
            return true;
        }
        for id in 0..setup.clients {
            let client = &self.clients[usize::from(id)];
            if !client.up {
                continue;
            }
            let action = match &client.phase {
                _ if !client.subscribed => Action::Resubscribe(id),
                Phase::Holding(holding) if holding.released => Action::TakeOver(id),
                Phase::Holding(holding) if holding.renews_unused(setup, id, self.clock) => {
                    Action::Renew(id)
                }
                Phase::Holding(holding) if holding.cached => {
                    let used_up = client.takes(setup, now(self.clock)).is_none();
                    match self.unanswered(id) {
                        _ if used_up && !client.is_ending(holding.attempt) => Action::GiveBack(id),
                        Some(false) => Action::Again(id),
                        _ => continue,
                    }
                }
                Phase::Holding(_) => Action::Release(id),
                Phase::Idle if wants[usize::from(id)] => Action::Start(id),
                Phase::Waiting(waiting) if waiting.pending().is_due(now(self.clock)) => {
                    Action::Timer(id)
                }
                _ if self.unanswered(id) == Some(false) => Action::Again(id),
                _ => continue,
            };
            self.apply(setup, &action);
            return true;
        }
        false
    }
}
