//! Asks all nodes, chooses a token, and commits it where the counter is another value.

use core::time::Duration;

use super::{Attempt, Phase, Vote};
use crate::quorum::{AHEAD, Denied, Event, Op, Reply, Tally, Why};
use crate::{Now, Token};

impl Attempt {
    pub(super) fn ask(&mut self, now: Now) {
        self.begin(now);
        // Nodes would refuse a proposal from a clock that was far ahead; they choose a higher value
        // themselves.
        let most = now.unix_us().saturating_add(AHEAD.as_micros() as u64 / 2);
        let seen = if self.seen > most { 0 } else { self.seen };
        // A single node makes up for its lost data with its own clock, so no client may push tokens
        // ahead of it.
        let wall = if self.seats.len() == 1 { 0 } else { now.unix_us() };
        let proposal = seen.max(wall).saturating_add(1).min(Token::MAX.get());
        let Some(proposal) = Token::new(proposal) else { return };
        for node in 0..self.seats.len() {
            let op = Op::Acquire { attempt: self.terms.attempt, ttl: self.ttl, proposal };
            self.send(now, node, op, self.terms.limit);
        }
        self.seats.iter_mut().for_each(|seat| seat.suspect = true);
        self.decide(now);
    }

    pub(super) fn acquire_reply(&mut self, now: Now, node: usize, reply: Reply) {
        let Some(seat) = self.seats.get_mut(node) else { return };
        seat.settle(reply);
        if matches!(reply, Reply::Refused(_)) && !seat.owns() {
            seat.suspect = false;
        }
        if let Reply::Granted(value) = reply {
            seat.owns_from(0);
            if let Phase::Committing(token) = self.phase {
                self.commit(now, node, value, token);
            }
        }
        self.decide(now);
    }

    /// Counts the votes, and continues if they allow it.
    fn decide(&mut self, now: Now) {
        if self.phase == Phase::Asking {
            let mut values: Vec<Token> = self.granted().collect();
            let open = self.count(|seat| seat.waits.is_some());
            if values.len() + open < self.majority() {
                let busy = self.count(|seat| matches!(seat.vote, Vote::Busy(_)));
                let in_time =
                    self.count(|seat| seat.waits.is_some_and(|wait| !wait.due.has_passed(now)));
                let reachable = values.len() + busy + in_time;
                let why = if reachable < self.majority() { Why::Unavailable } else { Why::Busy };
                return self.deny(now, why);
            }
            values.sort_unstable();
            let Some(token) = values.get(self.majority() - 1).copied() else { return };
            self.phase = Phase::Committing(token);
            for node in 0..self.seats.len() {
                if let Some(Vote::Granted(value)) = self.seats.get(node).map(|seat| seat.vote) {
                    self.commit(now, node, value, token);
                }
            }
        }
        let Phase::Committing(token) = self.phase else { return };
        let settled = |vote| vote == Vote::Committed || vote == Vote::Granted(token);
        let at_token = self.count(|seat| seat.waits.is_none() && settled(seat.vote));
        let open = self.count(|seat| seat.waits.is_some());
        if at_token >= self.majority() {
            self.hold(now, token);
        } else if at_token + open < self.majority() {
            self.deny(now, Why::Contended);
        }
    }

    /// Iterates over the granted values.
    fn granted(&self) -> impl Iterator<Item = Token> {
        self.seats.iter().filter_map(|seat| match seat.vote {
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
        let until = self.full_term();
        if until.has_passed(now) {
            return self.deny(now, Why::TooLate);
        }
        let at_once = self.count(|seat| seat.vote == Vote::Committed) == 0;
        self.deadline = Some(until);
        self.phase = Phase::Held { token, renewing: false };
        self.events.push_back(Event::Held { token, until, at_once });
    }

    fn deny(&mut self, now: Now, why: Why) {
        let tally = self.tally();
        let denied = Denied { why, tally, seen: self.seen, free_in: self.free_in(tally) };
        self.events.push_back(Event::Denied(denied));
        self.phase = Phase::Ending { told: true };
        self.release_all(now, true);
    }

    fn tally(&self) -> Tally {
        let granted = self.count(|seat| seat.owns());
        let busy = self.count(|seat| matches!(seat.vote, Vote::Busy(_)));
        let refused = self.count(|seat| matches!(seat.vote, Vote::Refused(_) | Vote::Gone));
        let unknown = self.terms.nodes.saturating_sub(granted + busy + refused);
        Tally { granted, busy, refused, unknown }
    }

    /// Returns when the leases of other attempts have ended on so many nodes that a majority is
    /// free.
    fn free_in(&self, tally: Tally) -> Option<Duration> {
        let missing = self.majority().saturating_sub(tally.granted);
        let mut times: Vec<Duration> = self
            .seats
            .iter()
            .filter_map(|seat| if let Vote::Busy(time) = seat.vote { Some(time) } else { None })
            .collect();
        times.sort_unstable();
        times.get(missing.checked_sub(1)?).copied()
    }
}
