//! A lease that a client keeps after its last holder in the process has released it, so that the next
//! task takes it without a call.

use core::time::Duration;

use super::rules::Bug;
use super::{HeldTokens, Rules, take_over};
use crate::{Deadline, Lease, Now, Terms};

/// The part of the ttl that must be left of a lease for a task to take it. Of an older lease the task
/// would have too little; it acquires a new one instead.
const LEAST: u32 = 3;

/// Decides whether the client keeps a lease that its last holder in this process releases, and until
/// when: for `time`, or as long as a task could take it. Returns `None` if the lease must be given
/// back now: a client of another process waits (`wanted`), the lease is an offer that is not confirmed,
/// has a fixed end, is lost or too old, or has no token left.
///
/// A cached lease is not renewed. It is given back at the returned time, as soon as the client learns that
/// another client waits, and after a break of the connection. Its client forgets it in the same step in
/// which it decides to give it back: whatever becomes of the release, no task takes it afterwards.
///
/// For a read lease, `wanted` is [`SharedRead::is_wanted`](super::SharedRead::is_wanted).
///
/// Chubby (Burrows, 2006) and the delegations of NFS 4 keep locks in the same way.
pub fn decide_cache(
    lease: &Lease,
    tokens: &HeldTokens,
    time: Duration,
    wanted: bool,
    now: Now,
    rules: impl Rules,
) -> Option<Deadline> {
    let wanted = wanted && !rules.breaks(Bug::WantedLeaseIsCached);
    let terms = lease.terms();
    let fits = lease.is_confirmed() && lease.can_pass(now, &terms) && tokens.has_next();
    if time.is_zero() || wanted || !fits {
        return None;
    }
    let left = lease.deadline()?.earlier(terms.ttl / LEAST);
    (!left.has_passed(now)).then(|| left.min(Deadline::after(now, time)))
}

/// Takes a cached lease for a task that asks for `terms`, with the next token; a reader has the token of the phase. If a third of it is over,
/// its renewal is due soon, since none was sent while no task held it. Returns `None` if the
/// lease must be given back first: it is lost, too little of it is left, or other terms are asked for.
pub fn take_cached(
    lease: &Lease,
    tokens: &HeldTokens,
    terms: Terms,
    now: Now,
    rules: impl Rules,
) -> Option<(Lease, HeldTokens)> {
    if rules.breaks(Bug::CachedDeadlineIsIgnored) {
        return Some((lease.clone(), tokens.next()?));
    }
    if lease.remaining(now) < terms.ttl / LEAST {
        return None;
    }
    let (mut lease, tokens) = take_over(lease, tokens, terms, now, rules)?;
    lease.renew_soon(now);
    Some((lease, tokens))
}

#[cfg(test)]
#[path = "caching_tests.rs"]
mod tests;
