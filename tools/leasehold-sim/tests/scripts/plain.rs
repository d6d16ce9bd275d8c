//! The hand-off protocol as its description has it, line by line, with no thought for speed.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_proto::handoff::{
    AcquireRequest, Answer, Forced, OFFER, Part, Push, ReleaseRequest, Renewed, TOMBSTONE, Verdict,
};
use leasehold_proto::{AttemptId, Token, TokenBlock};
use leasehold_sim::script::{Request, Said};

type Reach<'a> = &'a mut dyn FnMut(AttemptId, Push) -> bool;

/// The record's fields under the description's names, and the queue as a sorted set.
#[derive(Debug, Default)]
pub(crate) struct Plain {
    state: &'static str, // "" (free), "held", "kept"
    owner: Option<AttemptId>,
    base: u64,
    top: u64,
    until: Duration,
    conf: bool,
    lost: u64,
    queue: BTreeMap<u64, AcquireRequest>,
    ticket: u64,
    tombstones: BTreeMap<AttemptId, Duration>,
    now: Duration,
}

impl Plain {
    pub(crate) fn step(&mut self, now: Duration, request: &Request, reach: Reach<'_>) -> Said {
        self.now = now;
        match *request {
            Request::Acquire(request) => Said::Acquired(self.acquire(request, reach)),
            Request::Renew(attempt, base, ttl) => Said::Renewed(self.renew(attempt, base, ttl)),
            Request::Release(release) => Said::Released(self.release(release, reach)),
            Request::Rotate(release, request) => {
                let verdict = self.release(release, reach);
                Said::Rotated(verdict, self.acquire(request, reach))
            }
            Request::Force(token) => Said::Forced(self.force_release(token, reach)),
        }
    }

    pub(crate) fn forget(&mut self, part: Part) {
        match part {
            Part::Lease => {
                (self.state, self.owner, self.until) = ("", None, Duration::ZERO);
                (self.base, self.top, self.lost, self.conf) = (0, 0, 0, false);
            }
            Part::Queue => self.queue.clear(),
            Part::Tombstones => self.tombstones.clear(),
        }
    }

    fn alive(&self) -> bool {
        !self.state.is_empty() && self.until > self.now
    }

    fn remaining(&self) -> Duration {
        self.until.saturating_sub(self.now)
    }

    fn head(&self) -> Option<AcquireRequest> {
        self.queue.values().next().copied()
    }

    fn remove(&mut self, attempt: AttemptId) {
        self.queue.retain(|_, request| request.attempt != attempt);
    }

    fn block(&self) -> TokenBlock {
        let count = (self.top - self.base + 1) as u32;
        Token::new(self.base).and_then(|base| TokenBlock::new(base, count)).unwrap()
    }

    /// grant(a, ms, confirmed); the wall clock stands at zero.
    fn grant(&mut self, request: &AcquireRequest, ms: Duration, confirmed: bool) -> Answer {
        self.base = self.top + 1;
        self.top = self.base + u64::from(request.tokens) - 1;
        self.state = "held";
        self.owner = Some(request.attempt);
        self.until = self.now + ms;
        self.conf = confirmed;
        self.remove(request.attempt);
        self.granted()
    }

    fn granted(&self) -> Answer {
        Answer::Granted { tokens: self.block(), waiters: self.queue.len() }
    }

    fn hand_on(&mut self, caller: Option<AttemptId>, reach: Reach<'_>) {
        self.state = "";
        while let Some(w) = self.head() {
            if caller == Some(w.attempt) {
                self.grant(&w, w.ttl, true);
                break;
            }
            let tokens = Token::new(self.top + 1).and_then(|base| TokenBlock::new(base, w.tokens));
            let (offer, waiters) = (w.ttl.min(OFFER), self.queue.len() - 1);
            if !reach(w.attempt, Push::Granted { tokens: tokens.unwrap(), offer, waiters }) {
                self.remove(w.attempt);
                continue;
            }
            self.grant(&w, offer, false);
            break;
        }
        if !self.state.is_empty() {
            self.next(caller, reach);
        }
    }

    /// To the new first waiter; a first waiter that is the caller gets its answer instead.
    fn next(&mut self, caller: Option<AttemptId>, reach: Reach<'_>) {
        while let Some(w) = self.head() {
            let next = Push::Next { base: Token::new(self.base), remaining: self.remaining() };
            if caller == Some(w.attempt) || reach(w.attempt, next) {
                break;
            }
            self.remove(w.attempt);
        }
    }

