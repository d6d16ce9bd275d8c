//! What happens to a lease or an attempt when its task releases or leaves it: the next local waiter
//! takes it over with a new token, or it goes back to the engine. The decisions are those of
//! [`leasehold_proto::client`]; this file keeps the local queue.

use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::client::{
    Leave, PendingAttempt, Release, Silence, Sound, decide_cache, decide_leave, decide_release,
};
use leasehold_proto::{Deadline, Now};

use crate::backend::{AcquireRequest, Mode, ReleaseRequest, mode_of};
use crate::engine_request::acquire_request;
use crate::hold::Hold;
use crate::local_queue::{EngineRequest, Handover, LocalWaiter, Released, Wish};
use crate::pending_release::PendingRelease;
use crate::shared::Shared;
use crate::{Error, Name};

/// What a task that releases a lease must still do.
#[derive(Debug)]
pub(crate) enum Onward {
    /// Nothing: the next local waiter has it.
    Passed,
    /// The client keeps it for its next task, and another one must be given back, if there is one.
    Cached(Option<Arc<Hold>>),
    /// End it at the engine, and in the same step ask for the next local waiter, if there is one.
    End(Option<Box<AcquireRequest>>),
}

/// Releases a lease whose end the caller has claimed. A lease that must stay taken for a while is
/// not handed to a local waiter, nor one whose next holder the store must show.
pub(crate) fn hand_off(shared: &Shared, hold: &Arc<Hold>, keep: bool, now: Now) -> Onward {
    let cache = |wanted| {
        let time = hold.cache();
        if time.is_zero() || keep || shared.is_closed() {
            return None;
        }
        let until = decide_cache(&hold.lease(), &hold.tokens, time, wanted, now, Sound)?;
        Some((hold.clone(), until))
    };
    match mode_of(hold.attempt) {
        Mode::Shared if !hold.cache().is_zero() => {
            let cache = |writer_waits| {
                let read = shared.reading.remove(hold)?;
                cache(read.is_wanted(writer_waits))
            };
            return onward(shared, Mode::Shared, shared.queues.cache_read(&hold.name, cache));
        }
        Mode::Shared | Mode::Permit => return Onward::End(None),
        // The next local waiter has asked itself.
        Mode::Exclusive if !shared.passes => return Onward::End(None),
        Mode::Exclusive => {}
    }
    let turn = |wish: &Wish, wanted_ns: Option<u64>| {
        let waited = wanted_ns.map_or(0, |since| now.steady_ns.saturating_sub(since));
        let (lease, waited) = (hold.lease(), Duration::from_nanos(waited));
        let next = wish.successor();
        let end = keep || wish.alone;
        match decide_release(&lease, &hold.tokens, end, &next, waited, now, Sound) {
            Release::End => (Handover::Ask(None), Onward::End(None)),
            Release::PassOn => (Handover::Lease(hold.clone()), Onward::Passed),
            Release::Exchange => {
                let (turn, request) = request_for(shared, &hold.name, wish, now, None);
                (turn, Onward::End(Some(request)))
            }
        }
    };
    let released = shared.queues.release(&hold.name, hold.attempt, turn, cache);
    onward(shared, Mode::Exclusive, released)
}

fn onward(shared: &Shared, mode: Mode, released: Released<Onward>) -> Onward {
    match released {
        Released::Next(onward) => onward,
        Released::Cached(until, evicted) => {
            shared.cached(mode, until);
            Onward::Cached(evicted)
        }
        Released::Gone => Onward::End(None),
    }
}

/// Builds the request that the releasing task sends for the next local waiter. That waiter waits
/// for the answer, and asks itself if no answer has arrived after half of its timeout.
fn request_for(
    shared: &Shared,
    name: &Name,
    wish: &Wish,
    now: Now,
    silence: Option<Silence<Error>>,
) -> (Handover, Box<AcquireRequest>) {
    let request = acquire_request(name, wish, shared.new_attempt(wish.mode), true, true);
    let ask_at = Deadline::after(now, shared.patience / 2);
    let engine_request = EngineRequest {
        request: request.clone(),
        pending: PendingAttempt::in_exchange(request.attempt, ask_at, Sound),
        silence: Some(silence.unwrap_or(Silence { since: now, error: None })),
    };
    (Handover::Attempt(Box::new(engine_request)), Box::new(request))
}

