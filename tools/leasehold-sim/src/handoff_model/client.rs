//! A client after the rules of the hand-off protocol: what it knows, and how it takes an answer.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold_proto::handoff::{Answer, End, Push};
use leasehold_proto::{AttemptId, Token, TokenBlock};

use super::state::attempt;
use super::{Answered, Bug, Call, History, Message, Setup, TICK};

/// One process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Client {
    id: u8,
    /// It has not crashed.
    pub up: bool,
    /// Its subscription is up.
    pub subscribed: bool,
    /// How many attempts it has made.
    pub attempts: u32,
    /// What it does at the moment.
    pub phase: Phase,
    /// Attempts that it ends in the background, until it has an answer.
    pub endings: Vec<Ending>,
}

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Nothing.
    Idle,
    /// It waits for the answer to an ask.
    Asking {
        /// Of this attempt.
        attempt: AttemptId,
        /// When the last ask was sent.
        sent: u8,
        /// An ask before that was never answered.
        unanswered: bool,
        /// A push has told when to ask again.
        next: Option<u8>,
        /// Server's time less its own, by the last answer.
        lead: Option<u8>,
    },
    /// It waits for its turn.
    Waiting {
        /// With this attempt.
        attempt: AttemptId,
        /// When to ask again; never `None` without a planted bug.
        ask_at: Option<u8>,
        /// An ask was never answered.
        unanswered: bool,
        /// Server's time less its own, by the last answer.
        lead: u8,
    },
    /// It has a guard, valid until the deadline.
    Holding {
        /// By this attempt.
        attempt: AttemptId,
        /// First token of the block.
        base: u64,
        /// Last token used.
        last: u64,
        /// Last token of the block.
        top: u64,
        /// Not valid from here on.
        deadline: u8,
        /// Not confirmed yet.
        offered: bool,
        /// An ask was never answered.
        suspect: bool,
        /// When the renewal in flight was sent.
        renewing: Option<u8>,
    },
    /// It waits for the answer to an exchange that another task has made for it.
    Awaiting {
        /// For this attempt.
        attempt: AttemptId,
        /// A push has told when to ask again.
        next: Option<u8>,
    },
    /// It exchanges its lease for a new attempt, and holds nothing.
    Rotating {
        /// What it ends.
        end: End,
        /// What it asks for.
        next: AttemptId,
        /// When the last call was sent.
        sent: u8,
        /// A call before that was never answered.
        unanswered: bool,
    },
}

/// An attempt that is being ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ending {
    /// As it was sent last.
    pub end: End,
    /// What is asked for in exchange, for another task.
    pub then: Option<Exchange>,
}

/// The second half of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Exchange {
    /// For which attempt.
    pub next: AttemptId,
    /// When it was sent last.
    pub sent: u8,
    /// It was sent before that, without an answer.
    pub again: bool,
}

/// What a client's move may touch besides the client.
pub(super) struct World<'a> {
    pub(super) setup: &'a Setup,
    pub(super) clock: u8,
    pub(super) network: &'a mut BTreeSet<Message>,
    pub(super) history: &'a mut History,
}

impl Client {
    pub(super) fn new(id: u8) -> Self {
        Self {
            id,
            up: true,
            subscribed: true,
            attempts: 0,
            phase: Phase::Idle,
            endings: Vec::new(),
        }
    }

    /// A push would reach it.
    pub(super) fn listens(&self) -> bool {
        self.up && self.subscribed
    }

    /// It knows of this attempt and will do something about it.
    pub(super) fn tracks(&self, attempt: AttemptId) -> bool {
        let active = match self.phase {
            Phase::Idle => false,
            Phase::Asking { attempt: own, .. }
            | Phase::Waiting { attempt: own, .. }
            | Phase::Awaiting { attempt: own, .. }
            | Phase::Holding { attempt: own, .. } => own == attempt,
            Phase::Rotating { end, next, .. } => end.attempt == attempt || next == attempt,
        };
        self.up && (active || self.endings.iter().any(|ending| ending.end.attempt == attempt))
    }

    /// It has a guard that says it is valid.
    pub(super) fn is_valid(&self, clock: u8) -> bool {
        self.up && matches!(self.phase, Phase::Holding { deadline, .. } if clock < deadline)
    }

