//! Releases a lock for its guard: at once, or in the background if the guard or the release was
//! dropped.

use std::sync::Arc;

use leasehold_proto::{LossReason, Now};

use crate::backend::Verdict;
use crate::background_job::Job;
use crate::common_errors::lost;
use crate::driver::Driver;
use crate::hold::Hold;
use crate::hold_end::{Closed, close, close_dropped, keep, linger, record};
use crate::local_handoff;
use crate::pending_release::{PendingRelease, leaves_nothing};
use crate::{Error, Result};

/// Releases a hold whose last guard was dropped: hands it to a local waiter, or ends it in the
/// background. With `stay`, it first waits for the rest of the minimum hold.
pub(crate) fn let_drop(driver: &Driver, hold: Arc<Hold>, stay: bool) {
    match stay && !hold.min_hold().is_zero() {
        true => driver.hand_over(Job::Release(hold)),
        false => driver.end(close_dropped(&driver.shared, &hold, stay)),
    }
}

/// A release in progress; if its future is dropped, the background task finishes it.
pub(crate) struct Releasing {
    driver: Arc<Driver>,
    hold: Arc<Hold>,
    /// Wait for the rest of the minimum hold.
    stay: bool,
    left: Left,
}

/// What the background task must do if the future is dropped now.
enum Left {
    Release,
    /// Continue the end that is in progress.
    End(PendingRelease),
    Nothing,
}

/// What a release does after the books were updated.
pub(crate) enum Next {
    /// Nothing.
    Done(Result<()>),
    /// It ends the lease at the backend.
    Send(Sending),
}

/// The end of a lease that must be sent.
pub(crate) struct Sending {
    now: Now,
    /// The lease was held when the program released it.
    valid: bool,
    /// It was held until the books were updated.
    ours: bool,
}

impl Releasing {
    pub(crate) fn new(driver: Arc<Driver>, hold: Arc<Hold>, stay: bool) -> Self {
        Self { driver, hold, stay, left: Left::Release }
    }

    /// Ends a cached lease, which no task holds.
    pub(crate) fn of_nobody(driver: Arc<Driver>, hold: Arc<Hold>) -> Self {
        let left = match local_handoff::end(&driver.shared, &hold, None) {
            Some(pending) => Left::End(pending),
            None => Left::Nothing,
        };
        Self { driver, hold, stay: false, left }
    }

    /// Sends the end of a lease that no task holds. If it is not answered, the background task
    /// repeats it.
    pub(crate) async fn give_back(&mut self, now: Now) {
        let sending = Sending { now, valid: true, ours: false };
        if let Err(error) = self.send(sending).await {
            tracing::debug!(name = %self.hold.name, %error, "cannot give a cached lease back");
        }
    }

    /// Returns true if the lease is held now. The program's work under the lock ends with its release.
    pub(crate) fn is_valid(&self) -> bool {
        self.hold.lease().is_valid(self.driver.shared.clock.now())
    }

    /// Returns true if the release waits for the rest of a minimum hold.
    pub(crate) fn lingers(&self) -> bool {
        self.stay && !self.hold.min_hold().is_zero()
    }

    /// Waits for the rest of the minimum hold, which only protects other clients.
    pub(crate) async fn linger(&self) {
        linger(&self.driver.shared, &self.hold).await;
    }

    /// Updates the books, which passes the lock to a local waiter if there is one. `valid` says whether the lease was
    /// held when the program released it, if that is not now.
    pub(crate) fn close(&mut self, valid: Option<bool>) -> Next {
        let now = self.driver.shared.clock.now();
        let valid = valid.unwrap_or_else(|| self.hold.lease().is_valid(now));
        let keep = keep(&self.driver.shared, &self.hold).filter(|_| self.stay);
        let (release, ours) = match close(&self.driver.shared, &self.hold, keep, now) {
            Some(Closed::End(release, ours)) => (release, ours),
            Some(Closed::Passed(evicted)) => {
                self.driver.end(evicted);
                record(&self.driver.shared, &self.hold, true, now);
                return self.done(valid);
            }
            None => return self.done(valid),
        };
        let pending = PendingRelease::of_hold(&self.hold, release);
        if !ours && self.hold.lease().loss().is_some_and(leaves_nothing) {
            // The answer would have no effect, and may take long.
            self.driver.end(Some(pending));
            return self.done(valid);
        }
        self.left = Left::End(pending);
        Next::Send(Sending { now, valid, ours })
    }

    fn done(&mut self, valid: bool) -> Next {
        self.left = Left::Nothing;
        Next::Done(if valid { Ok(()) } else { Err(self.lost()) })
    }

    /// Ends the lease at the backend, and fails if it was not held until now.
    pub(crate) async fn send(&mut self, Sending { now, valid, ours }: Sending) -> Result<()> {
        let Left::End(pending) = &mut self.left else { return Ok(()) };
        let (ended, over) = pending.send(&self.driver.shared, now).await;
        if over {
            self.left = Left::Nothing;
        }
        let verdict = match ended {
            Ok(ended) => ended.verdict,
            // A known loss stays a loss, even if the backend could not be reached.
            Err(error) => return Err(if valid { self.during(error) } else { self.lost() }),
        };
        let released = matches!(verdict, Verdict::Released | Verdict::Unknown);
        if ours {
            record(&self.driver.shared, &self.hold, released, now);
        }
        match valid && (released || !ours) {
            true => Ok(()),
            false => Err(self.lost()),
        }
    }

    fn lost(&self) -> Error {
        let reason = self.hold.lease().loss();
        self.during(lost(reason.unwrap_or(LossReason::NotOwner)))
    }

    fn during(&self, error: Error) -> Error {
        error.during("release", Some(&self.hold.name))
    }
}

impl Drop for Releasing {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.left, Left::Nothing) {
            Left::Release => self.driver.hand_over(Job::Release(self.hold.clone())),
            Left::End(pending) => self.driver.end(Some(pending.after_drop())),
            Left::Nothing => {}
        }
    }
}