/// Hands a lease on whose new holder left just then. Returns what must be ended.
pub(crate) fn hand_off_again(shared: &Shared, hold: &Arc<Hold>) -> Option<PendingRelease> {
    match hand_off(shared, hold, false, shared.clock.now()) {
        Onward::Passed => None,
        Onward::Cached(evicted) => evicted.and_then(|evicted| give_back(shared, &evicted)),
        Onward::End(then) => end(shared, hold, then),
    }
}

/// Takes a lease out of the books that has no holder any more. Returns what must be ended.
pub(crate) fn end(
    shared: &Shared,
    hold: &Hold,
    then: Option<Box<AcquireRequest>>,
) -> Option<PendingRelease> {
    shared.forget(hold);
    Some(PendingRelease::of_hold(hold, ReleaseRequest { then, ..hold.end(None) }))
}

/// Takes a lease out of the books that was cached until now. Returns what must be ended.
pub(crate) fn give_back(shared: &Shared, hold: &Hold) -> Option<PendingRelease> {
    shared.uncached(hold.mode());
    end(shared, hold, None)
}

/// Takes all cached leases out of the books. Returns what must be ended.
pub(crate) fn give_all_back(shared: &Shared) -> Vec<PendingRelease> {
    let all = shared.queues.take_all_cached();
    all.iter().filter_map(|hold| give_back(shared, hold)).collect()
}

/// Removes an asking task from the front. The next local waiter continues its attempt and keeps its
/// place in the engine's queue, or asks with its own. Returns what must be ended.
pub(crate) fn leave_front(
    shared: &Shared,
    name: &Name,
    waiter: &LocalWaiter,
    engine_request: Option<EngineRequest>,
) -> Option<PendingRelease> {
    let attempt = engine_request.as_ref().map(|engine_request| engine_request.request.attempt);
    let silence = engine_request.as_ref().and_then(|engine_request| engine_request.silence.clone());
    let mut left = engine_request;
    let mode = waiter.wish.mode;
    // A read lease is shared instead of passed on, so it is not exchanged either.
    let passes = shared.passes && mode == Mode::Exclusive;
    let then = shared.queues_of(mode).next(name, attempt, |wish, _| {
        let fits = wish.is_served_by(&waiter.wish);
        let leave = |left: &EngineRequest| decide_leave(&left.pending, fits, passes);
        match left.as_ref().map_or(Leave::Ask, leave) {
            Leave::Inherit => {
                let (had_mail, wanted) = {
                    let inbox = waiter.inbox();
                    (!inbox.mail.is_empty(), inbox.mail.wanted)
                };
                let inherit = |left: EngineRequest| {
                    let mut pending = left.pending.inherit(had_mail);
                    if wanted {
                        pending.handle_wanted();
                    }
                    Handover::Attempt(Box::new(EngineRequest { pending, ..left }))
                };
                (left.take().map_or(Handover::Ask(silence), inherit), None)
            }
            Leave::Exchange => {
                let (turn, request) = request_for(shared, name, wish, shared.clock.now(), silence);
                (turn, Some(request))
            }
            Leave::End | Leave::Ask => (Handover::Ask(silence), None),
        }
    });
    end_attempt(&left?, then.flatten())
}

/// Returns the end of an attempt that never became a hold; `None` if the engine cannot know it.
pub(crate) fn end_attempt(
    engine_request: &EngineRequest,
    then: Option<Box<AcquireRequest>>,
) -> Option<PendingRelease> {
    let AcquireRequest { name, ttl, .. } = &engine_request.request;
    let end = ReleaseRequest::of_machine(name.clone(), engine_request.pending.end()?);
    Some(PendingRelease::new(ReleaseRequest { then, ..end }, *ttl))
}
