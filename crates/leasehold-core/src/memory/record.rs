//! One lock in memory: who holds it, who waits, and the steps of the hand-off protocol.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::{AttemptId, Deadline, Now, Token, TokenBlock, drift};

use crate::backend::{Answer, Ask, Event, Forced, Grant, Holder, Renewed, State, Term, Verdict};
use crate::{Error, ErrorKind, Name, Result};

/// A lease that is pushed to a waiter lasts this long until its first renewal confirms it.
const OFFER: Duration = Duration::from_secs(2);
/// How long an ended attempt is remembered, in case a request of it is still on its way.
const TOMBSTONE: Duration = Duration::from_secs(60);

/// How a record reaches the clients: false when nobody is there to receive.
pub(super) type Push<'a> = &'a dyn Fn(AttemptId, Event) -> bool;

#[derive(Debug, Default)]
pub(super) struct Record {
    lease: Option<Lease>,
    /// First token of the current or last lease, and the highest that was ever reserved.
    base: u64,
    top: u64,
    /// Base of the last lease that ended other than by its release.
    lost: u64,
    queue: VecDeque<Ask>,
    queued_at: HashMap<AttemptId, Now>,
    tombstones: HashMap<AttemptId, Now>,
    last_holder: Option<(Arc<Holder>, u64)>,
    touched: Now,
}

#[derive(Debug)]
struct Lease {
    owner: AttemptId,
    /// Steady time of the store's clock at which it ends.
    until_ns: u64,
    /// An offer that its owner has not confirmed yet.
    offered: bool,
    /// Its holder has released it; it stays taken.
    kept: bool,
}

impl Record {
    pub(super) fn acquire(&mut self, now: Now, ask: &Ask, push: Push<'_>) -> Result<Answer> {
        self.touched = now;
        if self.tombstones.contains_key(&ask.attempt) {
            return Ok(Answer::Ended);
        }
        if let Some(lease) = self.lease.as_mut().filter(|lease| lease.until_ns > now.steady_ns) {
            if lease.owner == ask.attempt && lease.kept {
                return Ok(Answer::Ended);
            }
            if lease.owner == ask.attempt {
                lease.offered = false;
                lease.until_ns = lease.until_ns.max(after(now, ask.ttl));
                return Ok(self.granted());
            }
            let owner = lease.owner;
            if !ask.wait {
                return Ok(Answer::Busy { ask_again: Some(self.remaining(now)) });
            }
            if self.enqueue(now, ask) {
                push(owner, Event::Wanted { attempt: owner });
            }
            return Ok(self.queued(now, ask.attempt));
        }
        let late_offer = self.lease.as_ref().is_some_and(|l| l.owner == ask.attempt && l.offered);
        self.expire();
        let first = self.queue.front().is_none_or(|head| head.attempt == ask.attempt);
        if late_offer || first || !ask.fair {
            self.grant(now, ask, ask.ttl, false)?;
            return Ok(self.granted());
        }
        if ask.wait {
            self.enqueue(now, ask);
        }
        self.hand_on(now, ask.wait.then_some(ask.attempt), push)?;
        match &self.lease {
            Some(lease) if lease.owner == ask.attempt => Ok(self.granted()),
            Some(_) if ask.wait => Ok(self.queued(now, ask.attempt)),
            Some(_) => Ok(Answer::Busy { ask_again: Some(self.remaining(now)) }),
            None => {
                self.grant(now, ask, ask.ttl, false)?;
                Ok(self.granted())
            }
        }
    }

    pub(super) fn renew(
        &mut self,
        now: Now,
        attempt: AttemptId,
        base: Token,
        ttl: Duration,
    ) -> Renewed {
        let current = self.base == base.get();
        match &mut self.lease {
            Some(lease)
                if current
                    && lease.owner == attempt
                    && !lease.kept
                    && lease.until_ns > now.steady_ns =>
            {
                lease.offered = false;
                lease.until_ns = lease.until_ns.max(after(now, ttl));
                Renewed::Renewed
            }
            _ => Renewed::Lost,
        }
    }

