//! Ends an attempt: at the client's request, in exchange for a new attempt, or by an operator.

use core::cmp::Ordering;

use super::messages::{AcquireRequest, Answer, Forced, Push, ReleaseRequest, State, Verdict};
use super::queue::Spare;
use super::{Reach, Record, TOMBSTONE, after};
use crate::{Now, Token};

impl<T: Clone, const CAP: usize> Record<T, CAP> {
    /// Ends an attempt: removes it from the queue, hands off its lease, and refuses it later if it
    /// is suspect.
    ///
    /// The attempt id alone decides which lease is handed off. The base decides only the verdict
    /// and the tokens. A late request may have granted an offer again, with a base that its owner
    /// does not know; that offer must end too.
    ///
    /// This step may leave dead waiters to [another step](Self::needs_another_step).
    pub fn release(&mut self, now: Now, release: &ReleaseRequest, reach: Reach<'_>) -> Verdict {
        self.release_within(now, release, &mut Spare::new(CAP), reach)
    }

    fn release_within(
        &mut self,
        now: Now,
        release: &ReleaseRequest,
        spare: &mut Spare,
        reach: Reach<'_>,
    ) -> Verdict {
        let was_first = self.dequeue(release.attempt) == Some(0);
        self.tombstones.retain(|_, until| *until > now.steady_ns);
        if release.suspect {
            self.tombstones.insert(release.attempt, after(now, TOMBSTONE));
        }
        if self.state != State::Held || !self.is_owner(release.attempt) {
            // Continue a removal of dead waiters that an earlier step began.
            if self.needs_another_step() {
                self.hand_on(now, None, spare, reach);
            }
            if was_first {
                self.say_next(now, None, spare, reach);
            }
            return verdict_on_the_past(release.base, self.top, self.lost);
        }
        let alive = self.is_alive(now);
        let same = release.base.is_none_or(|base| base.get() == self.base);
        if !alive {
            self.lost = self.base;
        } else if let (true, Some(_), Some(last)) = (same, release.base, release.last) {
            self.top = self.base.max(last.get());
        }
        match release.keep.filter(|_| alive && same) {
            Some(keep) => {
                self.state = State::Kept;
                self.until_ns = after(now, keep);
                // The first waiter expects the end of the lease; the keep ends at another time.
                self.say_next(now, None, spare, reach);
            }
            None => {
                self.state = State::Free;
                self.hand_on(now, None, spare, reach);
            }
        }
        if alive && same { Verdict::Released } else { Verdict::Lost }
    }

    /// Does a [`release`](Self::release) and an [`acquire`](Self::acquire) in one step.
    ///
    /// `next` has its own attempt id. The client must not take an old push for the ended attempt as
    /// the new grant.
    pub fn rotate(
        &mut self,
        now: Now,
        release: &ReleaseRequest,
        next: &AcquireRequest<T>,
        reach: Reach<'_>,
    ) -> (Verdict, Answer) {
        let spare = &mut Spare::new(CAP);
        (
            self.release_within(now, release, spare, reach),
            self.acquire_within(now, next, spare, reach),
        )
    }

    /// Ends the current lease if its block contains `token`, and notifies its holder.
    pub fn force_release(&mut self, now: Now, token: Token, reach: Reach<'_>) -> Forced {
        let named = (self.base..=self.top).contains(&token.get());
        let forced = match (self.is_alive(now), named, Token::new(self.base)) {
            (true, false, Some(base)) => return Forced::Other(base),
            (true, true, _) => Forced::Ended,
            _ => Forced::NotHeld,
        };
        if named && self.state != State::Free {
            let held = forced == Forced::Ended && self.state == State::Held;
            if let Some((holder, _)) = self.owner.as_ref().filter(|_| held) {
                reach(*holder, Push::Lost { base: self.base() });
            }
            self.lose();
            self.hand_on(now, None, &mut Spare::new(CAP), reach);
        }
        forced
    }
}

/// Returns how a lease ended that is no longer the current lease. `top` is the highest token that was
/// ever reserved, and `lost` the first token of the last lease that ended without a release.
pub(crate) fn verdict_on_the_past(base: Option<Token>, top: u64, lost: u64) -> Verdict {
    let Some(base) = base.map(Token::get) else { return Verdict::Gone };
    match lost.cmp(&base) {
        _ if top < base => Verdict::Lost, // The server lost the record and the lease.
        Ordering::Less => Verdict::Released,
        Ordering::Equal => Verdict::Lost,
        Ordering::Greater => Verdict::Unknown,
    }
}
