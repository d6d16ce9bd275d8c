//! One client's try to get a lock from a majority of the nodes, to keep it and to give it back.

mod acquiring;
mod ending;
mod holding;
mod seat;

use core::time::Duration;
use std::collections::VecDeque;

use seat::{Seat, Vote, Wait};

use super::{Event, Op, Refusal, Reply, Request, Terms, majority};
use crate::{AttemptId, Deadline, Now, Token, drift};

/// One attempt. Calls that do not fit its state do nothing.
///
/// The driver sends what [`poll_request`](Self::poll_request) gives to the process that it knows to
/// be admitted there. Where the node has no vote it answers `Refused(NotAdmitted)` itself, and where
/// it could send nothing, `Refused(Unfit)`. It reports each reply with the request's round, calls [`handle_timeout`](Self::handle_timeout) when
/// [`poll_timeout`](Self::poll_timeout) has come, and reads [`poll_event`](Self::poll_event) after
/// each call. It drives a machine until [`is_done`](Self::is_done), also when nobody waits for it any more.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attempt {
    terms: Terms,
    phase: Phase,
    seats: Vec<Seat>,
    /// Number of the last request; replies to others than a seat's last one are late.
    round: u32,
    /// First round of the current acquire, renewal or release.
    first: u32,
    /// When that was sent: validity counts from here.
    sent: Now,
    /// The ttl that was asked for then.
    ttl: Duration,
    /// Valid until here, once held.
    deadline: Option<Deadline>,
    /// The largest value seen.
    seen: u64,
    /// When the last lease that was asked for has ended wherever it was granted.
    over: Deadline,
    requests: VecDeque<Request>,
    events: VecDeque<Event>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// Waiting for a majority.
    Asking,
    /// A majority has granted; counters are being brought to the token.
    Committing(Token),
    /// Held; `renewing` while a renewal is undecided.
    Held { token: Token, renewing: bool },
    /// Was held; a majority has it no more.
    Lost,
    /// Being given back; `told` once the event is out.
    Ending { told: bool },
}

