//! A read lease that the tasks of one process share.

use super::rules::Bug;
use super::{Conversion, Rules, Sound};
use crate::handoff::ReleaseRequest;
use crate::{AttemptId, Lease, Now, Token};

/// A read lease of one process, and how many of its tasks read.
///
/// The first task acquires the lease from the engine. Further tasks join it without a call, as long
/// as no client outside waits to write: the lease is then *shut*. A shut lease stays shut, since its
/// attempt never serves new readers again: they ask with a new attempt and enter with the next
/// phase. The last task that leaves ends the lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SharedRead<R = Sound> {
    attempt: AttemptId,
    token: Token,
    readers: usize,
    shut: bool,
    upgrading: bool,
    suspect: bool,
    rules: R,
}

impl<R: Rules> SharedRead<R> {
    /// Begins with one reader. `wanted`: the grant, or a message for the attempt before it, said that
    /// a writer waits. `suspect`: a request of the attempt was never answered.
    pub fn new(attempt: AttemptId, token: Token, wanted: bool, suspect: bool, rules: R) -> Self {
        Self { attempt, token, readers: 1, shut: wanted, upgrading: false, suspect, rules }
    }

    /// Returns the attempt that holds the lease.
    pub fn attempt(&self) -> AttemptId {
        self.attempt
    }

    /// Returns the token of the read phase. All readers of the phase have it.
    pub fn token(&self) -> Token {
        self.token
    }

    /// Returns how many tasks read.
    pub fn readers(&self) -> usize {
        self.readers
    }

    /// Returns true if no further task may join.
    pub fn is_shut(&self) -> bool {
        self.shut
    }

    /// Adds a reader without a call, and returns its token. `lease` is the lease of the attempt;
    /// `writer_waits`: a task of this process waits to write. Returns `None` if the task must ask the
    /// engine with a new attempt.
    pub fn join(&mut self, lease: &Lease, now: Now, writer_waits: bool) -> Option<Token> {
        let upgrading = self.upgrading && !self.rules.breaks(Bug::JoinsDuringUpgrade);
        if self.shut || upgrading || writer_waits || !lease.is_valid(now) {
            return None;
        }
        self.readers += 1;
        Some(self.token)
    }

    /// Removes a reader. The last one returns how to end the lease; `None` while others read.
    pub fn leave(&mut self) -> Option<ReleaseRequest> {
        self.readers = self.readers.saturating_sub(1);
        (self.readers == 0).then(|| self.end())
    }

    /// Returns how to end the lease, with all its readers.
    pub fn end(&self) -> ReleaseRequest {
        let Self { attempt, token, suspect, .. } = *self;
        ReleaseRequest { attempt, base: Some(token), last: None, suspect, keep: None }
    }

    /// Shuts the lease: a message, or the answer to a renewal, says that a writer waits.
    pub fn handle_wanted(&mut self) {
        self.shut = true;
    }

    /// Begins to make the only reader a writer with the attempt `next`. Until the engine answers no
    /// task joins, and the lease is not renewed. Returns `None`, and changes nothing, if the engine
    /// would refuse: another task reads, a writer waits, or the lease is over.
    pub fn try_upgrade(
        &mut self,
        next: AttemptId,
        lease: &Lease,
        now: Now,
    ) -> Option<Conversion<R>> {
        if self.readers != 1 || self.shut || self.upgrading || !lease.is_valid(now) {
            return None;
        }
        self.upgrading = true;
        Some(Conversion::upgrade(self.end(), next, self.rules))
    }

    /// The engine has refused the upgrade. The reader continues with its lease.
    pub fn handle_upgrade_refused(&mut self, wanted: bool) {
        self.upgrading = false;
        self.shut |= wanted;
    }
}

#[cfg(test)]
#[path = "reading_tests.rs"]
mod tests;
