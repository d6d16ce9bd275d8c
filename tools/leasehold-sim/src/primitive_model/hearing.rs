//! What a client does with what it receives.

use std::time::Duration;

use leasehold_proto::client::{
    AfterMail, AfterReply, Granted, PushReference, Reply, stray, unwanted,
};
use leasehold_proto::{AttemptId, Deadline, Now, TokenBlock};

use super::client::{World, now};
use super::{Answer, CacheBug, Client, Phase, Push, TICK};

/// The server's time in microseconds, as its answers and pushes tell it.
fn server_us(at: u8) -> u64 {
    (TICK * u32::from(at)).as_micros() as u64
}

impl Client {
    /// Handles the answer to the request that was sent last for an attempt.
    pub(super) fn handle_reply(
        &mut self,
        world: &mut World<'_>,
        attempt: AttemptId,
        (sent, at): (u8, u8),
        answer: Answer,
    ) {
        if let Answer::Ended(_) = answer {
            return self.endings.retain(|ending| ending.release.attempt != attempt);
        }
        let Some(found) = self.find(attempt) else { return };
        match answer {
            Answer::Ended(_) | Answer::Limit(_) => {}
            Answer::Renewed(renewed) => self.handle_renewed(world, found, sent, renewed),
            Answer::Converted(converted) => self.handle_converted(world, found, sent, converted),
            Answer::Granted { .. } | Answer::Queued(_) | Answer::Invalid | Answer::Over => {
                self.handle_acquired(world, found, (sent, at), answer);
            }
        }
    }

    fn handle_acquired(
        &mut self,
        world: &mut World<'_>,
        found: usize,
        (sent, at): (u8, u8),
        answer: Answer,
    ) {
        let Phase::Waiting(waiting) = &mut self.phases[found] else { return };
        if !waiting.pending.is_asking() {
            return;
        }
        let mut permit = Vec::new();
        let reply = match answer {
            Answer::Granted { tokens, slots, wanted } => {
                permit = slots;
                Reply::Granted(Granted {
                    tokens,
                    until: None,
                    offer: false,
                    wanted,
                    slots: Vec::new(),
                })
            }
            Answer::Queued(ask_again) => {
                waiting.reference =
                    Some(PushReference { sent: now(sent), server_us: server_us(at) });
                Reply::Queued { ask_again: ask_again.unwrap_or(Duration::ZERO) }
            }
            Answer::Over => Reply::Ended,
            _ => Reply::Refused(()),
        };
        match waiting.pending.handle_reply(world.now(), reply) {
            AfterReply::Hold(granted) => {
                self.hold(world, found, (granted, permit), now(sent));
            }
            AfterReply::Over => {
                let task = waiting.task;
                self.end_waiting(world, found);
                self.start(world, task);
            }
            AfterReply::Refused(()) => self.end_waiting(world, found),
            _ => {
                waiting.poll(world);
                self.read_mail(world, found);
            }
        }
    }

    /// Reads the messages, unless a request is on its way.
    pub(super) fn read_mail(&mut self, world: &mut World<'_>, found: usize) {
        let Some(Phase::Waiting(waiting)) = self.phases.get_mut(found) else { return };
        if waiting.pending.is_asking() {
            return;
        }
        let mail = waiting.mail.take();
        match waiting.pending.handle_mail(mail) {
            // A push contains its own validity.
            AfterMail::Granted(granted) => {
                let slots = std::mem::take(&mut waiting.slots);
                self.hold(world, found, (granted, slots), world.now());
            }
            AfterMail::Ask => self.ask(world, found),
            AfterMail::Wait if waiting.pending.ask_at().is_none() => self.ask(world, found),
            AfterMail::Wait | AfterMail::Reply(..) => {}
        }
    }

    fn handle_renewed(
        &mut self,
        world: &mut World<'_>,
        found: usize,
        sent: u8,
        renewed: Option<bool>,
    ) {
        let Phase::Holding(holding) = &mut self.phases[found] else { return };
        if holding.renewing.take().is_none() {
            return;
        }
        match renewed {
            Some(wanted) => {
                holding.lease.handle_renewed(now(sent), world.now(), 0);
                holding.offered &= !holding.lease.is_valid(world.now());
                let blind = holding.cached && world.cache_bug == Some(CacheBug::RenewedBlindly);
                if wanted && !blind {
                    self.hear_wanted(world, found);
                }
            }
            None => self.end_holding(world, found),
        }
    }

    pub(super) fn handle_push(
        &mut self,
        world: &mut World<'_>,
        attempt: AttemptId,
        at: u8,
        push: Push,
    ) {
        let Some(found) = self.find(attempt) else {
            match push {
                _ if self.tracks(attempt) => {}
                Push::Granted { tokens, slots, .. } => {
                    self.end(world, unwanted(attempt, tokens.base()), slots.first().copied());
                }
                Push::Wanted => self.end(world, stray(attempt), None),
                Push::Next(_) | Push::Refused => {}
            }
            return;
        };
        match (push, &mut self.phases[found]) {
            (Push::Granted { tokens, slots, offer, wanted }, Phase::Waiting(_)) => {
                self.handle_granted(world, found, (at, offer), (tokens, slots), wanted);
            }
            (Push::Next(remaining), Phase::Waiting(waiting)) => {
                waiting.mail.ask_by = Some(Deadline::after(world.now(), remaining));
                self.read_mail(world, found);
            }
            (Push::Refused, Phase::Waiting(waiting)) => {
                if waiting.pending.is_asking() {
                    // The answer may be an earlier one.
                    waiting.mail.ask_again = true;
                } else {
                    self.end_waiting(world, found);
                }
            }
            (Push::Wanted, Phase::Waiting(waiting)) => waiting.pending.handle_wanted(),
            (Push::Wanted, Phase::Holding(_)) => self.hear_wanted(world, found),
            (Push::Wanted, Phase::Converting(one)) => {
                one.conversion.handle_wanted(attempt);
            }
            _ => {}
        }
    }

    fn handle_granted(
        &mut self,
        world: &mut World<'_>,
        found: usize,
        (at, offer): (u8, Duration),
        (tokens, slots): (TokenBlock, Vec<u32>),
        wanted: bool,
    ) {
        let Phase::Waiting(waiting) = &mut self.phases[found] else { return };
        let valid = |reference: PushReference, now: Now| {
            reference.valid_until(server_us(at), offer, now, world.rules)
        };
        match waiting.reference.and_then(|reference| valid(reference, now(world.clock))) {
            Some(until) => {
                let until = Some(until);
                waiting.mail.granted =
                    Some(Granted { tokens, until, offer: true, wanted, slots: Vec::new() });
                waiting.slots = slots;
            }
            // There is nothing to count from, or nothing left of it: asking tells.
            None => waiting.mail.ask_again = true,
        }
        self.read_mail(world, found);
    }
}
