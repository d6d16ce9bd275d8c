//! Takes a released lock out of the books, after its minimum hold.

use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::{LossReason, Now};

use crate::backend::ReleaseRequest;
use crate::hold::Hold;
use crate::local_handoff::{self, Onward, give_back};
use crate::pending_release::PendingRelease;
use crate::shared::Shared;
use crate::telemetry::label;

/// Returns the rest of the minimum hold, by the steady clock.
fn rest_of_min_hold(shared: &Shared, hold: &Hold) -> Option<Duration> {
    if hold.min_hold().is_zero() {
        return None;
    }
    hold.min_hold().checked_sub(hold.held_for(shared.clock.now())).filter(|rest| !rest.is_zero())
}

/// Returns how long the backend must keep the lock, if it can.
pub(crate) fn keep(shared: &Shared, hold: &Hold) -> Option<Duration> {
    rest_of_min_hold(shared, hold).filter(|_| shared.capability.keep)
}

/// Returns true if a release must wait for the rest of the minimum hold: the engine cannot keep the
/// lock without the client.
pub(crate) fn lingers(shared: &Shared, hold: &Hold) -> bool {
    !shared.capability.keep && rest_of_min_hold(shared, hold).is_some()
}

/// Waits for the rest of the minimum hold if the engine cannot keep the lock without the client.
/// Renewal continues meanwhile. It does not wait for a lock that another client may hold by now. It
/// does wait for a lock that nears its maximum hold, which is held until then.
pub(crate) async fn linger(shared: &Shared, hold: &Hold) {
    if shared.capability.keep {
        return;
    }
    while let Some(rest) = rest_of_min_hold(shared, hold) {
        let lost = hold.lease().loss();
        if lost.is_some_and(|reason| reason != LossReason::MaxHold) {
            return;
        }
        let told = async {
            match lost {
                None => hold.lost_signal().cancelled().await,
                Some(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            () = shared.clock.sleep(rest) => {}
            () = told => {}
        }
    }
}

/// What must still be done for a hold whose end was claimed.
pub(crate) enum Closed {
    /// The next local waiter has the lease, or the client keeps it. What must be sent, if anything,
    /// ends another lease.
    Passed(Option<PendingRelease>),
    /// Send this. The flag says whether the lease was held until now.
    End(ReleaseRequest, bool),
}

/// Gives up a hold and removes it from the books; `None` if another task has ended it already.
pub(crate) fn close(
    shared: &Shared,
    hold: &Arc<Hold>,
    keep: Option<Duration>,
    now: Now,
) -> Option<Closed> {
    if !hold.claim_end() {
        shared.reading.remove(hold);
        return None;
    }
    let then = match local_handoff::hand_off(shared, hold, keep.is_some(), now) {
        Onward::Passed => return Some(Closed::Passed(None)),
        Onward::Cached(evicted) => {
            let evicted = evicted.and_then(|evicted| give_back(shared, &evicted));
            return Some(Closed::Passed(evicted));
        }
        Onward::End(then) => then,
    };
    shared.forget(hold);
    let ours = hold.lease().release(now);
    Some(Closed::End(ReleaseRequest { then, ..hold.end(keep) }, ours))
}

/// Records in the metrics how a lease ended whose loss was not reported.
pub(crate) fn record(shared: &Shared, hold: &Hold, released: bool, now: Now) {
    let meters = shared.meters.of(hold.mode());
    let meter = if released { &meters.released } else { &meters.lost };
    meter.increment(1);
    meters.held_for(hold.held_for(now));
    if !released {
        let mode = label(hold.mode());
        tracing::warn!(name = %hold.name, token = hold.token().get(), mode, "the lock was already \
                                                                             lost at its release");
    }
}

/// Removes a hold whose guards were dropped from the books; returns what must be sent.
pub(crate) fn close_dropped(
    shared: &Shared,
    hold: &Arc<Hold>,
    stay: bool,
) -> Option<PendingRelease> {
    let now = shared.clock.now();
    match close(shared, hold, keep(shared, hold).filter(|_| stay), now)? {
        Closed::End(release, ours) => {
            if ours {
                record(shared, hold, true, now);
            }
            Some(PendingRelease::of_hold(hold, release))
        }
        Closed::Passed(evicted) => {
            record(shared, hold, true, now);
            evicted
        }
    }
}
