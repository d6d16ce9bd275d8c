//! The attempts of this client that wait at the server, and those that are being ended.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foldhash::fast::RandomState;
use leasehold_core::backend::{AcquireRequest, Origin};
use leasehold_core::proto::client::PushReference;
use leasehold_core::{AttemptId, Now};

use crate::request::Member;

/// How many waiters an empty table keeps space for, and how many attempts it holds before it
/// removes old endings.
const ROOM: usize = 128;
/// How long the queue entry of an attempt is remembered after the last request to end it. An end
/// without an answer is repeated much sooner than this, or not at all.
const ENDING: Duration = Duration::from_secs(60);

/// The attempts that wait, or may wait, at the server. It is cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiters(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    all: HashMap<AttemptId, Waiting, RandomState>,
    /// How many entries are allowed before old endings are removed.
    room: usize,
}

/// The queue entry of an attempt.
#[derive(Clone, Debug)]
struct Waiting {
    /// How many slots of a semaphore it waits for.
    slots: Option<u32>,
    ttl: Duration,
    tokens: u32,
    origin: Arc<Origin>,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// It waits; with the reference time for pushes, if there is one.
    Waits(Option<PushReference>),
    /// A release was sent, the last time at this moment.
    Ends(Now),
}

impl Waiters {
    /// Adds an attempt that is about to wait, without a reference time. Returns true if it is new.
    pub(crate) fn enter(&self, request: &AcquireRequest) -> bool {
        let mut table = self.lock();
        let new = !table.all.contains_key(&request.attempt);
        if new {
            let (ttl, tokens, origin) = (request.ttl, request.tokens, request.origin.clone());
            let slots = request.demand.map(|demand| demand.slots());
            let waiting = Waiting { slots, ttl, tokens, origin, state: State::Waits(None) };
            table.all.insert(request.attempt, waiting);
        }
        new
    }

    /// Records that its acquire was answered `Queued`.
    pub(crate) fn refer(&self, attempt: AttemptId, sent: Now, server_us: u64) {
        if let Some(Waiting { state: State::Waits(reference), .. }) =
            self.lock().all.get_mut(&attempt)
        {
            *reference = Some(PushReference { sent, server_us });
        }
    }

    /// Records that the attempt is being ended and does not wait any more. Returns its queue entry,
    /// if it may have one.
    pub(crate) fn end(&self, attempt: AttemptId, now: Now) -> Option<Box<str>> {
        let mut table = self.lock();
        if table.all.len() > table.room {
            table.all.retain(|_, waiting| !waiting.is_forgotten(now));
            table.room = 2 * table.all.len() + ROOM;
        }
        let waiting = table.all.get_mut(&attempt)?;
        waiting.state = State::Ends(now);
        let Waiting { slots, ttl, tokens, origin, .. } = waiting;
        Some(Member { slots: *slots, ttl: *ttl, tokens: *tokens, origin }.text(attempt).into())
    }

    /// Removes an attempt that does not wait any more: it holds the lease, or its end was answered.
    pub(crate) fn leave(&self, attempt: AttemptId) {
        let mut table = self.lock();
        table.all.remove(&attempt);
        if table.all.is_empty() {
            table.all.shrink_to(ROOM);
            table.room = 0;
        }
    }

    /// Drops all reference times after a reconnect: a waiter that gets a push then asks.
    pub(crate) fn forget_references(&self) {
        for waiting in self.lock().all.values_mut() {
            if let State::Waits(reference) = &mut waiting.state {
                *reference = None;
            }
        }
    }

    /// Returns the reference time for a push; `None` for an attempt that does not wait.
    pub(crate) fn reference(&self, attempt: AttemptId) -> Option<Option<PushReference>> {
        match self.lock().all.get(&attempt)?.state {
            State::Waits(reference) => Some(reference),
            State::Ends(_) => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// Returns true if its end was sent so long ago that no task repeats it.
    fn is_forgotten(&self, now: Now) -> bool {
        let State::Ends(asked) = self.state else { return false };
        now.steady_ns.saturating_sub(asked.steady_ns) >= ENDING.as_nanos() as u64
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::clock::ManualClock;

    use super::*;
    use crate::sample_requests::request;

    #[test]
    fn an_attempt_that_is_being_ended_waits_no_more_and_knows_its_place() {
        let (waiters, clock) = (Waiters::default(), ManualClock::new());
        let now = clock.clock().now();
        let request = request(1);
        assert!(waiters.enter(&request) && !waiters.enter(&request));
        waiters.refer(request.attempt, now, 7);
        assert!(waiters.reference(request.attempt).flatten().is_some());
        let member = waiters.end(request.attempt, now).unwrap();
        assert!(waiters.reference(request.attempt).is_none(), "a push would have no receiver");
        assert_eq!(
            waiters.end(request.attempt, now),
            Some(member),
            "a repeated call returns the same"
        );
        waiters.leave(request.attempt);
        assert_eq!(waiters.end(request.attempt, now), None);
    }

    #[test]
    fn endings_that_are_never_answered_take_no_more_room_than_a_minute_of_them() {
        let (waiters, clock) = (Waiters::default(), ManualClock::new());
        let clock_now = clock.clock();
        for sequence in 0..100 * ROOM as u32 {
            let request = request(sequence);
            waiters.enter(&request);
            waiters.end(request.attempt, clock_now.now()).unwrap();
            clock.advance(ENDING / ROOM as u32);
        }
        let table = waiters.lock();
        assert!(table.all.len() <= 3 * ROOM + 1, "{}", table.all.len());
    }
}
