//! A client of a story: the machines of `leasehold_proto::client`, or a client by hand that has no lease.

use std::time::Duration;

use leasehold_proto::client::{
    Acquire, Granted, Heard, HeldTokens, Limits, Mail, Next, PendingAttempt, PushReference, Reply,
    Sound,
};
use leasehold_proto::handoff::ReleaseRequest;
use leasehold_proto::{AttemptId, ClientId, Deadline, Lease, LossReason, Now, Step, Terms};

use super::store::{Answer, Call, Push, Want};
use crate::simulator::Rng;

/// How long a client that has released rests before it asks again, if it is late: in milliseconds.
const REST: u64 = 100;
/// How long a client retries a server that does not answer. Servers of these stories answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The wall clock of all, so that tokens begin with 33, as in the articles. It does not advance.
const WALL_NS: u64 = 33_000;

/// One thing that a holder does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// It raises the fence at the resource to its token.
    Announce,
    /// It looks at its guard.
    Check,
    /// It reads row a or row b.
    Read(usize),
    /// It writes both rows. The write is on its way already: nothing is checked.
    Write,
    Release,
}

/// What is to be done for a client.
#[derive(Clone, Debug)]
pub(super) enum Deed {
    Send(Call, Now),
    Waits,
    Holds,
    Acts(Act),
    Loses,
}

/// What a client does.
#[derive(Debug)]
enum Phase {
    Idle,
    Waiting(Box<Waiting>),
    Holding(Box<Holding>),
    Crashed,
}

/// It has asked.
#[derive(Debug)]
struct Waiting {
    acquire: Acquire<(), Sound>,
    mail: Mail<()>,
    slot: Option<u32>,
    reference: Option<PushReference>,
    /// It was turned away before.
    waits: bool,
}

/// It holds the lock or a permit.
#[derive(Clone, Debug)]
pub(super) struct Holding {
    attempt: AttemptId,
    /// A counter grants no tokens and no leases.
    lease: Option<(HeldTokens, Lease)>,
    pub(super) slot: Option<u32>,
    since: u64,
    /// How much of its work is done.
    done: usize,
    renewed: Option<Now>,
}

/// One client.
#[derive(Debug)]
pub(super) struct Client {
    number: u64,
    pub(super) want: Want,
    /// When it asks.
    starts: Vec<u64>,
    /// What it does, so long after the grant.
    work: Vec<(u64, Act)>,
    ttl: Duration,
    attempts: u32,
    ready: u64,
    phase: Phase,
    /// It is stopped until then.
    pub(super) stopped: Option<u64>,
}

/// The time of all clocks.
pub(super) fn now(ms: u64) -> Now {
    Now { steady_ns: ms * 1_000_000, wall_ns: WALL_NS }
}

fn ms(deadline: Deadline) -> u64 {
    deadline.steady_ns().div_ceil(1_000_000)
}

impl Client {
    pub(super) fn new(
        number: u64,
        want: Want,
        starts: Vec<u64>,
        work: Vec<(u64, Act)>,
        ttl: Duration,
    ) -> Self {
        let phase = Phase::Idle;
        Self { number, want, starts, work, ttl, attempts: 0, ready: 0, phase, stopped: None }
    }

    pub(super) fn crash(&mut self) {
        self.phase = Phase::Crashed;
    }

    pub(super) fn holding(&self) -> Option<&Holding> {
        if let Phase::Holding(holding) = &self.phase { Some(holding) } else { None }
    }

