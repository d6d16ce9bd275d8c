//! Renews a held lease, and restores it on nodes that lost it.

use core::time::Duration;

use super::{Attempt, AttemptPhase, Vote};
use crate::quorum::{Event, NodeReply, Op, Rules};
use crate::{Deadline, Now};

impl<R: Rules> Attempt<R> {
    /// Asks all nodes to extend the lease to `ttl` from now. Replies to an earlier renewal do not
    /// count any more.
    pub fn renew(&mut self, now: Now, ttl: Duration) {
        let AttemptPhase::Held { token, .. } = self.phase else { return };
        if self.is_over(now) {
            return self.lose();
        }
        self.begin(now);
        self.ttl = ttl;
        self.over = self.over.max(Deadline::after(now, ttl));
        self.phase = AttemptPhase::Held { token, renewing: true };
        for node in 0..self.node_states.len() {
            let Some(node_state) = self.node_states.get_mut(node) else { continue };
            node_state.vote = Vote::Silent;
            node_state.suspect = true;
            let heal = !node_state.owns();
            let op = Op::Renew { attempt: self.terms.attempt, ttl, token, heal };
            self.send(now, node, op, self.terms.limit);
        }
    }

    pub(super) fn renew_reply(&mut self, now: Now, node: usize, round: u32, reply: NodeReply) {
        let Some(node_state) = self.node_states.get_mut(node) else { return };
        node_state.settle(reply);
        // `Granted`: to the acquire, from a node that was not needed for the majority.
        if let NodeReply::Granted(_) | NodeReply::Healed | NodeReply::Renewed = reply {
            node_state.owns_from(round);
        }
        if self.evidence() < self.majority() {
            return self.lose();
        }
        let AttemptPhase::Held { token, renewing: true } = self.phase else { return };
        let counts = self.count(|node_state| {
            node_state.vote == Vote::Renewed && node_state.owns_before(self.first)
        });
        let open = self.count(|node_state| node_state.waits.is_some());
        if counts >= self.majority() {
            if self.is_over(now) {
                return self.lose();
            }
            let until = self.full_term(now);
            self.deadline = Some(until);
            self.phase = AttemptPhase::Held { token, renewing: false };
            self.events.push_back(Event::Renewed { until });
        } else if counts + open < self.majority() {
            self.phase = AttemptPhase::Held { token, renewing: false };
            self.events.push_back(Event::NotRenewed);
        }
    }

    /// Records the loss. A lost lease is never restored.
    fn lose(&mut self) {
        self.phase = AttemptPhase::Lost;
        self.deadline = None;
        self.events.push_back(Event::Lost);
    }

    fn is_over(&self, now: Now) -> bool {
        self.deadline.is_none_or(|deadline| deadline.has_passed(now))
    }
}
