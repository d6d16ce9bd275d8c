//! A read lease that the tasks of one process share.

use super::rules::Bug;
use super::{Conversion, Rules, Sound};
use crate::handoff::ReleaseRequest;
use crate::{AttemptId, Lease, Now, Token};

/// A read lease of one process, with the number of tasks that share it.
///
/// The first task acquires the lease from the engine. Further tasks join it without a call, until a
/// client of another process waits to write. From then on the lease is *shut*: no task joins it. A
/// shut lease stays shut, because new readers must use a new attempt, which enters with the next
/// read phase. The last task that leaves ends the lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SharedRead<R = Sound> {
    attempt: AttemptId,
    token: Token,
    readers: usize,
    shut: bool,
    /// Messages may have been missed.
    missed: bool,
    upgrading: bool,
    suspect: bool,
    rules: R,
}

impl<R: Rules> SharedRead<R> {
    /// Creates the lease with one reader. `wanted`: the grant, or an earlier message, said that a
    /// writer waits. `suspect`: a request of the attempt was never answered.
    pub fn new(attempt: AttemptId, token: Token, wanted: bool, suspect: bool, rules: R) -> Self {
        let (shut, missed, upgrading) = (wanted, false, false);
        Self { attempt, token, readers: 1, shut, missed, upgrading, suspect, rules }
    }

    /// Returns the attempt that holds the lease.
    pub fn attempt(&self) -> AttemptId {
        self.attempt
    }

    /// Returns the token of the read phase. All readers of the phase have it.
    pub fn token(&self) -> Token {
        self.token
    }

    /// Returns the number of tasks that share the read lease.
    pub fn readers(&self) -> usize {
        self.readers
    }

    /// Returns true if no more tasks may join.
    pub fn is_shut(&self) -> bool {
        self.shut
    }

    /// Adds a reader without a call, and returns its token. `lease` is the lease of the attempt.
    /// `writer_waits`: a task of this process waits to write. Returns `None` if the task must
    /// acquire from the engine with a new attempt. A lease whose last reader has left is given back, or
    /// cached: no task joins it.
    pub fn join(&mut self, lease: &Lease, now: Now, writer_waits: bool) -> Option<Token> {
        let upgrading = self.upgrading && !self.rules.breaks(Bug::JoinsDuringUpgrade);
        let over = self.readers == 0 || !lease.is_valid(now);
        if self.shut || upgrading || writer_waits || over {
            return None;
        }
        self.readers += 1;
        Some(self.token)
    }

    /// Adds a guard of a task that reads already. It joins also if the lease is shut.
    pub fn reenter(&mut self) {
        self.readers += 1;
    }

    /// Removes a reader. The last one returns how to end the lease; the others return `None`.
    pub fn leave(&mut self) -> Option<ReleaseRequest> {
        self.readers = self.readers.saturating_sub(1);
        (self.readers == 0).then(|| self.end())
    }

    /// Returns how to end the lease, with all its readers.
    pub fn end(&self) -> ReleaseRequest {
        let Self { attempt, token, suspect, .. } = *self;
        ReleaseRequest { attempt, base: Some(token), last: None, suspect, keep: None }
    }

    /// Shuts the lease: a message, or the answer to a renewal, reported that a writer waits.
    pub fn handle_wanted(&mut self) {
        self.shut = true;
    }

    /// Records that messages may have been missed, or that the engine may have lost its data. Tasks still
    /// join the lease, which its renewal checks.
    pub fn handle_missed(&mut self) {
        self.missed = true;
    }

    /// Returns true if the client must give the lease back with its last reader, and not
    /// [cache](super::decide_cache) it: a writer waits, or may wait. `writer_waits`: a task of this process does.
    pub fn is_wanted(&self, writer_waits: bool) -> bool {
        self.shut || self.missed || writer_waits
    }

    /// Starts to convert the only reader to a writer with the attempt `next`. Until the engine
    /// answers, no task joins, and the lease is not renewed. Returns `None` without any change if
    /// the engine would refuse: another task reads, a writer waits, or the lease has ended.
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

    /// Records that the engine refused the upgrade. The reader keeps its lease.
    pub fn handle_upgrade_refused(&mut self, wanted: bool) {
        self.upgrading = false;
        self.shut |= wanted;
    }
}

#[cfg(test)]
#[path = "reading_tests.rs"]
mod tests;