    pub(super) fn release(
        &mut self,
        now: Now,
        end: &crate::backend::End,
        push: Push<'_>,
    ) -> Result<Verdict> {
        self.touched = now;
        self.dequeue(end.attempt);
        self.tombstones.retain(|_, since| after(*since, TOMBSTONE) > now.steady_ns);
        if end.suspect {
            self.tombstones.insert(end.attempt, now);
        }
        let owned = self.lease.as_ref().filter(|l| l.owner == end.attempt && !l.kept);
        let Some(lease) = owned else { return Ok(self.verdict_on_the_past(end.base)) };
        let alive = lease.until_ns > now.steady_ns;
        let same = end.base.is_none_or(|base| base.get() == self.base);
        if !alive {
            self.lost = self.base;
        } else if let (true, Some(_), Some(last)) = (same, end.base, end.last) {
            self.top = self.base.max(last.get());
        }
        match end.keep.filter(|_| alive) {
            Some(keep) => {
                let until_ns = after(now, keep);
                self.lease =
                    Some(Lease { owner: end.attempt, until_ns, offered: false, kept: true });
                // The head reckons with the lease's end; the keep's end is another time.
                self.tell_next(now, push);
            }
            None => {
                self.lease = None;
                self.hand_on(now, None, push)?;
            }
        }
        Ok(if alive && same { Verdict::Released } else { Verdict::Lost })
    }

    pub(super) fn force_release(
        &mut self,
        now: Now,
        token: Token,
        push: Push<'_>,
    ) -> Result<Forced> {
        self.touched = now;
        let alive = self.lease.as_ref().is_some_and(|lease| lease.until_ns > now.steady_ns);
        if !alive {
            return Ok(Forced::NotHeld);
        }
        if !(self.base..=self.top).contains(&token.get()) {
            return Ok(Token::new(self.base).map_or(Forced::NotHeld, Forced::Other));
        }
        self.expire();
        self.hand_on(now, None, push)?;
        Ok(Forced::Ended)
    }

    pub(super) fn status(&self, now: Now, name: &Name) -> crate::backend::Status {
        let lease = self.lease.as_ref().filter(|lease| lease.until_ns > now.steady_ns);
        let waiter = |ask: &Ask| crate::backend::Waiter {
            holder: Holder::clone(&ask.holder),
            since_unix_ms: self.queued_at.get(&ask.attempt).copied().unwrap_or(now).unix_ms(),
        };
        crate::backend::Status {
            name: name.clone(),
            state: match lease {
                None => State::Free,
                Some(lease) if lease.kept => State::Kept,
                Some(_) => State::Held,
            },
            holder: self.last_holder.as_ref().map(|(holder, _)| Holder::clone(holder)),
            token: Token::new(self.base),
            since_unix_ms: self.last_holder.as_ref().map(|(_, since)| *since),
            remaining: lease.map(|_| self.remaining(now)),
            waiters: Some(self.queue.iter().map(waiter).collect()),
            note: None,
        }
    }

    /// True when nothing would be lost but the memory of the last holder.
    pub(super) fn is_idle(&self, now: Now, retention: Duration) -> bool {
        let alive = self.lease.as_ref().is_some_and(|lease| lease.until_ns > now.steady_ns);
        !alive && self.queue.is_empty() && after(self.touched, retention) <= now.steady_ns
    }

    /// What became of a lease that is not the current one any more.
    fn verdict_on_the_past(&self, base: Option<Token>) -> Verdict {
        let Some(base) = base.map(Token::get) else { return Verdict::Gone };
        match self.lost.cmp(&base) {
            _ if self.top < base => Verdict::Lost,
            std::cmp::Ordering::Less => Verdict::Released,
            std::cmp::Ordering::Equal => Verdict::Lost,
            std::cmp::Ordering::Greater => Verdict::Unknown,
        }
    }

