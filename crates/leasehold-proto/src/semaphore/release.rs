//! Ends an attempt: at the client's request, or by an operator.

use super::rules::Bug;
use super::{Forced, Push, Reach, Record, ReleaseRequest};
use crate::client::Rules;
use crate::handoff::{TOMBSTONE, Verdict, after, verdict_on_the_past};
use crate::{AttemptId, Now, Token};

impl<T: Clone, const CAP: usize, R: Rules<Bug>> Record<T, CAP, R> {
    /// Ends an attempt: removes it from the queue, frees its slots, refuses it later if it is
    /// suspect, and serves the queue.
    ///
    /// The attempt id alone decides which permit ends. The base decides only the verdict and the
    /// tokens: a late request may have granted an offer again, with a base that its holder does not
    /// know.
    ///
    /// This step may leave waiters to [another step](Self::needs_another_step).
    pub fn release(&mut self, now: Now, release: &ReleaseRequest, reach: Reach<'_>) -> Verdict {
        let place = self.queue.place(release.attempt);
        let left = place.and_then(|place| self.queue.remove(place)).is_some();
        self.drop_tombstones(now);
        if release.suspect && !self.rules.breaks(Bug::TombstoneIgnored) {
            self.tombstones.insert(release.attempt, after(now, TOMBSTONE), ());
        }
        let held = self.permits.get(release.attempt).is_some();
        let verdict = self.end_permit(now, release);
        if !(left && self.rules.breaks(Bug::LeavingServesNone)) {
            self.serve(now, None, left || held, reach);
        }
        verdict
    }

    /// Ends the permit that has this token, and notifies its holder. Permits in different slots may
    /// have equal tokens: `slot` then chooses the permit. An expired permit is not held.
    pub fn force_release(
        &mut self,
        now: Now,
        token: Token,
        slot: Option<u32>,
        reach: Reach<'_>,
    ) -> Forced {
        let named: Vec<(AttemptId, Token)> = self
            .holders(now)
            .filter(|holder| holder.permit.tokens.contains(token))
            .filter(|holder| slot.is_none_or(|slot| holder.permit.slots.contains(&slot)))
            .map(|holder| (holder.attempt, holder.permit.tokens.base()))
            .take(2)
            .collect();
        match named[..] {
            [] => Forced::NotHeld,
            [(attempt, base)] => {
                reach(attempt, Push::Lost { base });
                self.take_back(attempt, true);
                self.serve(now, None, true, reach);
                Forced::Ended
            }
            _ => Forced::Several,
        }
    }

    /// Ends the permit of one attempt, and notifies it. An expired permit is not held.
    pub fn force_release_attempt(
        &mut self,
        now: Now,
        attempt: AttemptId,
        reach: Reach<'_>,
    ) -> Forced {
        let held = self.permits.get(attempt).filter(|(until_ns, _)| *until_ns > now.steady_ns);
        let Some(base) = held.map(|(_, held)| held.permit.tokens.base()) else {
            return Forced::NotHeld;
        };
        reach(attempt, Push::Lost { base });
        self.take_back(attempt, true);
        self.serve(now, None, true, reach);
        Forced::Ended
    }

    /// Takes the slots of the attempt back, and returns how its permit ended.
    fn end_permit(&mut self, now: Now, release: &ReleaseRequest) -> Verdict {
        let Some((until_ns, held)) = self.permits.get(release.attempt) else {
            return self.past_verdict(release);
        };
        let alive = until_ns > now.steady_ns;
        let tokens = held.permit.tokens;
        // The attempt may have lost an offer of another slot, whose tokens were the same.
        let same_slot = release.slot.is_none_or(|slot| held.permit.slots.first() == Some(&slot));
        let same = release.base.is_none_or(|base| base == tokens.base() && same_slot);
        if let (true, true, Some(_), Some(last)) = (alive, same, release.base, release.last) {
            let top = tokens.base().max(last).min(tokens.top()).get();
            let permit = held.permit.clone();
            self.slots.raise(&permit, top);
        }
        self.take_back(release.attempt, !alive);
        if alive && same { Verdict::Released } else { Verdict::Lost }
    }

    /// Returns how a permit ended that the record does not have any more.
    fn past_verdict(&self, release: &ReleaseRequest) -> Verdict {
        match (release.base, release.slot) {
            (Some(_), None) => Verdict::Unknown,
            (base, slot) => {
                let mark = slot.map(|slot| self.slots.mark(slot)).unwrap_or_default();
                verdict_on_the_past(base, mark.top, mark.lost)
            }
        }
    }

    /// Forgets attempts that were refused for long enough: more than a step adds, so that they do not
    /// pile up.
    fn drop_tombstones(&mut self, now: Now) {
        for _ in 0..CAP.max(2) {
            match self.tombstones.first() {
                Some((until_ns, attempt)) if until_ns <= now.steady_ns => {
                    self.tombstones.remove(attempt);
                }
                _ => return,
            }
        }
    }
}