    /// A reply like this would change something.
    pub(super) fn expects(&self, sent: u8, answer: &Answered) -> bool {
        self.up
            && match (*answer, self.phase) {
                (Answered::Acquired(asked, _), Phase::Asking { attempt, sent: last, .. }) => {
                    asked == attempt && sent == last
                }
                (Answered::Acquired(asked, _), Phase::Rotating { next, sent: last, .. }) => {
                    asked == next && sent == last
                }
                (
                    Answered::Renewed(asked, lease, _),
                    Phase::Holding { attempt, base, renewing, .. },
                ) => asked == attempt && lease == base && renewing == Some(sent),
                (Answered::Exchanged(ended, next, _), _) => self.endings.iter().any(|ending| {
                    let own = ending.then.is_some_and(|t| (t.next, t.sent) == (next, sent));
                    ending.end.attempt == ended && own
                }),
                (Answered::Ended(ended), _) => {
                    self.endings.iter().any(|ending| ending.end.attempt == ended)
                }
                _ => false,
            }
    }

    pub(super) fn new_attempt(&mut self) -> AttemptId {
        self.attempts += 1;
        attempt(self.id, self.attempts)
    }

    pub(super) fn send(&self, world: &mut World<'_>, call: Call) {
        let sent = if matches!(call, Call::Release(_)) { 0 } else { world.clock };
        world.network.insert(Message::Request { from: self.id, sent, call });
    }

    /// Ends an attempt in the background.
    pub(super) fn end(&mut self, world: &mut World<'_>, end: End) {
        self.send(world, Call::Release(end));
        self.endings.push(Ending { end, then: None });
    }

    pub(super) fn handle_reply(
        &mut self,
        world: &mut World<'_>,
        sent: u8,
        at: u8,
        answer: Answered,
    ) {
        if !self.expects(sent, &answer) {
            return;
        }
        match answer {
            Answered::Ended(attempt) => self.endings.retain(|e| e.end.attempt != attempt),
            Answered::Renewed(_, _, renewed) => self.handle_renewed(world, sent, renewed),
            Answered::Exchanged(ended, attempt, answer) => {
                let again = self.endings.iter().any(|ending| {
                    ending.end.attempt == ended && ending.then.is_some_and(|then| then.again)
                });
                self.endings.retain(|ending| ending.end.attempt != ended);
                // One that has asked for itself meanwhile goes by its own answer.
                if let Phase::Awaiting { attempt: own, next } = self.phase
                    && own == attempt
                {
                    let suspect = again && world.setup.bug != Some(Bug::ExchangeIsNotSuspect);
                    self.handle_answer(world, attempt, answer, (sent, at), suspect, next);
                }
            }
            Answered::Acquired(attempt, answer) => {
                let (unanswered, next) = match self.phase {
                    Phase::Asking { unanswered, next, .. } => (unanswered, next),
                    Phase::Rotating { unanswered, .. } => (unanswered, None),
                    _ => return,
                };
                self.handle_answer(world, attempt, answer, (sent, at), unanswered, next);
            }
        }
    }

    fn handle_answer(
        &mut self,
        world: &mut World<'_>,
        attempt: AttemptId,
        answer: Answer,
        (sent, at): (u8, u8),
        unanswered: bool,
        next: Option<u8>,
    ) {
        match answer {
            Answer::Granted(tokens) => {
                let from = match world.setup.bug {
                    Some(Bug::ValidityCountsFromTheAnswer) => world.clock,
                    _ => sent,
                };
                let deadline = from + world.setup.ttl(self.id);
                self.hold(world, attempt, tokens, deadline, false, unanswered);
            }
            Answer::Queued { place, .. } => {
                let pause = answer.ask_again().unwrap_or_default().as_secs() / TICK.as_secs();
                let mut ask_at = Some(next.unwrap_or(world.clock + pause as u8));
                let free = matches!(answer, Answer::Queued { remaining: Duration::ZERO, .. });
                let untold = match world.setup.bug {
                    Some(Bug::OnlyTheHeadHasATimer) => place > 0,
                    Some(Bug::CapTellsNobody) => free,
                    _ => false,
                };
                if untold {
                    ask_at = next;
                }
                let lead = at - sent;
                self.phase = Phase::Waiting { attempt, ask_at, unanswered, lead };
            }
            Answer::Busy(_) | Answer::Ended | Answer::UsedUp => self.phase = Phase::Idle,
        }
    }

