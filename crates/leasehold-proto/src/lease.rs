//! The life of one lease as its holder sees it: requested, granted, renewed, lost, released.

use core::fmt;
use core::num::NonZeroU32;
use core::time::Duration;

use crate::{Deadline, Now};

mod extend;

pub use extend::NotExtendable;

/// Returns the part of a ttl that the client does not use, for clocks that run at different rates:
/// 1 % and 2 ms.
///
/// The published Redlock algorithm has the same allowance.
pub fn drift(ttl: Duration) -> Duration {
    ttl / 100 + Duration::from_millis(2)
}

/// Returns how long before the end of a validity of `span` the client reports the loss of a lease
/// of `ttl`: a tenth of the ttl, at least 50 ms, at most a third of `span`.
pub fn loss_margin(ttl: Duration, span: Duration) -> Duration {
    (ttl / 10).max(Duration::from_millis(50)).min(span / 3)
}

/// How long after it was received an offer is confirmed, or a sixth of the offer if that is less. A
/// holder that releases sooner needs no confirmation.
const CONFIRM_AFTER: Duration = Duration::from_millis(50);

/// The times of a requested lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The ttl of each acquire and renewal. For an extended lease: the longest time that was
    /// requested from the backend.
    pub ttl: Duration,
    /// Time from a success to the next renewal. `None` for a fixed lease, which is not renewed;
    /// only an offer of it is confirmed.
    pub renew_after: Option<Duration>,
    /// The longest hold: the lease ends this long after it was requested, even if it is renewed.
    pub max_hold: Option<Duration>,
    /// The backend keeps the lease as long as the session lives; only `max_hold` sets a deadline.
    pub session: bool,
}

/// Why a lease ended while it was held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossReason {
    /// No renewal succeeded in time.
    Expired,
    /// The fixed lease or `max_hold` ended.
    MaxHold,
    /// The backend reports that another holder may have the lock.
    NotOwner,
    /// The client was closed, or its renewal task ended with its runtime.
    ClientClosed,
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "no renewal succeeded in time",
            Self::MaxHold => "its fixed lease or maximum hold ended",
            Self::NotOwner => "the backend reports that this holder does not own it any more",
            Self::ClientClosed => "its client was closed, or the client's runtime ended",
        })
    }
}

/// A grant arrived after its own lease had ended: release it and acquire again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLate;

/// What the driver must do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing before [`Lease::next_timeout`].
    Wait,
    /// Send a renewal.
    Renew,
    /// The lease has just been lost: notify the program.
    Lost(LossReason),
    /// `max_hold` and the margin for clean-up have passed: release the lease, even if the program
    /// still has its guard.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum LeasePhase {
    Asked,
    Held,
    Lost(LossReason),
    Released,
}

/// The state machine of one lease. It ignores calls that do not fit its state.
///
/// The driver calls [`handle_timeout`](Self::handle_timeout) at
/// [`next_timeout`](Self::next_timeout), does what the [`Step`] demands, and reports the result.
/// Validity counts from the time of the request, never from the time of the answer.
///
/// A process may have very many leases. So the machine stores no field that can be computed from
/// other fields, and stores times with low precision: a ttl to the millisecond, others to 33 us.
/// Rounding makes a time a little earlier, never later.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    /// Granted: the end that the backend confirmed. Asked for: the time of the request. In a
    /// session: when the next renewal is sent.
    mark: Deadline,
    /// What renewals do not move; in a box, since few leases have it.
    bound: Option<Box<Bound>>,
    /// How long before the mark a renewal is sent, or sent again after no answer.
    renew: Option<Tick>,
    /// How long before its end the grant is reported as lost, unless a renewal moves the end.
    margin: Option<Tick>,
    terms: Packed,
    phase: LeasePhase,
    failures: u8,
    /// The field of the same name in [`Terms`].
    session: bool,
    /// The renewal is sent again; a step of the wall clock was taken into account already.
    again: bool,
    /// The machine has returned [`Step::End`].
    given_back: bool,
    /// It is an offer, which no renewal has confirmed.
    offered: bool,
}

/// The times of [`Terms`] that every lease has, in a quarter of the space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Packed {
    ttl_ms: u32,
    renew_after: Option<Tick>,
}

/// `max_hold`, and the time from which it counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Bound {
    asked: Now,
    max_hold: Duration,
}

