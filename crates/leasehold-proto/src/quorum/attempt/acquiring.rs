//! Asks all nodes, chooses a token, and commits it where the counter is another value.

use core::time::Duration;

use super::{Attempt, AttemptPhase, Vote};
use crate::quorum::{AHEAD, Denied, Event, NodeReply, Op, Rules, Tally, Why};
use crate::{Now, Token};

impl<R: Rules> Attempt<R> {
    pub(super) fn ask(&mut self, now: Now) {
        self.begin(now);
        // Nodes would refuse a proposal from a clock that was far ahead; they choose a higher value
        // themselves.
        let most = now.unix_us().saturating_add(AHEAD.as_micros() as u64 / 2);
        let seen = if self.seen > most { 0 } else { self.seen };
        // A single node makes up for its lost data with its own clock, so no client may push tokens
        // ahead of it.
        let wall = if self.node_states.len() == 1 { 0 } else { now.unix_us() };
        let proposal = seen.max(wall).saturating_add(1).min(Token::MAX.get());
        let Some(proposal) = Token::new(proposal) else { return };
        for node in 0..self.node_states.len() {
            let op = Op::Acquire { attempt: self.terms.attempt, ttl: self.ttl, proposal };
            self.send(now, node, op, self.terms.limit);
        }
        self.node_states.iter_mut().for_each(|node_state| node_state.suspect = true);
        self.decide(now);
    }

    pub(super) fn acquire_reply(&mut self, now: Now, node: usize, reply: NodeReply) {
        let Some(node_state) = self.node_states.get_mut(node) else { return };
        node_state.settle(reply);
        if matches!(reply, NodeReply::Refused(_)) && !node_state.owns() {
            node_state.suspect = false;
        }
        if let NodeReply::Granted(value) = reply {
            node_state.owns_from(0);
            if let AttemptPhase::Committing(token) = self.phase {
                self.commit(now, node, value, token);
            }
        }
        self.decide(now);
    }

    /// Counts the votes, and continues if they allow it.
    fn decide(&mut self, now: Now) {
        if self.phase == AttemptPhase::Asking {
            let mut values: Vec<Token> = self.granted().collect();
            let open = self.count(|node_state| node_state.waits.is_some());
            if values.len() + open < self.majority() {
                let busy = self.count(|node_state| matches!(node_state.vote, Vote::Busy(_)));
                let in_time = self.count(|node_state| {
                    node_state.waits.is_some_and(|wait| !wait.due.has_passed(now))
                });
                let reachable = values.len() + busy + in_time;
                let why = if reachable < self.majority() { Why::Unavailable } else { Why::Busy };
                return self.deny(now, why);
            }
            values.sort_unstable();
            let Some(token) = values.get(self.majority() - 1).copied() else { return };
            self.phase = AttemptPhase::Committing(token);
            for node in 0..self.node_states.len() {
                if let Some(Vote::Granted(value)) =
                    self.node_states.get(node).map(|node_state| node_state.vote)
                {
                    self.commit(now, node, value, token);
                }
            }
        }
        let AttemptPhase::Committing(token) = self.phase else { return };
        let settled = |vote| vote == Vote::Committed || vote == Vote::Granted(token);
        let at_token =
            self.count(|node_state| node_state.waits.is_none() && settled(node_state.vote));
        let open = self.count(|node_state| node_state.waits.is_some());
        if at_token >= self.majority() {
            self.hold(now, token);
        } else if at_token + open < self.majority() {
            self.deny(now, Why::Contended);
        }
    }

    /// Iterates over the granted values.
    fn granted(&self) -> impl Iterator<Item = Token> {
        self.node_states.iter().filter_map(|node_state| match node_state.vote {
            Vote::Granted(value) => Some(value),
            _ => None,
        })
    }

    /// Asks a node to raise its counter if it is below the token. A node that granted a higher
    /// value counts for the lock, never for the token.
    fn commit(&mut self, now: Now, node: usize, from: Token, token: Token) {
        if from < token {
            let op = Op::Commit { attempt: self.terms.attempt, from, token };
            self.send(now, node, op, self.terms.limit);
        }
    }

    /// Holds the lock, if the clock, which is read last, allows it.
    fn hold(&mut self, now: Now, token: Token) {
        let until = self.full_term(now);
        if until.has_passed(now) {
            return self.deny(now, Why::TooLate);
        }
        let at_once = self.count(|node_state| node_state.vote == Vote::Committed) == 0;
        self.deadline = Some(until);
        self.phase = AttemptPhase::Held { token, renewing: false };
        self.events.push_back(Event::Held { token, until, at_once });
    }

    fn deny(&mut self, now: Now, why: Why) {
        let tally = self.tally();
        let denied = Denied { why, tally, seen: self.seen, free_in: self.free_in(tally) };
        self.events.push_back(Event::Denied(denied));
        self.phase = AttemptPhase::Releasing { told: true };
        self.release_all(now, true);
    }

    fn tally(&self) -> Tally {
        let granted = self.count(|node_state| node_state.owns());
        let busy = self.count(|node_state| matches!(node_state.vote, Vote::Busy(_)));
        let refused =
            self.count(|node_state| matches!(node_state.vote, Vote::Refused(_) | Vote::Gone));
        let unknown = self.terms.nodes.saturating_sub(granted + busy + refused);
        Tally { granted, busy, refused, unknown }
    }

    /// Returns when the leases of other attempts have ended on so many nodes that a majority is
    /// free.
    fn free_in(&self, tally: Tally) -> Option<Duration> {
        let missing = self.majority().saturating_sub(tally.granted);
        let mut times: Vec<Duration> = self
            .node_states
            .iter()
            .filter_map(
                |node_state| if let Vote::Busy(time) = node_state.vote { Some(time) } else { None },
            )
            .collect();
        times.sort_unstable();
        times.get(missing.checked_sub(1)?).copied()
    }
}