    /// It asks, or waits.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.phase, Phase::Waiting(_))
    }

    /// Does the next thing that is due.
    pub(super) fn poll(&mut self, time: u64, rng: &mut Rng) -> Option<Deed> {
        match &mut self.phase {
            Phase::Idle => {
                let due = self.next_start().is_some_and(|at| at <= time);
                due.then(|| self.begin(time))
            }
            Phase::Waiting(waiting) => {
                if waiting.acquire.pending().is_asking() {
                    return None;
                }
                let mail = waiting.mail.take();
                match waiting.acquire.handle_mail(now(time), mail) {
                    Heard::Granted(granted) => self.hold(granted, now(time), time, rng),
                    Heard::Wait(until) if !until.has_passed(now(time)) => None,
                    Heard::Wait(_) | Heard::Ask | Heard::Reply(..) => Some(waiting.ask(time)),
                }
            }
            Phase::Holding(holding) => {
                let act = self.work.get(holding.done).copied();
                let act = act.map(|(after, act)| (holding.since + after, act));
                let timer = holding.timer();
                // A client that was stopped does first what was due first.
                match (act, timer) {
                    (Some((at, act)), _) if at <= time && timer.is_none_or(|timer| at <= timer) => {
                        holding.done += 1;
                        Some(Deed::Acts(act))
                    }
                    (_, Some(timer)) if timer <= time => self.handle_timer(time),
                    _ => None,
                }
            }
            Phase::Crashed => None,
        }
    }

    /// When to poll again.
    pub(super) fn next(&self) -> Option<u64> {
        match &self.phase {
            Phase::Idle => self.next_start(),
            Phase::Waiting(waiting) => {
                let pending = waiting.acquire.pending();
                pending.ask_at().filter(|_| !pending.is_asking()).map(ms)
            }
            Phase::Holding(holding) => {
                let act = self.work.get(holding.done).map(|(after, _)| holding.since + after);
                act.into_iter().chain(holding.timer()).min()
            }
            Phase::Crashed => None,
        }
    }

    fn next_start(&self) -> Option<u64> {
        self.starts.first().map(|at| (*at).max(self.ready))
    }

    fn begin(&mut self, time: u64) -> Deed {
        self.starts.remove(0);
        self.another(time, false)
    }

    /// Begins with a new attempt.
    fn another(&mut self, time: u64, waits: bool) -> Deed {
        self.attempts += 1;
        let attempt = AttemptId::new(ClientId::from_bits(self.number), self.attempts, 0);
        let start = now(time);
        let limits = Limits { start, until: None, patience: PATIENCE, waits: true };
        let acquire = Acquire::new(PendingAttempt::new(attempt, Sound), None, limits);
        let mut waiting =
            Waiting { acquire, mail: Mail::default(), slot: None, reference: None, waits };
        let deed = waiting.ask(time);
        self.phase = Phase::Waiting(Box::new(waiting));
        deed
    }

    fn hold(&mut self, granted: Granted, sent: Now, time: u64, rng: &mut Rng) -> Option<Deed> {
        let Phase::Waiting(waiting) = &self.phase else { return None };
        let terms = Terms {
            ttl: self.ttl,
            renew_after: Some(self.ttl / 3),
            max_hold: None,
            session: false,
        };
        let pending = waiting.acquire.pending();
        let (attempt, slot) = (pending.attempt(), waiting.slot);
        let Ok(lease) = granted.lease(sent, now(time), terms, rng.bits(), Sound) else {
            return Some(self.another(time, true));
        };
        let lease = Some((HeldTokens::new(granted.tokens), lease));
        self.begin_work(attempt, lease, slot, time)
    }

    fn begin_work(
        &mut self,
        attempt: AttemptId,
        lease: Option<(HeldTokens, Lease)>,
        slot: Option<u32>,
        since: u64,
    ) -> Option<Deed> {
        let holding = Holding { attempt, lease, slot, since, done: 0, renewed: None };
        self.phase = Phase::Holding(Box::new(holding));
        Some(Deed::Holds)
    }

    /// A renewal or the alarm of its lease is due.
    fn handle_timer(&mut self, time: u64) -> Option<Deed> {
        let Phase::Holding(holding) = &mut self.phase else { return None };
        let (tokens, lease) = holding.lease.as_mut()?;
        match lease.handle_timeout(now(time)) {
            Step::Renew => {
                holding.renewed = Some(now(time));
                Some(Deed::Send(Call::Renew(holding.attempt, tokens.base()), now(time)))
            }
            Step::Lost(_) | Step::End => Some(Deed::Loses),
            Step::Wait => None,
        }
    }

    /// It is done with what it held, or has lost it: how it ends the attempt.
    pub(super) fn release(&mut self, time: u64) -> Option<Call> {
        let Phase::Holding(holding) = &self.phase else { return None };
        let (attempt, slot) = (holding.attempt, holding.slot);
        let release = match &holding.lease {
            Some((tokens, _)) => tokens.end(attempt, false, None, Sound),
            None => ReleaseRequest { attempt, base: None, last: None, suspect: false, keep: None },
        };
        self.phase = Phase::Idle;
        self.ready = time + REST;
        Some(Call::Release(release, slot))
    }

    /// Handles the answer to the request that was sent at `sent`.
    pub(super) fn handle_answer(
        &mut self,
        (attempt, sent): (AttemptId, Now),
        answer: Answer,
        (server, time): (u64, u64),
        rng: &mut Rng,
    ) -> Option<Deed> {
        match (&mut self.phase, answer) {
            (Phase::Holding(holding), Answer::Renewed(renewed)) if holding.attempt == attempt => {
                holding.renewed.take_if(|at| *at == sent)?;
                let (_, lease) = holding.lease.as_mut()?;
                if renewed {
                    lease.handle_renewed(sent, now(time), rng.bits());
                    return None;
                }
                let lost = lease.handle_lost(LossReason::NotOwner);
                matches!(lost, Step::Lost(_)).then_some(Deed::Loses)
            }
            (Phase::Waiting(waiting), answer) if waiting.attempt() == attempt => {
                let reply = match answer {
                    Answer::Granted(None) => return self.begin_work(attempt, None, None, time),
                    Answer::Granted(Some((tokens, slot))) => {
                        waiting.slot = slot;
                        Reply::Granted(Granted {
                            tokens,
                            until: None,
                            offer: false,
                            wanted: false,
                            slots: Vec::new(),
                        })
                    }
                    Answer::Queued(ask_again) => {
                        waiting.reference = Some(PushReference { sent, server_us: server * 1000 });
                        Reply::Queued { ask_again }
                    }
                    Answer::Busy => Reply::Busy { ask_again: None },
                    Answer::Over | Answer::Renewed(_) => Reply::Ended,
                };
                match waiting.acquire.handle_reply(sent, now(time), reply, || rng.bits()) {
                    Next::Hold(granted) => self.hold(granted, sent, time, rng),
                    Next::Another => {
                        let waits = waiting.waits;
                        Some(self.another(time, waits))
                    }
                    Next::AskAgain => Some(waiting.ask(time)),
                    _ if waiting.waits => None,
                    _ => {
                        waiting.waits = true;
                        Some(Deed::Waits)
                    }
                }
            }
            _ => None,
        }
    }

    /// Takes a message.
    pub(super) fn handle_push(&mut self, attempt: AttemptId, push: Push, server: u64, time: u64) {
        let Phase::Waiting(waiting) = &mut self.phase else { return };
        if waiting.attempt() != attempt {
            return;
        }
        match push {
            Push::Next(remaining) => {
                waiting.mail.ask_by = Some(Deadline::after(now(time), remaining));
            }
            Push::Granted(tokens, slot, offer) => {
                let valid = waiting.reference.and_then(|reference| {
                    reference.valid_until(server * 1000, offer, now(time), Sound)
                });
                match valid {
                    Some(until) => {
                        let until = Some(until);
                        let granted = Granted {
                            tokens,
                            until,
                            offer: true,
                            wanted: false,
                            slots: Vec::new(),
                        };
                        waiting.mail.granted = Some(granted);
                        waiting.slot = slot;
                    }
                    None => waiting.mail.ask_again = true,
                }
            }
        }
    }
}

impl Waiting {
    fn attempt(&self) -> AttemptId {
        self.acquire.pending().attempt()
    }

    fn ask(&mut self, time: u64) -> Deed {
        self.acquire.handle_sent(now(time));
        Deed::Send(Call::Acquire(self.attempt()), now(time))
    }
}

impl Holding {
    pub(super) fn token(&self) -> Option<u64> {
        self.lease.as_ref().map(|(tokens, _)| tokens.token().get())
    }

    /// When its lease ends by its own clock.
    pub(super) fn deadline(&self) -> Option<u64> {
        self.lease.as_ref().and_then(|(_, lease)| lease.deadline()).map(ms)
    }

    fn timer(&self) -> Option<u64> {
        self.lease.as_ref().and_then(|(_, lease)| lease.next_timeout()).map(ms)
    }
}
