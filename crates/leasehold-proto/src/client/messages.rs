//! What a waiting attempt receives: replies to requests, and messages without a request.

use core::time::Duration;

use super::Rules;
use super::rules::Bug;
use crate::{Deadline, Lease, Now, Terms, TokenBlock, TooLate};

/// A granted lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Granted {
    /// The reserved tokens; the first token names the lease.
    pub tokens: TokenBlock,
    /// The end of validity, if the engine computed it. Otherwise the ttl counts from when the
    /// request was sent.
    pub until: Option<Deadline>,
    /// The lease is short unless its holder renews it immediately.
    pub offer: bool,
    /// A client outside this process waits for the lock.
    pub wanted: bool,
    /// The slots of a permit, ascending; empty for a lock.
    pub slots: Vec<u32>,
}

/// The engine's reply to an acquire request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reply<E> {
    /// The attempt holds the lease.
    Granted(Granted),
    /// The attempt is in the engine's queue.
    Queued {
        /// Send the request again after this long if no message arrives.
        ask_again: Duration,
    },
    /// Another attempt holds the lock, and the engine does not remember this one.
    Busy {
        /// Send the request again after this long at the latest. Zero: the lock is free, and the
        /// next request removes more of the dead waiters that precede this one.
        ask_again: Option<Duration>,
    },
    /// No attempt may hold the lock for this long.
    Later {
        /// Send the request again after this long.
        ask_again: Duration,
        /// The reason.
        why: E,
    },
    /// The attempt was ended before the request arrived.
    Ended,
    /// The engine refused the request: nothing has changed.
    Refused(E),
    /// No answer has arrived. The request may have been executed, or may arrive later.
    Unanswered(E),
}

/// A reply to a request that another task sent for this attempt.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ForwardedReply<E> {
    /// When the request was sent.
    pub sent: Now,
    /// The reply to it.
    pub reply: Reply<E>,
    /// The request was sent more than once: another copy may arrive later.
    pub again: bool,
}

/// The messages for an attempt that its task has not read yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mail<E> {
    /// The engine has pushed the lease.
    pub granted: Option<Granted>,
    /// The reply to the request of another task.
    pub forwarded: Option<ForwardedReply<E>>,
    /// The attempt is the first in the engine's queue: send the request again at this time or
    /// earlier.
    pub ask_by: Option<Deadline>,
    /// Send the request again immediately.
    pub ask_again: bool,
    /// Since when the connection to the engine has been broken.
    pub broken: Option<Now>,
    /// A client outside this process waits for the lock.
    pub wanted: bool,
}

impl<E> Default for Mail<E> {
    fn default() -> Self {
        Self {
            granted: None,
            forwarded: None,
            ask_by: None,
            ask_again: false,
            broken: None,
            wanted: false,
        }
    }
}

impl<E> Mail<E> {
    /// Takes the messages that are handled next. A pushed lease or a forwarded reply is handled
    /// without most others, which stay since they may be newer than the reply. That a client outside
    /// waits concerns the lease too.
    #[must_use]
    pub fn take(&mut self) -> Self {
        let (granted, forwarded) = (self.granted.take(), self.forwarded.take());
        match granted.is_some() || forwarded.is_some() {
            true => {
                let wanted = core::mem::take(&mut self.wanted);
                Self { granted, forwarded, wanted, ..Self::default() }
            }
            false => core::mem::take(self),
        }
    }

    /// Returns true if there is no message that another task would miss.
    pub fn is_empty(&self) -> bool {
        let Self { granted, forwarded, ask_by, ask_again, broken, wanted: _ } = self;
        granted.is_none()
            && forwarded.is_none()
            && ask_by.is_none()
            && broken.is_none()
            && !ask_again
    }
}

impl Granted {
    /// Starts the lease of a grant whose request was sent at `sent`; `bits` are random.
    ///
    /// # Errors
    ///
    /// [`TooLate`] if the lease has already ended: end the attempt, and acquire with a new one.
    pub fn lease(
        &self,
        sent: Now,
        now: Now,
        terms: Terms,
        bits: u64,
        rules: impl Rules,
    ) -> Result<Lease, TooLate> {
        let from = if rules.breaks(Bug::ValidityCountsFromTheAnswer) { now } else { sent };
        let mut lease = Lease::ask(from, terms);
        lease.handle_granted(now, self.until, self.offer, bits)?;
        Ok(lease)
    }
}