    fn grant_now(&mut self, request: AcquireRequest, reach: Reach<'_>) -> Answer {
        self.grant(&request, request.ttl, true);
        self.next(Some(request.attempt), reach);
        self.granted()
    }

    fn queued(&self, a: AttemptId) -> Answer {
        let place = self.queue.values().position(|request| request.attempt == a).unwrap();
        Answer::Queued { place, base: Token::new(self.base), remaining: self.remaining() }
    }

    fn enqueue_once(&mut self, request: AcquireRequest) {
        if self.queue.values().all(|other| other.attempt != request.attempt) {
            self.ticket += 1;
            self.queue.insert(self.ticket, request);
        }
    }

    fn acquire(&mut self, request: AcquireRequest, reach: Reach<'_>) -> Answer {
        let a = request.attempt;
        if self.tombstones.get(&a).is_some_and(|until| *until > self.now) {
            return Answer::Ended;
        }
        if self.alive() {
            if self.owner == Some(a) && self.state == "kept" {
                return Answer::Ended;
            }
            if self.owner == Some(a) {
                self.conf = true;
                self.until = self.until.max(self.now + request.ttl);
                return self.granted();
            }
            if !request.wait {
                return Answer::Busy(self.remaining());
            }
            self.enqueue_once(request);
            if self.head().is_some_and(|head| head.attempt == a) {
                reach(self.owner.unwrap(), Push::Wanted { base: Token::new(self.base) });
            }
            return self.queued(a);
        }
        let late = self.state == "held" && self.owner == Some(a) && !self.conf;
        if self.state == "held" {
            self.lost = self.base;
        }
        self.state = "";
        let first = self.head().is_none_or(|head| head.attempt == a);
        if late || first || !request.fair {
            return self.grant_now(request, reach);
        }
        if request.wait {
            self.enqueue_once(request);
        }
        self.hand_on(request.wait.then_some(a), reach);
        if self.state.is_empty() {
            return self.grant_now(request, reach);
        }
        match (self.owner == Some(a), request.wait) {
            (true, _) => self.granted(),
            (false, true) => self.queued(a),
            (false, false) => Answer::Busy(self.remaining()),
        }
    }

    fn renew(&mut self, a: AttemptId, base: Token, full: Duration) -> Renewed {
        let held = self.alive() && self.state == "held";
        if !held || self.owner != Some(a) || self.base != base.get() {
            return Renewed::Lost;
        }
        self.conf = true;
        self.until = self.until.max(self.now + full);
        Renewed::Renewed { remaining: self.remaining(), waiters: self.queue.len() }
    }

    fn release(&mut self, release: ReleaseRequest, reach: Reach<'_>) -> Verdict {
        let base = release.base.map(Token::get);
        let was_first = self.head().is_some_and(|head| head.attempt == release.attempt);
        self.remove(release.attempt);
        if release.suspect {
            self.tombstones.insert(release.attempt, self.now + TOMBSTONE);
        }
        if self.state == "held" && self.owner == Some(release.attempt) {
            let ended = !self.alive();
            let different = base.is_some_and(|base| base != self.base);
            if ended {
                self.lost = self.base;
            }
            if let Some(last) = release.last.filter(|_| !ended && base == Some(self.base)) {
                self.top = self.base.max(last.get());
            }
            match release.keep.filter(|_| !ended && !different) {
                Some(keep) => {
                    self.state = "kept";
                    self.until = self.now + keep;
                    self.next(None, reach);
                }
                None => self.hand_on(None, reach),
            }
            return if ended || different { Verdict::Lost } else { Verdict::Released };
        }
        if was_first && !self.state.is_empty() {
            self.next(None, reach);
        }
        match base {
            None => Verdict::Gone,
            Some(base) if self.top < base => Verdict::Lost,
            Some(base) if self.lost < base => Verdict::Released,
            Some(base) if self.lost == base => Verdict::Lost,
            Some(_) => Verdict::Unknown,
        }
    }

    fn force_release(&mut self, token: Token, reach: Reach<'_>) -> Forced {
        let alive = self.alive();
        let named = self.base <= token.get() && token.get() <= self.top;
        if !named {
            let other = Token::new(self.base).filter(|_| alive);
            return other.map_or(Forced::NotHeld, Forced::Other);
        }
        if self.state == "held" {
            if alive {
                reach(self.owner.unwrap(), Push::Lost { base: Token::new(self.base) });
            }
            self.lost = self.base;
        }
        if !self.state.is_empty() {
            self.hand_on(None, reach);
        }
        if alive { Forced::Ended } else { Forced::NotHeld }
    }
}
