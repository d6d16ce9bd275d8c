//! Elections, for programs without an async runtime.

use std::time::Duration;

use leasehold_core::{Leader, Leadership, LossReason, Result};

use super::{Lock, Own};

/// An election of a leader, with the settings of [`crate::Election`].
///
/// ```
/// # fn main() -> leasehold::Result<()> {
/// let client = leasehold::blocking::connect("memory:")?;
/// let election = client.election("scheduler").candidate("10.0.0.7:8080");
/// let mut leaders = election.observe()?;
/// assert_eq!(leaders.next().transpose()?, Some(None)); // no leader yet
/// let token = election.run(|leadership| leadership.token())?;
/// assert!(token.get() > 0);
/// # client.close() }
/// ```
#[must_use = "an election does nothing until it is run or observed; a setter returns the changed \
              election"]
#[derive(Clone, Debug)]
pub struct Election {
    election: crate::Election,
    runtime: Own,
}

/// A term as the leader; see [`crate::Term`]. Dropping it waits as the drop of a
/// [`Guard`](super::Guard) does.
#[must_use = "a term that is dropped is resigned: bind it to a name such as `_term`"]
#[derive(Debug)]
pub struct Term {
    /// `None` after the resignation.
    term: Option<crate::Term>,
    runtime: Own,
}

/// The leaders of an election from now on; see [`crate::Leaders`]. The iterator waits for each
/// change; `None` in it stands for no leader.
#[must_use = "an iterator does nothing unless it is asked"]
#[derive(Debug)]
pub struct Leaders {
    leaders: crate::Leaders,
    runtime: Own,
}

impl Election {
    pub(super) fn new(election: crate::Election, runtime: Own) -> Self {
        Self { election, runtime }
    }

    fn with(self, knobs: impl FnOnce(crate::Election) -> crate::Election) -> Self {
        Self { election: knobs(self.election), runtime: self.runtime }
    }

    /// See [`crate::Election::candidate`].
    pub fn candidate(self, value: impl Into<String>) -> Self {
        self.with(|election| election.candidate(value))
    }

    /// See [`crate::Election::ttl`].
    pub fn ttl(self, ttl: Duration) -> Self {
        self.with(|election| election.ttl(ttl))
    }

    /// See [`crate::Election::renew_after`].
    pub fn renew_after(self, after: Duration) -> Self {
        self.with(|election| election.renew_after(after))
    }

    /// See [`crate::Election::wait`].
    pub fn wait(self, wait: Duration) -> Self {
        self.with(|election| election.wait(wait))
    }

    /// See [`crate::Election::max_hold`].
    pub fn max_hold(self, max_hold: Duration) -> Self {
        self.with(|election| election.max_hold(max_hold))
    }

    /// See [`crate::Election::observe_every`].
    pub fn observe_every(self, every: Duration) -> Self {
        self.with(|election| election.observe_every(every))
    }

    /// Returns the lock whose holder is the leader; see [`crate::Election::lock`].
    ///
    /// # Errors
    /// As there.
    pub fn lock(&self) -> Result<Lock> {
        Ok(Lock { lock: self.election.lock()?, runtime: self.runtime.clone() })
    }

    /// Waits until this candidate leads; see [`crate::Election::campaign`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task.
    pub fn campaign(&self) -> Result<Term> {
        let term = self.runtime.block_on(self.election.campaign())??;
        self.runtime.answered();
        Ok(Term { term: Some(term), runtime: self.runtime.clone() })
    }

    /// Campaigns, runs `work` while this candidate leads, and resigns. If the leadership was lost
    /// before the work ended, it campaigns again, and calls `work` again in the next term.
    ///
    /// A loss cannot interrupt blocking work: let it end when [`Leadership::is_leader`] is false or
    /// its [cancellation token](Leadership::cancellation_token) is cancelled. This candidate
    /// campaigns again only after that. Use [`campaign`](Self::campaign) to end after a loss.
    ///
    /// If the work panics, the term ends, and the panic continues in the caller.
    ///
    /// # Errors
    /// As [`campaign`](Self::campaign), also in a later campaign.
    pub fn run<T>(&self, mut work: impl FnMut(&Leadership) -> T) -> Result<T> {
        loop {
            let term = self.campaign()?;
            let done = work(term.leadership());
            if term.leadership().is_leader() {
                // The client repeats a resignation that fails.
                let _ = term.resign();
                return Ok(done);
            }
        }
    }

    /// Returns the leader, if there is one; see [`crate::Election::leader`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task.
    pub fn leader(&self) -> Result<Option<Leader>> {
        self.runtime.block_on(self.election.leader())?
    }

    /// Returns the leaders from now on; see [`crate::Election::observe`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task.
    pub fn observe(&self) -> Result<Leaders> {
        let leaders = self.runtime.block_on(self.election.observe())??;
        Ok(Leaders { leaders, runtime: self.runtime.clone() })
    }
}

impl Term {
    /// See [`crate::Term::leadership`].
    pub fn leadership(&self) -> &Leadership {
        self.as_async().leadership()
    }

    /// Waits until the leadership is lost; see [`crate::Term::lost`].
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task.
    pub fn lost(&self) -> Result<LossReason> {
        self.runtime.block_on(self.as_async().lost())
    }

    /// Returns the async term.
    pub fn as_async(&self) -> &crate::Term {
        match &self.term {
            Some(term) => term,
            None => unreachable!("only resign and drop take the term, and they consume this one"),
        }
    }

    /// Resigns; see [`crate::Term::resign`].
    ///
    /// # Errors
    /// As there; [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) inside an async task, where it
    /// continues in the background.
    pub fn resign(mut self) -> Result<()> {
        let Some(term) = self.term.take() else { return Ok(()) };
        self.runtime.block_on(term.resign())?
    }
}

impl Drop for Term {
    fn drop(&mut self) {
        if let Some(term) = self.term.take() {
            self.runtime.release_dropped(false, term.resign());
        }
    }
}

impl Iterator for Leaders {
    type Item = Result<Option<Leader>>;

    /// Waits for the next change. An error, with
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid), is only returned inside an async task.
    fn next(&mut self) -> Option<Self::Item> {
        self.runtime.block_on(self.leaders.next()).transpose()
    }
}
