//! Evidence of a majority: a client that acquires or keeps the lock has the lease on a majority of
//! the configured nodes, except those that lost it a ttl ago or less. Source: Redlock; a renewal
//! counts only for a lease that no other client has held since.

use leasehold_proto::Token;
use leasehold_proto::quorum::majority;

use crate::simulator::Plan;

#[derive(Debug)]
pub(super) struct Evidence {
    needed: usize,
    ttl: u64,
    forgot: Vec<u64>,
    /// A later token is a larger one.
    ordered: bool,
    pub(super) missing: u64,
}

impl Evidence {
    pub(super) fn new(plan: &Plan) -> Self {
        let ttl = plan.ttl.as_nanos() as u64;
        let ordered = plan.ordered || !plan.setup.tokens();
        let needed = majority(plan.setup.nodes());
        Self { needed, ttl, forgot: Vec::new(), ordered, missing: 0 }
    }

    pub(super) fn forgets(&mut self, time: u64) {
        self.forgot.push(time);
    }

    pub(super) fn counts(&mut self, time: u64, leases: usize) {
        let lately = self.forgot.iter().filter(|then| **then + self.ttl >= time).count();
        self.missing += u64::from(leases + lately < self.needed);
    }

    /// A renewal came through although a later token was held.
    pub(super) fn overtaken(&mut self, token: Token, highest: u64) {
        self.missing += u64::from(self.ordered && token.get() < highest);
    }

    pub(super) fn is_broken(&self, plan: &Plan) -> bool {
        self.missing > 0 && plan.exclusive
    }
}
