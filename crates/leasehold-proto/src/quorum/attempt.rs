//! The attempt of one client to acquire a lock from a majority of the nodes, hold it and release
//! it.

mod acquiring;
mod holding;
mod node_state;
mod releasing;

use core::time::Duration;
use std::collections::VecDeque;

use node_state::{NodeState, Vote, Wait};

use super::{AttemptTerms, Bug, Event, NodeReply, Op, Refusal, Request, Rules, majority};
use crate::rules::Sound;
use crate::{AttemptId, Deadline, Now, Token, drift};

/// One attempt to acquire. It ignores calls that do not fit its state.
///
/// The driver sends each request of [`poll_request`](Self::poll_request) to the process that was
/// admitted at that node, and reports the reply with the round of the request. If the node may not
/// vote, the driver replies `Refused(NotAdmitted)`; if it could not send the request,
/// `Refused(Unfit)`. It calls [`handle_timeout`](Self::handle_timeout) at
/// [`poll_timeout`](Self::poll_timeout), and reads [`poll_event`](Self::poll_event) after each
/// call. It drives a machine until [`is_done`](Self::is_done), even if no caller waits for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attempt<R = Sound> {
    rules: R,
    terms: AttemptTerms,
    phase: AttemptPhase,
    node_states: Vec<NodeState>,
    /// The number of the last request. Replies to other requests than the last of a node are late.
    round: u32,
    /// The first round of the current acquire, renewal or release.
    first: u32,
    /// When that round was sent: validity counts from here.
    sent: Now,
    /// The ttl of that round.
    ttl: Duration,
    /// The end of validity, once held.
    deadline: Option<Deadline>,
    /// The largest value seen.
    seen: u64,
    /// When the last requested lease has ended on every node that granted it.
    over: Deadline,
    requests: VecDeque<Request>,
    events: VecDeque<Event>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum AttemptPhase {
    /// Waits for a majority.
    Asking,
    /// A majority has granted the lock; the counters are being raised to the token.
    Committing(Token),
    /// Held; `renewing` while a renewal is undecided.
    Held { token: Token, renewing: bool },
    /// The lease was held; a majority does not have it any more.
    Lost,
    /// Being released; `told` once the event was returned.
    Releasing { told: bool },
}

impl Attempt {
    /// Begins to acquire: asks all nodes at once. The caller read `now` before it sent the first
    /// byte.
    pub fn acquire(now: Now, terms: AttemptTerms) -> Self {
        Self::acquire_by(now, terms, Sound)
    }
}

impl<R: Rules> Attempt<R> {
    /// [`acquire`](Attempt::acquire), with a planted bug.
    #[doc(hidden)]
    pub fn acquire_by(now: Now, terms: AttemptTerms, rules: R) -> Self {
        let mut attempt = Self {
            rules,
            terms,
            phase: AttemptPhase::Asking,
            node_states: vec![NodeState::default(); terms.nodes],
            round: 0,
            first: 0,
            sent: now,
            ttl: terms.ttl,
            deadline: None,
            seen: terms.seen,
            over: Deadline::after(now, terms.ttl),
            requests: VecDeque::new(),
            events: VecDeque::new(),
        };
        attempt.ask(now);
        attempt
    }

    /// Records the reply of a node to the request of this round, or `Unknown` if there will be no
    /// reply.
    pub fn handle_reply(&mut self, now: Now, node: usize, round: u32, reply: NodeReply) {
        let Some(node_state) = self.node_states.get_mut(node) else { return };
        if let NodeReply::Busy { counter, .. } | NodeReply::Granted(counter) = reply {
            self.seen = self.seen.max(counter.get());
        }
        let round = match node_state.waits {
            Some(wait) if self.rules.breaks(Bug::LateRepliesAccepted) => wait.round,
            _ => round,
        };
        let expected = node_state.waits.is_some_and(|wait| wait.round == round);
        if !expected {
            self.late(now, node, reply);
            return;
        }
        match self.phase {
            AttemptPhase::Releasing { .. } => self.release_reply(now, node, reply),
            AttemptPhase::Lost => node_state.settle(reply),
            AttemptPhase::Held { .. } => self.renew_reply(now, node, round, reply),
            AttemptPhase::Asking | AttemptPhase::Committing(_) => {
                self.acquire_reply(now, node, reply)
            }
        }
    }

    /// Does what is due now. Callers may call it at any time and any number of times.
    pub fn handle_timeout(&mut self, now: Now) {
        for node in 0..self.node_states.len() {
            let due = self.node_states.get(node).and_then(|node_state| node_state.waits);
            let Some(wait) = due.filter(|wait| wait.due.has_passed(now)) else { continue };
            match self.phase {
                AttemptPhase::Releasing { .. } => self.release_again(now, node),
                _ => self.handle_reply(now, node, wait.round, NodeReply::Unknown),
            }
        }
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) has something to do.
    pub fn poll_timeout(&self) -> Option<Deadline> {
        self.node_states
            .iter()
            .filter_map(|node_state| node_state.waits)
            .map(|wait| wait.due)
            .reduce(Deadline::min)
    }