/// A time of at most 39 hours in units of 33 us; never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Tick(NonZeroU32);

impl Lease {
    /// Begins to acquire a lease. The caller read `now` before it sent the first byte.
    pub fn ask(now: Now, terms: Terms) -> Self {
        Self {
            mark: Deadline::after(now, Duration::ZERO),
            bound: Bound::new(now, terms),
            renew: None,
            margin: None,
            terms: Packed::new(terms),
            phase: LeasePhase::Asked,
            failures: 0,
            session: terms.session,
            again: false,
            given_back: false,
            offered: false,
        }
    }

    /// Records that the backend granted the lease.
    ///
    /// `until` is the end of validity if the backend computes it (a push). Otherwise the end is the
    /// time of the request plus the ttl, minus the [`drift`]. It is never later than the ttl from
    /// now, minus the drift. An `offer` is a short grant that the first renewal confirms; that
    /// renewal is due 50 ms from now, or after a sixth of a shorter offer. `bits` are random.
    ///
    /// Returns [`TooLate`] if the lease has ended already.
    pub fn handle_granted(
        &mut self,
        now: Now,
        until: Option<Deadline>,
        offer: bool,
        bits: u64,
    ) -> Result<(), TooLate> {
        if self.phase != LeasePhase::Asked {
            return Ok(());
        }
        let asked = self.mark;
        if !self.session {
            let validity = validity(self.ttl());
            // A backend whose clock was set back since the grant reports more time than it granted.
            let bounded = |until: Deadline| until.min(Deadline::after(now, validity));
            self.mark = until.map_or(asked.later(validity), bounded);
        }
        self.phase = LeasePhase::Held;
        if self.has_ended(now) {
            (self.phase, self.mark) = (LeasePhase::Asked, asked);
            return Err(TooLate);
        }
        self.set_alarm(self.granted().map_or(Duration::ZERO, |end| end.remaining(now)));
        (self.again, self.offered) = (false, offer);
        let renew_after = self.terms.renew_after.map(Tick::time);
        self.renew_at(match renew_after {
            _ if offer => Some(Deadline::after(now, CONFIRM_AFTER.min(self.remaining(now) / 6))),
            Some(after) => Some(asked.later(jittered(after, bits))),
            None => None,
        });
        Ok(())
    }

    /// Records that the renewal sent at `sent` succeeded. The driver of a lease that may be extended
    /// calls [`handle_extended`](Self::handle_extended) with the ttl of that renewal instead.
    pub fn handle_renewed(&mut self, sent: Now, now: Now, bits: u64) {
        self.handle_extended(sent, now, self.ttl(), bits);
    }

    /// Records that a renewal failed without an answer (connection, time limit), and schedules a
    /// retry.
    pub fn handle_renewal_failed(&mut self, now: Now, bits: u64) {
        if self.phase != LeasePhase::Held || self.renew.is_none() {
            return; // Nothing to renew: a fixed lease, whose offer was confirmed.
        }
        let bound = (self.ttl() / 100).saturating_mul(1 << self.failures.min(4));
        let pause = bound.max(Duration::from_millis(1)).min(self.patience(now));
        self.failures = self.failures.saturating_add(1);
        self.again = true;
        self.renew_at(Some(Deadline::after(now, jittered(pause, bits))));
    }

    /// Ends the lease for a reason that only the driver can see.
    pub fn handle_lost(&mut self, reason: LossReason) -> Step {
        if self.phase != LeasePhase::Held {
            return Step::Wait;
        }
        self.phase = LeasePhase::Lost(reason);
        Step::Lost(reason)
    }

    /// Returns what is due now. Callers may call it at any time and any number of times.
    pub fn handle_timeout(&mut self, now: Now) -> Step {
        if self.phase == LeasePhase::Lost(LossReason::MaxHold)
            && self.has_ended(now)
            && !self.given_back
        {
            self.given_back = true;
            return Step::End;
        }
        if self.phase != LeasePhase::Held {
            return Step::Wait;
        }
        if self.alarm().is_some_and(|alarm| alarm.has_passed(now)) {
            let fixed = self.terms.renew_after.is_none() && self.renew.is_none();
            let bounded = self.hard_end().is_some() && self.deadline() == self.hard_end();
            let planned = fixed || bounded;
            return self.handle_lost(match planned {
                true => LossReason::MaxHold,
                false => LossReason::Expired,
            });
        }
        if self.renewal().is_some_and(|at| at.has_passed(now)) {
            self.again = true;
            self.renew_at(Some(Deadline::after(now, self.patience(now))));
            return Step::Renew;
        }
        Step::Wait
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) has something to do; `None` if never.
    pub fn next_timeout(&self) -> Option<Deadline> {
        match self.phase {
            LeasePhase::Held => earlier(self.alarm(), self.renewal()),
            LeasePhase::Lost(LossReason::MaxHold) if !self.given_back => self.deadline(),
            _ => None,
        }
    }

