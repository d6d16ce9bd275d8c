//! Tokens are unique and in real-time order: an attempt that begins after another held has the larger
//! token, whatever clocks do. Source: fencing (Kleppmann 2016).

use std::collections::BTreeMap;

use leasehold_proto::{AttemptId, Token};

use crate::simulator::Plan;

#[derive(Debug)]
pub(super) struct Tokens {
    held: BTreeMap<u64, AttemptId>,
    /// The highest that was held when each client's attempt began.
    floors: Vec<u64>,
    pub(super) wrong: u64,
    counted: bool,
}

impl Tokens {
    pub(super) fn new(plan: &Plan, clients: usize) -> Self {
        let counted = plan.setup.tokens();
        Self { held: BTreeMap::new(), floors: vec![0; clients], wrong: 0, counted }
    }

    pub(super) fn asks(&mut self, client: usize) {
        let highest = self.highest();
        if let Some(floor) = self.floors.get_mut(client) {
            *floor = highest;
        }
    }

    pub(super) fn highest(&self) -> u64 {
        self.held.last_key_value().map_or(0, |(token, _)| *token)
    }

    pub(super) fn held(&mut self, client: usize, attempt: AttemptId, token: Token) {
        if !self.counted {
            return;
        }
        let floor = self.floors.get(client).copied().unwrap_or(0);
        let other = self.held.insert(token.get(), attempt).is_some_and(|other| other != attempt);
        self.wrong += u64::from(other || token.get() <= floor);
    }

    pub(super) fn is_broken(&self, plan: &Plan) -> bool {
        self.wrong > 0 && plan.ordered
    }
}
