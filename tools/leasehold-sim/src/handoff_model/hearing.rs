//! What a client does with what it receives.

use std::time::Duration;

use leasehold_proto::client::{
    AfterPush, AfterRelease, ForwardedReply, Granted, Heard, Next, PushReference, Pushed,
    ReleaseResult, Reply, decide_push,
};
use leasehold_proto::handoff::{Answer, Push};
use leasehold_proto::{AttemptId, Deadline, LossReason, Now, TokenBlock};

use super::client::{World, no_pause, now, server_us};
use super::{Answered, Bug, Client, Phase, Setup};

impl Client {
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
            Answered::Ended(attempt) => self.endings.retain(|ending| !ending.ends_alone(attempt)),
            Answered::Renewed(_, _, renewed) => self.handle_renewed(world, sent, renewed),
            Answered::Exchanged(ended, next, answer) => {
                self.handle_exchanged(world, (ended, next), (sent, at), answer);
            }
            Answered::Refused(ended, next) => self.handle_refused(world, (ended, next), sent),
            Answered::Acquired(attempt, answer) => {
                self.refer(attempt, (sent, at), &answer);
                if let Phase::Waiting(waiting) = &mut self.phase {
                    let (sent, reply) = (now(sent), reply(world.setup, answer));
                    let next = waiting.acquire.handle_reply(sent, world.now(), reply, no_pause);
                    self.handle_next(world, next, sent);
                    self.read_mail(world);
                }
            }
        }
    }

    /// The answer to an exchange ends one attempt, and is forwarded to the task that waits with the
    /// other one.
    fn handle_exchanged(
        &mut self,
        world: &mut World<'_>,
        (ended, next): (AttemptId, AttemptId),
        (sent, at): (u8, u8),
        answer: Answer,
    ) {
        let found = self.endings.iter().position(|one| one.exchanges(ended, next, sent));
        let Some(found) = found else { return };
        let mut ending = self.endings.remove(found);
        let after = ending.machine.handle_result(ReleaseResult::Answered, world.rules());
        let AfterRelease::Done { again, .. } = after else { return };
        self.refer(next, (sent, at), &answer);
        let reply = reply(world.setup, answer);
        self.forward(world, next, ForwardedReply { sent: now(sent), reply, again });
    }

    /// Both attempts of a refused exchange get their own answer: the end is sent alone.
    fn handle_refused(
        &mut self,
        world: &mut World<'_>,
        (ended, next): (AttemptId, AttemptId),
        sent: u8,
    ) {
        let found = self.endings.iter().position(|one| one.exchanges(ended, next, sent));
        let Some(found) = found else { return };
        let refused = ReleaseResult::Refused { for_good: false };
        let after = self.endings[found].machine.handle_result(refused, world.rules());
        let again = match after {
            AfterRelease::Alone { again, .. } => {
                self.endings[found].sent = 0;
                let call = self.endings[found].call();
                self.send(world, call);
                again
            }
            _ => {
                self.endings.remove(found);
                false
            }
        };
        self.forward(
            world,
            next,
            ForwardedReply { sent: now(sent), reply: Reply::Refused(()), again },
        );
    }

    /// Forwards the answer to an exchange to the task that waits for it.
    fn forward(&mut self, world: &mut World<'_>, next: AttemptId, reply: ForwardedReply<()>) {
        if let Phase::Waiting(waiting) = &mut self.phase
            && waiting.pending().attempt() == next
        {
            waiting.mail.forwarded = Some(reply);
            self.read_mail(world);
        }
    }

    /// Keeps the time of the request that was answered last, if its attempt waits.
    fn refer(&mut self, attempt: AttemptId, (sent, at): (u8, u8), answer: &Answer) {
        if let (Phase::Waiting(waiting), Answer::Queued { .. }) = (&mut self.phase, answer)
            && waiting.pending().attempt() == attempt
        {
            let (sent, server_us) = (now(sent), server_us(at));
            waiting.reference = Some(PushReference { sent, server_us });
        }
    }

    fn handle_next(&mut self, world: &mut World<'_>, next: Next<()>, sent: Now) {
        match next {
            Next::Hold(granted) => self.hold(world, granted, sent),
            Next::Wait { answered: true } => {}
            Next::Wait { answered: false } | Next::AskAgain => self.ask_if_due(world),
            // The next attempt is a new one.
            Next::Another | Next::Taken | Next::Fail(()) | Next::TimedOut(()) => {
                self.end_waiting(world);
            }
        }
    }

    /// Reads the messages, unless a request is on its way.
    pub(super) fn read_mail(&mut self, world: &mut World<'_>) {
        let Phase::Waiting(waiting) = &mut self.phase else { return };
        if waiting.pending().is_asking() {
            return;
        }
        let mail = waiting.mail.take();
        match waiting.acquire.handle_mail(world.now(), mail) {
            // A push contains its own validity.
            Heard::Granted(granted) => self.hold(world, granted, world.now()),
            Heard::Reply(sent, reply) => {
                let next = waiting.acquire.handle_forwarded(sent, world.now(), reply, no_pause);
                self.handle_next(world, next, sent);
                self.read_mail(world);
            }
            Heard::Ask => self.ask(world),
            Heard::Wait(_) => {}
        }
    }

    fn handle_renewed(&mut self, world: &mut World<'_>, sent: u8, renewed: Option<bool>) {
        let Phase::Holding(holding) = &mut self.phase else { return };
        holding.renewing = None;
        if let Some(wanted) = renewed {
            holding.lease.handle_renewed(now(sent), world.now(), 0);
            holding.offered &= !holding.lease.is_valid(world.now());
            if wanted {
                self.handle_wanted(world);
            }
        } else if holding.released {
            holding.lease.handle_lost(LossReason::NotOwner);
        } else {
            let release = holding.end(world.rules());
            self.phase = Phase::Idle;
            self.end(world, release);
        }
    }

    pub(super) fn handle_push(
        &mut self,
        world: &mut World<'_>,
        attempt: AttemptId,
        at: u8,
        push: Push,
    ) {
        match push {
            Push::Granted { tokens, offer, waiters } => {
                self.handle_granted(world, attempt, (at, offer), tokens, waiters > 0);
            }
            Push::Next { remaining, .. } => {
                let by = Deadline::after(world.now(), remaining);
                if let Phase::Waiting(waiting) = &mut self.phase
                    && waiting.pending().attempt() == attempt
                {
                    waiting.mail.ask_by = Some(by);
                    self.read_mail(world);
                }
            }
            Push::Wanted { .. } => match &mut self.phase {
                Phase::Waiting(waiting) if waiting.pending().attempt() == attempt => {
                    waiting.mail.wanted = true;
                    self.read_mail(world);
                }
                Phase::Holding(holding) if holding.attempt == attempt => self.handle_wanted(world),
                _ => self.handle_unclaimed(world, attempt, Pushed::Wanted),
            },
            Push::Lost { base } => self.handle_unclaimed(world, attempt, Pushed::Lost(base)),
        }
    }

    /// Another client waits for its lease: one that no task holds is given back at once.
    pub(super) fn handle_wanted(&mut self, world: &mut World<'_>) {
        let Phase::Holding(holding) = &mut self.phase else { return };
        holding.wanted = world.setup.caches;
        if holding.cached && world.setup.bug != Some(Bug::WantedLeaseIsCached) {
            self.give_back(world);
        }
    }

    /// Handles a push for an attempt with which it does not wait.
    fn handle_unclaimed(&mut self, world: &mut World<'_>, attempt: AttemptId, push: Pushed) {
        match decide_push(attempt, push, self.standing(attempt)) {
            AfterPush::Ignore => {}
            // It does what it does when a renewal says so.
            AfterPush::Lose => self.handle_renewed(world, 0, None),
            AfterPush::End(release) | AfterPush::EndLater(release) => self.end(world, release),
        }
    }

    fn handle_granted(
        &mut self,
        world: &mut World<'_>,
        attempt: AttemptId,
        (at, offer): (u8, Duration),
        tokens: TokenBlock,
        wanted: bool,
    ) {
        if let Phase::Waiting(waiting) = &mut self.phase
            && waiting.pending().attempt() == attempt
        {
            let until = waiting.reference.and_then(|reference| {
                reference.valid_until(server_us(at), offer, world.now(), world.rules())
            });
            match until {
                Some(_) => {
                    waiting.mail.granted =
                        Some(Granted { tokens, until, offer: true, wanted, slots: Vec::new() });
                }
                // There is nothing to count from, or nothing left of it: asking tells.
                None => waiting.mail.ask_again = true,
            }
            return self.read_mail(world);
        }
        self.handle_unclaimed(world, attempt, Pushed::Granted(tokens.base()));
    }
}

/// The server's answer as the engine reads it.
fn reply(setup: &Setup, answer: Answer) -> Reply<()> {
    match answer {
        Answer::Granted { tokens, waiters } => Reply::Granted(Granted {
            tokens,
            until: None,
            offer: false,
            wanted: waiters > 0,
            slots: Vec::new(),
        }),
        Answer::Queued { place, remaining, .. } => {
            let untold = match setup.bug {
                Some(Bug::OnlyTheHeadHasATimer) => place > 0,
                Some(Bug::CapTellsNobody) => remaining.is_zero(),
                _ => false,
            };
            let ask_again = answer.ask_again().filter(|_| !untold);
            Reply::Queued { ask_again: ask_again.unwrap_or(Duration::MAX) }
        }
        Answer::Busy(ask_again) => Reply::Busy { ask_again: Some(ask_again) },
        Answer::Ended => Reply::Ended,
        Answer::UsedUp => Reply::Refused(()),
    }
}
