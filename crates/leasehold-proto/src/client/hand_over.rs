//! What happens to a lease or an attempt when its task no longer needs it.

use core::time::Duration;

use super::rules::Bug;
use super::{HeldTokens, PendingAttempt, Rules};
use crate::{Lease, Now, Terms};

/// How long a lease stays in one process while a client of another process waits for it. A time is
/// fair between processes with fast and slow holders; a number of hand-offs is not.
const QUANTUM: Duration = Duration::from_millis(20);
/// The same limit for successors that are not fair.
const UNFAIR_QUANTUM: Duration = Duration::from_secs(1);

/// The request of the next waiting task of the process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Successor {
    /// Its lease.
    pub terms: Terms,
    /// True if it must not overtake clients of other processes.
    pub fair: bool,
}

/// What a task that releases a lease does, if another task of the process waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// The next task takes the lease over with the next token. Nothing is sent.
    PassOn,
    /// It ends the lease, and acquires for the next task in the same step.
    Exchange,
    /// It ends the lease, and the next task sends its own request.
    End,
}

/// What a task does if it stops waiting before it holds the lock, and another task of the process
/// waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// The next task continues the attempt, and keeps its place in the engine's queue.
    Inherit,
    /// It ends the attempt, and acquires for the next task in the same step.
    Exchange,
    /// It ends the attempt, and the next task sends its own request.
    End,
    /// The engine does not know the attempt: the next task sends its own request.
    Ask,
}

/// Decides what happens to a lease that its holder releases.
///
/// The next task takes the lease over, except in these cases: the lock must stay taken for a while
/// (`keep`); the lease is lost or about to be lost, does not fit the terms of the next task, or has
/// no token left; or a client of another process has waited for it (`wanted_for`) for longer than a
/// quantum.
pub fn decide_release(
    lease: &Lease,
    tokens: &HeldTokens,
    keep: bool,
    next: &Successor,
    wanted_for: Duration,
    now: Now,
    rules: impl Rules,
) -> Release {
    let quantum = if next.fair { QUANTUM } else { UNFAIR_QUANTUM };
    let fits = lease.can_pass(now, &next.terms) || rules.breaks(Bug::LostLeaseIsPassedOn);
    match () {
        () if keep => Release::End,
        () if wanted_for < quantum && tokens.has_next() && fits => Release::PassOn,
        () => Release::Exchange,
    }
}

/// Continues a lease that the previous holder passed on. Returns `None` if the lease was lost since
/// then, or no token is left: end the lease, and acquire again.
pub fn take_over(
    lease: &Lease,
    tokens: &HeldTokens,
    terms: Terms,
    now: Now,
    rules: impl Rules,
) -> Option<(Lease, HeldTokens)> {
    let tokens = tokens.next()?;
    let passed = lease.pass(now, terms);
    let lost = || rules.breaks(Bug::LostLeaseIsPassedOn).then(|| lease.clone());
    Some((passed.or_else(lost)?, tokens))
}

/// Decides what happens to an attempt whose task stops waiting. `fits`: the next task has the same
/// terms. `exchanges`: the engine can end one attempt and acquire for another in one step.
pub fn decide_leave<R: Rules>(pending: &PendingAttempt<R>, fits: bool, exchanges: bool) -> Leave {
    match () {
        () if !pending.is_known() => Leave::Ask,
        () if fits => Leave::Inherit,
        () if exchanges => Leave::Exchange,
        () => Leave::End,
    }
}
