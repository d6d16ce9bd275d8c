//! Extends a fixed lease: which extensions are refused, and how long the lease lasts afterwards.

use core::time::Duration;

use super::{Lease, LossReason, Tick, jittered, millis, validity};
use crate::{Deadline, Now};

/// Why a lease cannot be extended. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotExtendable {
    /// The lease has ended. Contains the reason if the loss was reported.
    Over(Option<LossReason>),
    /// The client renews the lease automatically.
    Renewed,
    /// The lease lasts as long as its session.
    Session,
    /// The lease already lasts longer, by this duration from now.
    Shorter(Duration),
    /// The maximum hold ends earlier, after this duration.
    Beyond(Duration),
}

impl Lease {
    /// Starts to extend a fixed lease, so that it lasts for `time` from `now`. The caller reads
    /// `now` before it sends the first byte. Returns the ttl to request from the backend: `time` to
    /// the millisecond.
    ///
    /// Nothing but [`terms`](Self::terms) changes before
    /// [`handle_extended`](Self::handle_extended). So without an answer the lease is valid until
    /// its earlier deadline, and the caller may extend it again.
    pub fn extend(&mut self, now: Now, time: Duration) -> Result<Duration, NotExtendable> {
        if self.session {
            return Err(NotExtendable::Session);
        }
        if self.terms.renew_after.is_some() {
            return Err(NotExtendable::Renewed);
        }
        if !self.is_valid(now) {
            return Err(NotExtendable::Over(self.loss()));
        }
        let left = self.granted().map_or(Duration::ZERO, |end| end.remaining(now));
        if left > time {
            return Err(NotExtendable::Shorter(left));
        }
        if let Some(left) =
            self.hard_end().map(|end| end.remaining(now)).filter(|left| *left < time)
        {
            return Err(NotExtendable::Beyond(left));
        }
        let ttl_ms = millis(time);
        self.terms.ttl_ms = self.terms.ttl_ms.max(ttl_ms);
        Ok(Duration::from_millis(ttl_ms.into()))
    }

    /// Records that the backend has renewed the lease for `ttl`, as requested at `sent`. A late
    /// answer never shortens the lease, and never revives it. Returns false if the lease has ended;
    /// the next timeout reports the loss.
    pub fn handle_extended(&mut self, sent: Now, now: Now, ttl: Duration, bits: u64) -> bool {
        if !self.is_valid(now) {
            return false;
        }
        if !self.session {
            let mark = self.mark.max(Deadline::after(sent, validity(ttl)));
            // A late answer leaves less time until the end: the margin before it stays whole.
            if mark != self.mark {
                self.mark = mark;
                self.set_alarm(validity(ttl));
            }
        }
        (self.failures, self.again, self.offered) = (0, false, false);
        let renew_after = self.terms.renew_after.map(Tick::time);
        self.renew_at(renew_after.map(|after| Deadline::after(sent, jittered(after, bits))));
        true
    }
}

#[cfg(test)]
#[path = "extend_tests.rs"]
mod tests;
