//! The state of each attempt of this client. Acquire and release synchronize only here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasehold_core::backend::{AcquireRequest, EndedAttempts, Mode, Verdict};
use leasehold_core::clock::Clock;
use leasehold_core::{AttemptId, Now, Token};

use crate::lease::Lease;

/// The attempts of one client. Clones share their state.
#[derive(Clone, Debug)]
pub(crate) struct Attempts {
    all: Arc<Mutex<All>>,
    clock: Clock,
}

#[derive(Debug, Default)]
struct All {
    live: HashMap<AttemptId, Live>,
    ended: HashMap<AttemptId, Verdict>,
    /// The attempts of which a release was sent, answered or not.
    remembered: EndedAttempts,
}

/// What may be done for a request to convert a lease.
pub(crate) enum Conversion {
    /// The new attempt has the lease.
    Done(Live),
    /// The new attempt was ended, or refused before. The lease of the previous attempt, if it holds one.
    Over(Option<Live>),
    /// The previous attempt holds this lease.
    Held(Live),
}

/// An attempt that has not been released.
#[derive(Clone, Debug, Default)]
pub(crate) struct Live {
    /// Its key. A conversion leaves the key, for another attempt and mode.
    pub(crate) key: Vec<u8>,
    pub(crate) mode: Mode,
    /// The requested duration of its leases, in seconds.
    pub(crate) asked: i64,
    pub(crate) lease: Option<Lease>,
    /// When the last successful keep-alive of the lease was sent.
    pub(crate) alive: Now,
    /// The create revision of its key, which is its position in the queue.
    pub(crate) created: Option<i64>,
    /// Key and create revision of the attempt before it in the queue.
    pub(crate) before: Option<(Vec<u8>, i64)>,
    /// It has waited behind another attempt.
    pub(crate) waited: bool,
    /// The key whose watch has reported its deletion last.
    pub(crate) gone: Option<Vec<u8>>,
    /// True after the grant.
    pub(crate) held: bool,
    /// The token of the grant.
    pub(crate) token: Option<Token>,
    /// A record of the readers' token was stored under the name when the lock was granted.
    pub(crate) has_record: bool,
    /// A conversion of it was sent and not answered, so a copy may still arrive.
    pub(crate) converting: bool,
    /// The request that puts its key was sent more than once, so a copy may still arrive.
    pub(crate) resent: bool,
    /// The number of unanswered acquire requests.
    pub(crate) open: u32,
    /// The number of releases that were sent.
    pub(crate) ending: u32,
    /// The key is being moved to a longer lease.
    pub(crate) moving: bool,
    /// The leases to which the key was moved without an answer: it is under one of them, or under
    /// `lease`.
    pub(crate) moved: Vec<Lease>,
}

impl Live {
    /// Returns true if its key may be under this lease.
    pub(crate) fn owns(&self, lease: i64) -> bool {
        self.lease.iter().chain(&self.moved).any(|own| own.id == lease)
    }
}

