//! Ending an attempt: by itself, in exchange for a new one, or by an operator.

use core::cmp::Ordering;

use super::words::{Answer, Ask, End, Forced, Push, State, Verdict};
use super::{Reach, Record, TOMBSTONE, after};
use crate::{Now, Token};

impl<T: Clone> Record<T> {
    /// Ends an attempt: takes it out of the line, passes its lease on, remembers a suspect.
    ///
    /// The attempt alone decides what is passed on; the base decides over the verdict and the
    /// tokens only. An offer that was granted anew by a late ask has a base that its owner may
    /// not have heard of, and must end all the same.
    pub fn release(&mut self, now: Now, end: &End, reach: Reach<'_>) -> Verdict {
        let was_first = self.dequeue(end.attempt) == Some(0);
        self.tombstones.retain(|_, until| *until > now.steady_ns);
        if end.suspect {
            self.tombstones.insert(end.attempt, after(now, TOMBSTONE));
        }
        if self.state != State::Held || !self.is_owner(end.attempt) {
            if was_first {
                self.say_next(now, None, reach);
            }
            return self.verdict_on_the_past(end.base);
        }
        let alive = self.is_alive(now);
        let same = end.base.is_none_or(|base| base.get() == self.base);
        if !alive {
            self.lost = self.base;
        } else if let (true, Some(_), Some(last)) = (same, end.base, end.last) {
            self.top = self.base.max(last.get());
        }
        match end.keep.filter(|_| alive && same) {
            Some(keep) => {
                self.state = State::Kept;
                self.until_ns = after(now, keep);
                // The head reckons with the lease's end; the keep's end is another time.
                self.say_next(now, None, reach);
            }
            None => {
                self.state = State::Free;
                self.hand_on(now, None, reach);
            }
        }
        if alive && same { Verdict::Released } else { Verdict::Lost }
    }

    /// [`release`](Self::release), then [`acquire`](Self::acquire), with nothing in between.
    ///
    /// `next` has an attempt id of its own: an old push for the ended attempt must not be taken
    /// for the new grant.
    pub fn rotate(
        &mut self,
        now: Now,
        end: &End,
        next: &Ask<T>,
        reach: Reach<'_>,
    ) -> (Verdict, Answer) {
        (self.release(now, end, reach), self.acquire(now, next, reach))
    }

    /// Ends the current lease if `token` is one of its block, and tells its holder.
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
            self.hand_on(now, None, reach);
        }
        forced
    }

    /// What became of a lease that is not the current one any more.
    fn verdict_on_the_past(&self, base: Option<Token>) -> Verdict {
        let Some(base) = base.map(Token::get) else { return Verdict::Gone };
        match self.lost.cmp(&base) {
            _ if self.top < base => Verdict::Lost, // The record was lost, and the lease with it.
            Ordering::Less => Verdict::Released,
            Ordering::Equal => Verdict::Lost,
            Ordering::Greater => Verdict::Unknown,
        }
    }
}
