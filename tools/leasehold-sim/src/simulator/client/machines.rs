//! What a client does with its machines: replies, renewals, losses.

use leasehold_proto::quorum::{Event, NodeReply, Refusal};
use leasehold_proto::{Deadline, LossReason, Now, Step, Token, drift};

use super::acquiring::Acquiring;
use super::{Client, Phase, Said, behind, belief};
use crate::simulator::parcel::Parcel;
use crate::simulator::{Belief, Bug, ClientChange, Plan, Rng, SECOND, Setup};

impl Client {
    /// Takes what has arrived.
    pub(in crate::simulator) fn take(
        &mut self,
        plan: &Plan,
        time: u64,
        rng: &mut Rng,
        parcel: Parcel,
        said: &mut Vec<Said>,
    ) {
        self.slow_down(plan, time);
        let now = self.clock.read(time);
        let slow = self.machine_now(time);
        match parcel {
            Parcel::Written => self.written(time, rng, said),
            Parcel::Free => self.acquiring.iter_mut().for_each(Acquiring::handle_freed),
            Parcel::Done(node, serial, reply) => {
                let bits = rng.bits();
                if let Some(admission) = &mut self.admission {
                    admission.handle_reply(now, node, serial, reply, bits);
                }
            }
            Parcel::Reply(id, request, reply) => {
                let place = self.place(plan, request.node);
                if let (
                    Some(admission),
                    NodeReply::Refused(Refusal::Stranger | Refusal::NotAdmitted),
                ) = (&mut self.admission, reply)
                {
                    admission.handle_doubt(now, place);
                }
                if let Some(attempt) = self.attempts.iter_mut().find(|one| one.id() == id) {
                    attempt.handle_reply(slow, request.node, request.round, reply);
                }
            }
        }
    }

    /// Which node an attempt means.
    pub(in crate::simulator) fn place(&self, plan: &Plan, node: usize) -> usize {
        match plan.bug {
            Some(Bug::MajorityOfConnected) => self.connected.get(node).copied().unwrap_or(node),
            _ => node,
        }
    }
    pub(super) fn listen(&mut self, plan: &Plan, time: u64, rng: &mut Rng, said: &mut Vec<Said>) {
        let now = self.clock.read(time);
        let last = self.attempts.len();
        for index in 0..last {
            let current = index + 1 == last;
            while let Some(event) = self.attempts[index].poll_event() {
                self.seen = self.seen.max(self.attempts[index].seen());
                if current {
                    self.hear(plan, time, now, event, rng, said);
                }
            }
        }
    }

    fn hear(
        &mut self,
        plan: &Plan,
        time: u64,
        now: Now,
        event: Event,
        rng: &mut Rng,
        said: &mut Vec<Said>,
    ) {
        let bits = rng.bits();
        // Stories renew as exactly as their numbers have it.
        let jitter = if plan.clocks_differ { bits } else { 1 << 56 };
        if let (Event::Denied(denied), Phase::Wants) = (&event, self.phase)
            && self.repeats(plan, now, denied, said)
        {
            return;
        }
        let Some(attempt) = self.attempts.last_mut() else { return };
        let timed = belief(plan) == Belief::Deadline;
        match (event, &mut self.lease, self.phase) {
            (Event::Held { token, until, .. }, _, Phase::Wants) => {
                if plan.bug == Some(Bug::SetThenExpire) {
                    attempt.renew(now, plan.ttl);
                }
                let mut until = timed.then_some(until);
                if let Some(first) = self.repeated.take() {
                    // The lease counts from the first request.
                    let counted = Deadline::after(first, plan.ttl - drift(plan.ttl));
                    until = until.map(|until| until.min(counted));
                    said.push(Said::Changed(ClientChange::OwnValue));
                }
                self.handle_held(plan, time, (token, until), (bits, jitter), rng, said);
            }
            (Event::Denied(denied), _, Phase::Wants) => {
                self.handle_denied(plan, time, &denied, bits, rng, said);
            }
            (Event::Renewed { until }, Some(lease), _) => {
                // Both count from when the renewal was sent, but for a planted bug.
                let sent = match plan.bug {
                    Some(Bug::BoundFromTheReply) => now,
                    _ => self.renewed,
                };
                lease.handle_renewed(sent, now, jitter);
                let _ = until;
                said.extend(self.token().map(|token| Said::Renewed { token }));
            }
            (Event::NotRenewed, Some(lease), _) => lease.handle_renewal_failed(now, bits),
            // Redisson's watchdog stops, and the program is not told.
            (Event::Lost, _, _) if plan.setup == Setup::RedissonRedlock => {}
            (Event::Lost, Some(lease), _) => {
                if let Step::Lost(_) = lease.handle_lost(LossReason::NotOwner) {
                    self.lost(time, true, rng, said);
                }
            }
            _ => {}
        }
    }

    /// Renews, and notices the end of the lease.
    pub(super) fn watch(&mut self, plan: &Plan, time: u64, rng: &mut Rng, said: &mut Vec<Said>) {
        let now = self.clock.read(time);
        loop {
            let Some(lease) = &mut self.lease else { return };
            let ended = lease.deadline().is_some_and(|deadline| deadline.has_passed(now));
            match lease.handle_timeout(now) {
                Step::Wait => return,
                Step::Renew => {
                    self.renewed = now;
                    let Some(attempt) = self.attempts.last_mut() else { return };
                    // With these bugs the client does not check whether the lease has ended.
                    if let Some(Bug::RenewalRecreates | Bug::RenewalByExpire) = plan.bug
                        && let Some(deadline) = attempt.deadline()
                    {
                        let due = deadline.steady_ns().saturating_sub(SECOND / 2);
                        self.lag = self.lag.max(now.steady_ns.saturating_sub(due));
                    }
                    attempt.renew(behind(now, self.lag), plan.ttl);
                    self.listen(plan, time, rng, said);
                }
                Step::Lost(_) => {
                    self.lost(time, !ended || self.startled, rng, said);
                }
                Step::End => {}
            }
        }
    }

    /// The token that the program works with.
    pub(in crate::simulator) fn token(&self) -> Option<Token> {
        match self.phase {
            Phase::Works { token, .. } | Phase::Writes { token, .. } | Phase::Waits { token } => {
                Token::new(token)
            }
            _ => None,
        }
    }

    fn lost(&mut self, time: u64, in_time: bool, rng: &mut Rng, said: &mut Vec<Said>) {
        if matches!(self.phase, Phase::Works { .. }) {
            said.push(Said::Lost { in_time });
            self.finish(time, rng, said);
        }
    }
}
