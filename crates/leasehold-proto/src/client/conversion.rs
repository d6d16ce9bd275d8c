//! The exchange of messages that converts a writer to a reader, or a reader to a writer.

use super::rules::Bug;
use super::{Rules, Sound};
use crate::handoff::ReleaseRequest;
use crate::read_write::{Converted, Mode};
use crate::{AttemptId, TokenBlock};

/// A downgrade or an upgrade in progress. The new lease has its own attempt.
///
/// From the first request on, the client uses neither lease. The driver sends
/// [`request`](Self::request) until it is answered, and delivers the answer to the request that it
/// sent last; it drops answers to earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Conversion<R = Sound> {
    mode: Mode,
    end: ReleaseRequest,
    next: AttemptId,
    asking: bool,
    /// A request was not answered, and may arrive later.
    again: bool,
    wanted: bool,
    rules: R,
}

/// What the driver sends: the arguments of the record's `downgrade` or `upgrade`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConversionRequest {
    /// The mode of the new lease: a downgrade reads, an upgrade writes.
    pub mode: Mode,
    /// The lease that ends.
    pub end: ReleaseRequest,
    /// The attempt of the new lease.
    pub next: AttemptId,
    /// The same request was sent before, without an answer.
    pub again: bool,
}

/// What the answer to a conversion means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AfterConversion {
    /// The new attempt holds the lock. Its ttl counts from the request that was answered.
    Granted {
        /// The tokens of the new lease.
        tokens: TokenBlock,
        /// A client of another process waits: a new read lease accepts no more tasks.
        wanted: bool,
        /// A request of the new attempt may arrive later.
        suspect: bool,
    },
    /// The upgrade was refused: the reader keeps its lease until the deadline of that lease.
    Refused {
        /// A writer waits: the read lease accepts no more tasks.
        wanted: bool,
    },
    /// The lease is lost. End these attempts.
    Lost(Vec<ReleaseRequest>),
}

impl<R: Rules> Conversion<R> {
    /// Starts to convert a writer to a reader. `end` names its lease with the last token that it
    /// used.
    pub fn downgrade(end: ReleaseRequest, next: AttemptId, rules: R) -> Self {
        Self { mode: Mode::Read, end, next, asking: false, again: false, wanted: false, rules }
    }

    /// Starts to convert a reader to a writer. `end` names its lease.
    pub fn upgrade(end: ReleaseRequest, next: AttemptId, rules: R) -> Self {
        Self { mode: Mode::Write, ..Self::downgrade(end, next, rules) }
    }

    /// Returns what to send.
    pub fn request(&self) -> ConversionRequest {
        let Self { mode, end, next, again, .. } = *self;
        ConversionRequest { mode, end, next, again }
    }

    /// Returns the attempt of the new lease.
    pub fn next(&self) -> AttemptId {
        self.next
    }

    /// Returns true while a request is on its way.
    pub fn is_asking(&self) -> bool {
        self.asking
    }

    /// Records that a request is sent. An earlier one that is still on its way counts as unanswered.
    pub fn handle_sent(&mut self) {
        self.again |= self.asking;
        self.asking = true;
    }

    /// Records that no answer has arrived in time: send the same again.
    pub fn handle_unanswered(&mut self) {
        (self.asking, self.again) = (false, true);
    }

    /// Handles the message that a client of another process waits. It may concern either attempt.
    /// Returns false if it concerns neither.
    pub fn handle_wanted(&mut self, attempt: AttemptId) -> bool {
        let known = attempt == self.end.attempt || attempt == self.next;
        self.wanted |= known;
        known
    }

    /// Handles the answer to the request that was sent last.
    pub fn handle_reply(self, converted: Converted) -> AfterConversion {
        let wanted = |waiters: usize| waiters > 0 || self.wanted;
        match converted {
            Converted::Granted { tokens, waiters } => {
                AfterConversion::Granted { tokens, wanted: wanted(waiters), suspect: self.again }
            }
            Converted::Refused { waiters } if self.mode == Mode::Write => {
                AfterConversion::Refused { wanted: wanted(waiters) }
            }
            Converted::UsedUp if self.mode == Mode::Write => {
                AfterConversion::Refused { wanted: self.wanted }
            }
            _ if self.mode == Mode::Read && self.rules.breaks(Bug::LostDowngradeEndsNothing) => {
                AfterConversion::Lost(Vec::new())
            }
            _ => {
                let mut ends = vec![self.end];
                // The engine has refused the new attempt of a repeated upgrade for good.
                if self.mode == Mode::Read && self.again {
                    ends.push(self.end_next());
                }
                AfterConversion::Lost(ends)
            }
        }
    }

    /// Returns the two releases that end both attempts: the task was dropped, or the deadline of
    /// the previous lease has passed. They may arrive in any order.
    pub fn abandon(&self) -> [ReleaseRequest; 2] {
        [self.end, self.end_next()]
    }

    fn end_next(&self) -> ReleaseRequest {
        let attempt = self.next;
        ReleaseRequest { attempt, base: None, last: None, suspect: true, keep: None }
    }
}