    /// Ends the current lease other than by its release.
    fn expire(&mut self) {
        if let Some(lease) = self.lease.take()
            && !lease.kept
        {
            self.lost = self.base;
        }
    }

    /// Gives the free lock to the first waiter that can be reached. `caller` needs no push.
    fn hand_on(&mut self, now: Now, caller: Option<AttemptId>, push: Push<'_>) -> Result<()> {
        while let Some(head) = self.queue.front().cloned() {
            if caller == Some(head.attempt) {
                self.grant(now, &head, head.ttl, false)?;
                break;
            }
            let offer = OFFER.min(head.ttl);
            let term = Term::Offer(Deadline::after(now, offer.saturating_sub(drift(offer))));
            let tokens = self.next_tokens(now, head.tokens)?;
            let (name, attempt) = (head.name.clone(), head.attempt);
            let grant = Grant { tokens, term };
            if push(attempt, Event::Granted { name, attempt, grant }) {
                self.grant(now, &head, offer, true)?;
                break;
            }
            self.dequeue(head.attempt);
        }
        self.tell_next(now, push);
        Ok(())
    }

    /// Tells the new first in line when to ask should nothing else be heard.
    fn tell_next(&mut self, now: Now, push: Push<'_>) {
        while self.lease.is_some() {
            let Some(head) = self.queue.front().map(|head| head.attempt) else { return };
            let ask_again = self.remaining(now);
            if push(head, Event::Next { attempt: head, ask_again }) {
                return;
            }
            self.dequeue(head);
        }
    }

    fn grant(&mut self, now: Now, ask: &Ask, term: Duration, offered: bool) -> Result<()> {
        let tokens = self.next_tokens(now, ask.tokens)?;
        self.base = tokens.base().get();
        self.top = tokens.top().get();
        self.lease =
            Some(Lease { owner: ask.attempt, until_ns: after(now, term), offered, kept: false });
        self.last_holder = Some((ask.holder.clone(), now.unix_ms()));
        self.dequeue(ask.attempt);
        Ok(())
    }

    /// `max(top + 1, wall clock in microseconds)`: tokens grow even after the record was lost.
    fn next_tokens(&self, now: Now, count: u32) -> Result<TokenBlock> {
        Token::new((self.top + 1).max(now.unix_us()))
            .and_then(|base| TokenBlock::new(base, count.max(1)))
            .ok_or_else(|| Error::new(ErrorKind::Foreign, "the lock's tokens are used up (2^53-1)"))
    }

    fn granted(&self) -> Answer {
        let tokens = Token::new(self.base)
            .and_then(|base| TokenBlock::new(base, (self.top - self.base + 1) as u32));
        match tokens {
            Some(tokens) => Answer::Granted(Grant { tokens, term: Term::Ttl }),
            None => Answer::Ended,
        }
    }

    fn queued(&self, now: Now, attempt: AttemptId) -> Answer {
        let place = self.queue.iter().take_while(|ask| ask.attempt != attempt).count();
        let ask_again = self.remaining(now) + OFFER * place as u32;
        Answer::Queued { place: Some(place as u64), ask_again }
    }

    fn enqueue(&mut self, now: Now, ask: &Ask) -> bool {
        let new = !self.queued_at.contains_key(&ask.attempt);
        if new {
            self.queue.push_back(ask.clone());
            self.queued_at.insert(ask.attempt, now);
        }
        new
    }

    fn dequeue(&mut self, attempt: AttemptId) {
        if self.queued_at.remove(&attempt).is_some() {
            self.queue.retain(|ask| ask.attempt != attempt);
        }
    }

    fn remaining(&self, now: Now) -> Duration {
        let until = self.lease.as_ref().map_or(0, |lease| lease.until_ns);
        Duration::from_nanos(until.saturating_sub(now.steady_ns))
    }
}

fn after(now: Now, time: Duration) -> u64 {
    now.steady_ns.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}