impl Attempts {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { all: Arc::default(), clock }
    }

    /// Records that an acquire request is about to be sent; `None` if the attempt has been released.
    pub(crate) fn begin(&self, request: &AcquireRequest, key: Vec<u8>, asked: i64) -> Option<Live> {
        let mut all = self.all();
        if all.ended.contains_key(&request.attempt) {
            return None;
        }
        let live = all.live.entry(request.attempt).or_insert_with(|| Live {
            key,
            mode: request.mode,
            asked,
            ..Live::default()
        });
        if live.ending > 0 {
            return None;
        }
        live.open += 1;
        Some(live.clone())
    }

    /// Changes an attempt; `None` if it has been released.
    pub(crate) fn change<T>(
        &self,
        attempt: AttemptId,
        change: impl FnOnce(&mut Live) -> T,
    ) -> Option<T> {
        self.all().live.get_mut(&attempt).filter(|live| live.ending == 0).map(change)
    }

    /// Forgets an attempt that has no key on the server and returns its state; `None` if a request for
    /// it may still arrive there.
    pub(crate) fn forget(&self, attempt: AttemptId) -> Option<Live> {
        let mut all = self.all();
        let forgets = |live: &Live| live.open == 0 && live.ending == 0 && live.created.is_none();
        match all.live.get(&attempt).is_some_and(forgets) {
            true => all.live.remove(&attempt),
            false => None,
        }
    }

    /// Records that a release is about to be sent. Returns the attempt, or the result of an earlier
    /// release.
    pub(crate) fn end(&self, attempt: AttemptId) -> Result<Live, Verdict> {
        let mut all = self.all();
        if let Some(verdict) = all.ended.get(&attempt) {
            return Err(*verdict);
        }
        let Some(live) = all.live.get_mut(&attempt) else {
            all.ended.insert(attempt, Verdict::Gone);
            self.remember(&mut all, attempt);
            return Err(Verdict::Gone);
        };
        live.ending += 1;
        let live = live.clone();
        if live.ending == 1 {
            self.remember(&mut all, attempt);
        }
        Ok(live)
    }

    /// Records the answer to a release.
    pub(crate) fn ended(&self, attempt: AttemptId, verdict: Verdict) {
        let mut all = self.all();
        if all.live.remove(&attempt).is_some() {
            all.ended.insert(attempt, verdict);
        }
    }

    /// Returns what may be done to convert the lease of `from`, whose token is `base`, to one of `next`.
    pub(crate) fn convert(
        &self,
        from: AttemptId,
        base: Option<Token>,
        next: AttemptId,
    ) -> Conversion {
        let all = self.all();
        let holds = |attempt| {
            let live: Option<&Live> = all.live.get(&attempt);
            live.filter(|live| live.held && live.ending == 0).cloned()
        };
        let held = holds(from).filter(|live| live.token == base);
        match (holds(next), held) {
            (Some(live), _) => Conversion::Done(live),
            (None, Some(live)) if !all.ended.contains_key(&next) => Conversion::Held(live),
            (None, held) => Conversion::Over(held),
        }
    }

    /// Gives the lease of `from` to `next`, with this token. Returns false if one of them has ended.
    pub(crate) fn converted(
        &self,
        from: AttemptId,
        next: AttemptId,
        mode: Mode,
        token: Token,
    ) -> bool {
        let mut all = self.all();
        let ends = all.live.get(&from).is_none_or(|live| live.ending > 0);
        if ends || all.ended.contains_key(&next) {
            return false;
        }
        let Some(live) = all.live.remove(&from) else { return false };
        let (token, converting) = (Some(token), false);
        let live = Live { mode, token, converting, has_record: true, held: true, ..live };
        all.live.insert(next, live);
        all.ended.insert(from, Verdict::Released);
        self.remember(&mut all, from);
        true
    }

    /// Refuses later requests of an attempt that has got no lease.
    pub(crate) fn refuse(&self, attempt: AttemptId) {
        let mut all = self.all();
        if !all.live.contains_key(&attempt) && all.ended.insert(attempt, Verdict::Gone).is_none() {
            self.remember(&mut all, attempt);
        }
    }

    /// Returns true while the attempt holds its lock and no release has begun.
    pub(crate) fn holds(&self, attempt: AttemptId) -> bool {
        self.all().live.get(&attempt).is_some_and(|live| live.held && live.ending == 0)
    }

    /// Returns true if the key of the attempt may be under this lease.
    pub(crate) fn owns(&self, attempt: AttemptId, lease: i64) -> bool {
        self.all().live.get(&attempt).is_some_and(|live| live.owns(lease))
    }

    /// Returns the leases of the waiting attempts.
    pub(crate) fn waiting(&self) -> Vec<Lease> {
        let all = self.all();
        all.live.values().filter(|live| !live.held).filter_map(|live| live.lease).collect()
    }

    /// Schedules when the result of a release may be dropped, and drops those that are due.
    fn remember(&self, all: &mut All, attempt: AttemptId) {
        let now = self.clock.now();
        all.remembered.push(now, attempt);
        while let Some(oldest) = all.remembered.pop_due(now) {
            all.ended.remove(&oldest);
            all.live.remove(&oldest);
        }
    }

    fn all(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use leasehold_core::backend::Origin;
    use leasehold_core::clock::ManualClock;
    use leasehold_core::{ClientId, Name};

    use super::*;

    fn request(number: u32) -> AcquireRequest {
        AcquireRequest::new(
            Name::new("a").unwrap(),
            AttemptId::new(ClientId::from_bits(1), number, 0),
            Duration::from_secs(30),
        )
        .with_origin(Origin::new("host", 1, None))
    }

    #[test]
    fn what_has_begun_to_end_is_not_asked_for_again() {
        let hand = ManualClock::new();
        let attempts = Attempts::new(hand.clock());
        let request = request(1);
        assert!(attempts.begin(&request, Vec::new(), 30).is_some());
        assert_eq!(attempts.end(request.attempt).unwrap().ending, 1);
        assert!(attempts.begin(&request, Vec::new(), 30).is_none());
        assert!(attempts.change(request.attempt, |_| ()).is_none(), "an acquire that is under way");
        assert_eq!(attempts.end(request.attempt).unwrap().ending, 2);
        attempts.ended(request.attempt, Verdict::Released);
        attempts.ended(request.attempt, Verdict::Lost);
        assert_eq!(attempts.end(request.attempt).unwrap_err(), Verdict::Released);
        assert!(attempts.begin(&request, Vec::new(), 30).is_none());
    }

    #[test]
    fn a_lease_is_not_free_while_an_ask_is_open() {
        let attempts = Attempts::new(ManualClock::new().clock());
        let request = request(1);
        attempts.begin(&request, Vec::new(), 30).unwrap();
        assert!(attempts.forget(request.attempt).is_none());
        attempts.change(request.attempt, |live| live.open -= 1);
        assert!(attempts.forget(request.attempt).is_some());
        assert!(attempts.forget(request.attempt).is_none());
    }

    #[test]
    fn a_conversion_ends_one_attempt_and_begins_the_other() {
        let attempts = Attempts::new(ManualClock::new().clock());
        let (from, next, other) = (request(1).attempt, request(2).attempt, request(3).attempt);
        let token = |token| Token::new(token).unwrap();
        attempts.begin(&request(1), b"key".to_vec(), 30).unwrap();
        let convert = |next| attempts.convert(from, Some(token(7)), next);
        assert!(matches!(convert(next), Conversion::Over(None)), "it does not hold");
        attempts.change(from, |live| (live.held, live.token) = (true, Some(token(7))));
        attempts.refuse(other);
        assert!(matches!(convert(other), Conversion::Over(Some(_))), "it was refused");
        assert!(matches!(convert(next), Conversion::Held(_)));
        assert!(!attempts.converted(from, other, Mode::Shared, token(8)));
        assert!(attempts.converted(from, next, Mode::Shared, token(8)));
        let Conversion::Done(live) = convert(next) else { panic!("not converted") };
        assert_eq!((live.key, live.token), (b"key".to_vec(), Some(token(8))));
        assert_eq!(attempts.end(from).unwrap_err(), Verdict::Released);
        attempts.end(next).unwrap();
        assert!(matches!(convert(next), Conversion::Over(None)), "it has ended");
    }

    #[test]
    fn ends_are_forgotten_in_time_answered_or_not() {
        let hand = ManualClock::new();
        let attempts = Attempts::new(hand.clock());
        for number in 0..2 {
            attempts.begin(&request(number), Vec::new(), 30).unwrap();
            attempts.end(request(number).attempt).unwrap();
        }
        attempts.ended(request(0).attempt, Verdict::Released);
        hand.advance(EndedAttempts::KEEP);
        assert_eq!(attempts.end(request(2).attempt).unwrap_err(), Verdict::Gone);
        let all = attempts.all();
        assert_eq!((all.live.len(), all.ended.len(), all.remembered.len()), (0, 1, 1));
    }
}
