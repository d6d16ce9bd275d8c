//! Renewals that a guard asks for: an extension of a fixed lease, and the confirmation of an offer.

use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::{Deadline, LossReason, NotExtendable, Now};

use crate::backend::{Renewal, Renewed};
use crate::common_errors::{lost, no_answer};
use crate::hold::Hold;
use crate::options::{MAX_TTL, MIN_TTL, invalid, within};
use crate::shared::Shared;
use crate::{Error, Result};

/// Extends the lease of a hold to `duration` from now. If the future is dropped, the lease is valid
/// until its earlier deadline.
pub(crate) async fn extend(shared: &Shared, hold: &Arc<Hold>, duration: Duration) -> Result<()> {
    within("duration", duration, MIN_TTL, MAX_TTL)?;
    let longest = shared.capability.longest_ttl;
    if let Some(longest) = longest.filter(|longest| duration > *longest) {
        return Err(invalid(format!(
            "duration: {duration:?} is longer than this store grants at a time; extend by at most \
             {longest:?}, and again later"
        )));
    }
    let sent = shared.clock.now();
    let (ttl, deadline) = {
        let mut lease = hold.lease();
        let ttl = lease.extend(sent, duration).map_err(|why| refused(why, duration, longest))?;
        (ttl, lease.deadline())
    };
    renew(shared, hold, sent, (ttl, deadline)).await
}

/// Gets the whole ttl for a lease that the store has only offered. If the future is dropped, the
/// lease is valid until its earlier deadline, and the background task confirms it.
pub(crate) async fn confirm(shared: &Shared, hold: &Arc<Hold>) -> Result<()> {
    let sent = shared.clock.now();
    let (ttl, deadline) = {
        let lease = hold.lease();
        match (lease.is_valid(sent), lease.is_confirmed()) {
            (true, false) => (lease.terms().ttl, lease.deadline()),
            (true, true) => return Ok(()),
            (false, _) => {
                drop(lease);
                return Err(over(hold));
            }
        }
    };
    renew(shared, hold, sent, (ttl, deadline)).await
}

/// Renews a lease for `ttl`, and waits for the answer until the deadline of the lease at most.
async fn renew(
    shared: &Shared,
    hold: &Arc<Hold>,
    sent: Now,
    (ttl, deadline): (Duration, Option<Deadline>),
) -> Result<()> {
    let renewal = Renewal { ttl, ..hold.renewal() };
    let patience = Deadline::after(sent, shared.patience);
    let renewing = shared.backend.renew(std::slice::from_ref(&renewal));
    let answers = shared.called(sent, patience, deadline, renewing).await.unwrap_or_default();
    match answers.into_iter().next().unwrap_or_else(|| Err(no_answer())) {
        Ok(answer @ (Renewed::Renewed | Renewed::Wanted)) => {
            shared.meters.renewed.increment(1);
            if answer == Renewed::Wanted {
                // A lease that a guard uses is not cached, so nothing is given back here.
                shared.wanted(&hold.name, hold.attempt);
            }
            if shared.extended(hold, sent, ttl) { Ok(()) } else { Err(over(hold)) }
        }
        Ok(Renewed::Lost) => {
            shared.lose(hold, LossReason::NotOwner);
            Err(over(hold))
        }
        Err(error) => {
            shared.meters.renewal_failed.increment(1);
            Err(unknown(shared, hold, error))
        }
    }
}

/// Returns the error for a lease that cannot be extended; nothing was sent.
fn refused(why: NotExtendable, duration: Duration, longest: Option<Duration>) -> Error {
    let message = match why {
        NotExtendable::Over(reason) => return lost(reason.unwrap_or(LossReason::MaxHold)),
        NotExtendable::Renewed => {
            let of = longest.map_or(String::new(), |longest| format!(" of at most {longest:?}"));
            format!(
                "the client renews this lease until it is released, so there is nothing to \
                 extend; for an end that you set, acquire the lock with a `lease`{of}"
            )
        }
        NotExtendable::Session => "this lease lasts as long as its session, so there is \
                                   nothing to extend; release the lock when the work is done, and \
                                   set `max_hold` for the longest time"
            .to_owned(),
        NotExtendable::Shorter(left) => format!(
            "duration: {duration:?} is shorter than the rest of the lease ({left:?}); extend by at \
             least that, or release the lock to end it earlier"
        ),
        NotExtendable::Beyond(left) => format!(
            "duration: {duration:?} is longer than the rest of `max_hold` ({left:?}); extend by at \
             most that, or acquire the lock with a longer `max_hold`"
        ),
        _ => "this lease cannot be extended".to_owned(),
    };
    invalid(message)
}

/// Returns the error for a lease that is over, even if the backend has just extended it.
fn over(hold: &Hold) -> Error {
    let lease = hold.lease();
    let planned = match lease.terms().renew_after {
        None => LossReason::MaxHold,
        Some(_) => LossReason::Expired,
    };
    lost(lease.loss().unwrap_or(planned))
}

/// Returns the error for an extension that failed, or whose result is not known. A lease that has
/// ended meanwhile is lost.
fn unknown(shared: &Shared, hold: &Hold, error: Error) -> Error {
    let left = {
        let (lease, now) = (hold.lease(), shared.clock.now());
        lease.is_valid(now).then(|| lease.remaining(now))
    };
    let Some(left) = left else { return over(hold) };
    if error.kind().is_certain() {
        return error;
    }
    let message = format!(
        "{}; the guard keeps its earlier deadline, in {left:?}: try again before that",
        error.message()
    );
    Error::new(error.kind(), message).with_retry(error.retry()).with_source(error)
}