    /// Hands the lease to the next holder in the same process, which requested `terms`. The backend
    /// sees the same lease: its validity and the time of its renewal do not change. Returns `None`
    /// if it cannot be handed over: it is lost or about to be lost, has no timed renewal, or its
    /// ttl or renewal time differs from `terms`.
    pub fn pass(&self, now: Now, terms: Terms) -> Option<Self> {
        if !self.can_pass(now, &terms) {
            return None;
        }
        let (packed, session) = (Packed::new(terms), terms.session);
        Some(Self { terms: packed, session, bound: Bound::new(now, terms), ..*self })
    }

    /// Returns true if [`pass`](Self::pass) would return a lease.
    pub fn can_pass(&self, now: Now, terms: &Terms) -> bool {
        let fits = Packed::new(*terms) == self.terms;
        let renewed = !self.session && self.terms.renew_after.is_some();
        let about_to_end = self.granted_alarm().is_none_or(|alarm| alarm.has_passed(now));
        self.phase == LeasePhase::Held && fits && renewed && !about_to_end
    }

    /// Makes a lease of which a third has passed due for renewal soon: its renewals were left out while
    /// no task held it. A task that releases it sooner needs none.
    pub(crate) fn renew_soon(&mut self, now: Now) {
        let left = self.remaining(now);
        let soon = Deadline::after(now, CONFIRM_AFTER.min(left / 6));
        let later = self.renewal().is_some_and(|at| at.steady_ns() > soon.steady_ns());
        if later && left < self.ttl() / 3 * 2 {
            self.renew_at(Some(soon));
        }
    }

    /// Releases the lease. Returns true if it was held until now.
    pub fn release(&mut self, now: Now) -> bool {
        let held = self.phase == LeasePhase::Held && !self.has_ended(now);
        self.given_back = true;
        if !matches!(self.phase, LeasePhase::Lost(_)) {
            self.phase = LeasePhase::Released;
        }
        held
    }

    /// Returns true while the lease is held and its deadline is in the future.
    pub fn is_valid(&self, now: Now) -> bool {
        self.phase == LeasePhase::Held && !self.has_ended(now)
    }

    /// Returns false while the lease is an offer that no renewal has confirmed.
    pub fn is_confirmed(&self) -> bool {
        !self.offered
    }

    /// Returns the time until the program must stop relying on the lease. It is zero if the lease
    /// is not held, and `Duration::MAX` for a session without an end. After an early loss report it
    /// still counts down.
    pub fn remaining(&self, now: Now) -> Duration {
        match self.phase {
            LeasePhase::Held | LeasePhase::Lost(LossReason::Expired | LossReason::MaxHold) => {
                self.deadline().map_or(Duration::MAX, |deadline| deadline.remaining(now))
            }
            _ => Duration::ZERO,
        }
    }

    /// Returns when the lease stops being valid, if it has a deadline.
    pub fn deadline(&self) -> Option<Deadline> {
        earlier(self.granted(), self.hard_end())
    }

    /// Returns when the loss will be reported, unless a renewal succeeds first.
    pub fn alarm(&self) -> Option<Deadline> {
        let Some(bound) = &self.bound else { return self.granted_alarm() };
        let margin = loss_margin(self.ttl(), bound.max_hold);
        earlier(self.granted_alarm(), Some(bound.end().earlier(margin)))
    }

    /// Returns why the lease was lost, if it was.
    pub fn loss(&self) -> Option<LossReason> {
        match self.phase {
            LeasePhase::Lost(reason) => Some(reason),
            _ => None,
        }
    }