    /// Takes a grant; one whose deadline has passed is given back.
    fn hold(
        &mut self,
        world: &mut World<'_>,
        attempt: AttemptId,
        tokens: TokenBlock,
        deadline: u8,
        offered: bool,
        suspect: bool,
    ) {
        if deadline <= world.clock {
            self.phase = Phase::Idle;
            let base = None;
            return self.end(world, End { attempt, base, last: None, suspect, keep: None });
        }
        let (base, top) = (tokens.base().get(), tokens.top().get());
        world.history.uses(base, world.setup.in_order());
        self.phase = Phase::Holding {
            attempt,
            base,
            last: base,
            top,
            deadline,
            offered,
            suspect,
            renewing: None,
        };
    }

    fn handle_renewed(&mut self, world: &mut World<'_>, sent: u8, renewed: bool) {
        let clock = world.clock;
        let ttl = world.setup.ttl(self.id);
        if !renewed {
            if let Some(end) = self.end_of_hold(world.setup.bug) {
                self.phase = Phase::Idle;
                self.end(world, end);
            }
        } else if let Phase::Holding { deadline, offered, renewing, .. } = &mut self.phase {
            *renewing = None;
            if clock < *deadline {
                *deadline = (*deadline).max(sent + ttl);
                *offered = false;
            }
        }
    }

    /// How it gives its guard back.
    pub(super) fn end_of_hold(&self, bug: Option<Bug>) -> Option<End> {
        let Phase::Holding { attempt, base, last, suspect, .. } = self.phase else { return None };
        let last = if bug == Some(Bug::PassedTokensGivenBack) { base } else { last };
        let (base, last) = (Token::new(base), Token::new(last));
        Some(End { attempt, base, last, suspect, keep: None })
    }

    pub(super) fn handle_push(
        &mut self,
        world: &mut World<'_>,
        attempt: AttemptId,
        at: u8,
        push: Push,
    ) {
        match push {
            Push::Granted { tokens, offer, .. } => {
                let offer = (offer.as_secs() / TICK.as_secs()) as u8;
                self.handle_granted(world, attempt, (at, offer), tokens);
            }
            Push::Next { remaining, .. } => {
                let when = world.clock + (remaining.as_secs() / TICK.as_secs()) as u8;
                match &mut self.phase {
                    Phase::Asking { attempt: own, next, .. } if *own == attempt => {
                        *next = Some(when);
                    }
                    Phase::Waiting { attempt: own, ask_at, .. } if *own == attempt => {
                        *ask_at = Some(when);
                    }
                    Phase::Awaiting { attempt: own, next } if *own == attempt => {
                        *next = Some(when);
                    }
                    _ => {}
                }
            }
            Push::Wanted { .. } if !self.tracks(attempt) => {
                let (base, last, keep) = (None, None, None);
                self.end(world, End { attempt, base, last, suspect: true, keep });
            }
            Push::Wanted { .. } => {}
            Push::Lost { base } => self.handle_lost(world, attempt, base),
        }
    }

    /// An operator has ended its lease: it does what it does when a renewal says so.
    fn handle_lost(&mut self, world: &mut World<'_>, attempt: AttemptId, base: Option<Token>) {
        if let Phase::Holding { attempt: own, base: held, .. } = self.phase
            && own == attempt
            && base.map(Token::get) == Some(held)
        {
            self.handle_renewed(world, 0, false);
        }
    }

    fn handle_granted(
        &mut self,
        world: &mut World<'_>,
        attempt: AttemptId,
        (at, offer): (u8, u8),
        tokens: TokenBlock,
    ) {
        let (lead, suspect) = match self.phase {
            Phase::Asking { attempt: own, lead, .. } if own == attempt => (lead, true),
            Phase::Waiting { attempt: own, lead, unanswered, .. } if own == attempt => {
                (Some(lead), unanswered)
            }
            // Nothing to count from yet: asking tells.
            Phase::Awaiting { attempt: own, .. } if own == attempt => {
                return self.ask_again(world);
            }
            _ if self.tracks(attempt) => return,
            _ => {
                let base = Some(tokens.base());
                let end = End { attempt, base, last: None, suspect: false, keep: None };
                return self.end(world, end);
            }
        };
        // Without an answer there is nothing to count from: the ask under way will tell.
        let Some(lead) = lead else { return };
        let receipt = world.clock + offer;
        let deadline = match world.setup.bug {
            Some(Bug::PushCountsFromReceipt) => receipt,
            _ => receipt.min((at + offer).saturating_sub(lead)),
        };
        let suspect = suspect && world.setup.bug != Some(Bug::NeverSuspect);
        self.hold(world, attempt, tokens, deadline, true, suspect);
    }
}