impl Attempt {
    /// Asks all nodes at once. `now` was read before the first byte goes out.
    pub fn acquire(now: Now, terms: Terms) -> Self {
        let mut attempt = Self {
            terms,
            phase: Phase::Asking,
            seats: vec![Seat::default(); terms.nodes],
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

    /// A node's reply to the request of this round, or `Unknown` when there will be none.
    pub fn handle_reply(&mut self, now: Now, node: usize, round: u32, reply: Reply) {
        let Some(seat) = self.seats.get_mut(node) else { return };
        if let Reply::Busy { counter, .. } | Reply::Granted(counter) = reply {
            self.seen = self.seen.max(counter.get());
        }
        let expected = seat.waits.is_some_and(|wait| wait.round == round);
        if !expected {
            self.late(now, node, reply);
            return;
        }
        match self.phase {
            Phase::Ending { .. } => self.release_reply(now, node, reply),
            Phase::Lost => seat.settle(reply),
            Phase::Held { .. } => self.renew_reply(now, node, round, reply),
            Phase::Asking | Phase::Committing(_) => self.acquire_reply(now, node, reply),
        }
    }

    /// What is due now. Safe to call at any time and any number of times.
    pub fn handle_timeout(&mut self, now: Now) {
        for node in 0..self.seats.len() {
            let due = self.seats.get(node).and_then(|seat| seat.waits);
            let Some(wait) = due.filter(|wait| wait.due.has_passed(now)) else { continue };
            match self.phase {
                Phase::Ending { .. } => self.release_again(now, node),
                _ => self.handle_reply(now, node, wait.round, Reply::Unknown),
            }
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) has something to do.
    pub fn poll_timeout(&self) -> Option<Deadline> {
        self.seats.iter().filter_map(|seat| seat.waits).map(|wait| wait.due).reduce(Deadline::min)
    }

    /// The next request to be sent.
    pub fn poll_request(&mut self) -> Option<Request> {
        self.requests.pop_front()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Nothing is to be sent, expected or cleaned up any more.
    pub fn is_done(&self) -> bool {
        matches!(self.phase, Phase::Ending { told: true })
            && self.requests.is_empty()
            && self.seats.iter().all(|seat| seat.waits.is_none())
    }

    /// It is being given back, or has been: it holds nothing and never will.
    pub fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::Ending { .. })
    }

    /// The round of the request to a node that a reply is waited for.
    pub fn waits_for(&self, node: usize) -> Option<u32> {
        self.seats.get(node)?.waits.map(|wait| wait.round)
    }

    /// The attempt's id.
    pub fn id(&self) -> AttemptId {
        self.terms.attempt
    }

    /// How many nodes are configured.
    pub fn nodes(&self) -> usize {
        self.terms.nodes
    }

    /// The ttl that was asked for last.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// The token, while it is held.
    pub fn token(&self) -> Option<Token> {
        match self.phase {
            Phase::Held { token, .. } => Some(token),
            _ => None,
        }
    }

    /// Until when the lease is valid, once held; renewals move it.
    pub fn deadline(&self) -> Option<Deadline> {
        self.deadline
    }

    /// The largest value seen for the lock: the next attempt's [`Terms::seen`].
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// On how many nodes the lease is known to be, without a gap since the last renewal that
    /// counted. Less than a majority is a loss.
    pub fn evidence(&self) -> usize {
        self.seats.iter().filter(|seat| seat.owns_before(self.first)).count()
    }

    /// The nodes that did nothing in the current round, and why.
    pub fn refusals(&self) -> impl Iterator<Item = (usize, Refusal)> {
        self.seats.iter().enumerate().filter_map(|(node, seat)| match seat.vote {
            Vote::Refused(refusal) => Some((node, refusal)),
            _ => None,
        })
    }

    /// The nodes that were asked to release it and have not said that they did.
    pub fn unreleased(&self) -> impl Iterator<Item = usize> {
        let open = |(node, seat): (usize, &Seat)| seat.suspect.then_some(node);
        self.seats.iter().enumerate().filter_map(open)
    }

    /// The nodes whose answer to the acquire may still come, also after it was denied.
    pub fn unheard(&self) -> impl Iterator<Item = usize> {
        let open =
            |seat: &Seat| seat.waits.is_some() && seat.vote == Vote::Silent && seat.releases == 0;
        let open = move |(node, seat): (usize, &Seat)| open(seat).then_some(node);
        self.seats.iter().enumerate().filter_map(open)
    }

    /// The nodes that have not answered in the current round, or not in time.
    pub fn silent(&self) -> impl Iterator<Item = usize> {
        let silent = |(node, seat): (usize, &Seat)| (seat.vote == Vote::Silent).then_some(node);
        self.seats.iter().enumerate().filter_map(silent)
    }

    fn majority(&self) -> usize {
        majority(self.terms.nodes)
    }

    /// The end of validity of what was asked for last.
    fn full_term(&self) -> Deadline {
        Deadline::after(self.sent, self.ttl.saturating_sub(drift(self.ttl)))
    }

    /// Begins something with all nodes: replies to what came before are late from now on.
    fn begin(&mut self, now: Now) {
        self.first = self.round + 1;
        self.sent = now;
    }

    fn send(&mut self, now: Now, node: usize, op: Op, limit: Duration) {
        self.round += 1;
        if let Some(seat) = self.seats.get_mut(node) {
            seat.waits = Some(Wait { round: self.round, due: Deadline::after(now, limit) });
            self.requests.push_back(Request { node, round: self.round, op });
        }
    }

    fn count(&self, is: impl Fn(&Seat) -> bool) -> usize {
        self.seats.iter().filter(|seat| is(seat)).count()
    }
}