    /// Returns the next request to send.
    pub fn poll_request(&mut self) -> Option<Request> {
        self.requests.pop_front()
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns true if there is nothing more to send, to expect or to clean up.
    pub fn is_done(&self) -> bool {
        matches!(self.phase, AttemptPhase::Releasing { told: true })
            && self.requests.is_empty()
            && self.node_states.iter().all(|node_state| node_state.waits.is_none())
    }

    /// Returns true if the attempt is being released or was released: it holds nothing and never
    /// will.
    pub fn has_ended(&self) -> bool {
        matches!(self.phase, AttemptPhase::Releasing { .. })
    }

    /// Returns the round of the outstanding request to a node.
    pub fn waits_for(&self, node: usize) -> Option<u32> {
        self.node_states.get(node)?.waits.map(|wait| wait.round)
    }

    /// Returns the id of the attempt.
    pub fn id(&self) -> AttemptId {
        self.terms.attempt
    }

    /// Returns how many nodes are configured.
    pub fn nodes(&self) -> usize {
        self.terms.nodes
    }

    /// Returns the ttl of the last request.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// Returns the token while the lock is held.
    pub fn token(&self) -> Option<Token> {
        match self.phase {
            AttemptPhase::Held { token, .. } => Some(token),
            _ => None,
        }
    }

    /// Returns the end of validity, once held; renewals move it.
    pub fn deadline(&self) -> Option<Deadline> {
        self.deadline
    }

    /// Returns the largest value seen for the lock: the [`AttemptTerms::seen`] of the next attempt.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Returns on how many nodes the lease is known to exist, without a gap since the last renewal
    /// that counted. Fewer than a majority is a loss.
    pub fn evidence(&self) -> usize {
        self.node_states.iter().filter(|node_state| node_state.owns_before(self.first)).count()
    }

    /// Iterates over the nodes that refused in the current round, with the reason.
    pub fn refusals(&self) -> impl Iterator<Item = (usize, Refusal)> {
        self.node_states.iter().enumerate().filter_map(|(node, node_state)| match node_state.vote {
            Vote::Refused(refusal) => Some((node, refusal)),
            _ => None,
        })
    }

    /// Iterates over the nodes that were asked to release the lease and have not confirmed it.
    pub fn unreleased(&self) -> impl Iterator<Item = usize> {
        let open = |(node, node_state): (usize, &NodeState)| node_state.suspect.then_some(node);
        self.node_states.iter().enumerate().filter_map(open)
    }

    /// Iterates over the nodes whose answer to the acquire may still arrive, also after it was
    /// denied.
    pub fn unheard(&self) -> impl Iterator<Item = usize> {
        let open = |node_state: &NodeState| {
            node_state.waits.is_some()
                && node_state.vote == Vote::Silent
                && node_state.releases == 0
        };
        let open = move |(node, node_state): (usize, &NodeState)| open(node_state).then_some(node);
        self.node_states.iter().enumerate().filter_map(open)
    }

    /// Iterates over the nodes that have not answered in the current round, or not in time.
    pub fn silent(&self) -> impl Iterator<Item = usize> {
        let silent = |(node, node_state): (usize, &NodeState)| {
            (node_state.vote == Vote::Silent).then_some(node)
        };
        self.node_states.iter().enumerate().filter_map(silent)
    }

    fn majority(&self) -> usize {
        majority(self.terms.nodes)
    }

    /// Returns the end of validity of the last request, which counts from when it was sent, and not
    /// from `now`.
    fn full_term(&self, now: Now) -> Deadline {
        let from = if self.rules.breaks(Bug::BoundFromTheReply) { now } else { self.sent };
        let drift = if self.rules.breaks(Bug::NoDrift) { Duration::ZERO } else { drift(self.ttl) };
        Deadline::after(from, self.ttl.saturating_sub(drift))
    }

    /// Begins a round at all nodes: replies to earlier rounds are late from now on.
    fn begin(&mut self, now: Now) {
        self.first = self.round + 1;
        self.sent = now;
    }

    fn send(&mut self, now: Now, node: usize, op: Op, limit: Duration) {
        self.round += 1;
        if let Some(node_state) = self.node_states.get_mut(node) {
            node_state.waits = Some(Wait { round: self.round, due: Deadline::after(now, limit) });
            self.requests.push_back(Request { node, round: self.round, op });
        }
    }

    fn count(&self, is: impl Fn(&NodeState) -> bool) -> usize {
        self.node_states.iter().filter(|node_state| is(node_state)).count()
    }
}