    /// Returns the times of the requested lease; the ttl to the millisecond. For an extended lease,
    /// the ttl is the longest time that was requested, answered or not: the backend may keep the
    /// lease that long.
    pub fn terms(&self) -> Terms {
        Terms {
            ttl: self.ttl(),
            renew_after: self.terms.renew_after.map(Tick::time),
            max_hold: self.bound.as_ref().map(|bound| bound.max_hold),
            session: self.session,
        }
    }

    fn ttl(&self) -> Duration {
        Duration::from_millis(self.terms.ttl_ms.into())
    }

    /// Returns the end that the backend confirmed; `None` in a session, and before the grant.
    fn granted(&self) -> Option<Deadline> {
        (!self.session && self.phase != LeasePhase::Asked).then_some(self.mark)
    }

    /// Returns the end that no renewal moves.
    fn hard_end(&self) -> Option<Deadline> {
        self.bound.as_ref().map(|bound| bound.end())
    }

    /// Returns when the end of the grant is reported as a loss, unless a renewal moves it.
    fn granted_alarm(&self) -> Option<Deadline> {
        let margin = self.margin.map_or(Duration::ZERO, Tick::time);
        self.granted().map(|end| end.earlier(margin))
    }

    /// Returns when a renewal is sent.
    fn renewal(&self) -> Option<Deadline> {
        let before = self.renew?.time();
        let at = if self.session { self.mark } else { self.mark.earlier(before) };
        // The mark contains the wall clock as it was at the grant.
        Some(if self.again { at.by_steady() } else { at })
    }

    fn renew_at(&mut self, at: Option<Deadline>) {
        if let Some(at) = at.filter(|_| self.session) {
            self.mark = at;
        }
        let before = |at: Deadline| self.mark.steady_ns().saturating_sub(at.steady_ns());
        self.renew = at.map(|at| Tick::at_least(Duration::from_nanos(before(at))));
    }

    fn has_ended(&self, now: Now) -> bool {
        self.deadline().is_some_and(|deadline| deadline.has_passed(now))
    }

    /// Sets the margin of a grant that is valid for `span`.
    fn set_alarm(&mut self, span: Duration) {
        self.margin = Some(Tick::at_least(loss_margin(self.ttl(), span)));
    }

    /// Returns how long to wait for the answer to a renewal before sending it again: a sixth of the
    /// ttl, or a third of what is left of an offer.
    fn patience(&self, now: Now) -> Duration {
        let left = self.deadline().map_or(Duration::MAX, |deadline| deadline.remaining(now));
        (self.ttl() / 6).min(left / 3).max(Duration::from_millis(1))
    }
}

impl Packed {
    fn new(terms: Terms) -> Self {
        Self { ttl_ms: millis(terms.ttl), renew_after: terms.renew_after.map(Tick::at_most) }
    }
}

impl Bound {
    fn new(asked: Now, terms: Terms) -> Option<Box<Self>> {
        terms.max_hold.map(|max_hold| Box::new(Self { asked, max_hold }))
    }

    fn end(&self) -> Deadline {
        Deadline::after(self.asked, self.max_hold)
    }
}

impl Tick {
    /// A power of two.
    const NS: u128 = 1 << 15;

    fn at_most(time: Duration) -> Self {
        Self::of(time.as_nanos() / Self::NS)
    }

    fn at_least(time: Duration) -> Self {
        Self::of(time.as_nanos().div_ceil(Self::NS))
    }

    fn of(ticks: u128) -> Self {
        let ticks = u32::try_from(ticks).unwrap_or(u32::MAX);
        Self(NonZeroU32::new(ticks).unwrap_or(NonZeroU32::MIN))
    }

    fn time(self) -> Duration {
        Duration::from_nanos(u64::from(self.0.get()) << 15)
    }
}

/// Returns how long a grant of `ttl` is valid from the time of the request.
fn validity(ttl: Duration) -> Duration {
    ttl.saturating_sub(drift(ttl))
}

fn millis(ttl: Duration) -> u32 {
    u32::try_from(ttl.as_millis()).unwrap_or(u32::MAX)
}

fn earlier(a: Option<Deadline>, b: Option<Deadline>) -> Option<Deadline> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, other) => one.or(other),
    }
}

/// Returns between nine tenths and all of `pause`, so that leases acquired together are not all
/// renewed together.
fn jittered(pause: Duration, bits: u64) -> Duration {
    pause - pause / 10 * (bits >> 56) as u32 / 256
}

#[cfg(test)]
#[path = "lease_tests.rs"]
mod tests;
