//! The guards of a read-write lock.

use std::ops::Deref;
use std::sync::Arc;

use leasehold_proto::LossReason;

use crate::backend::Origin;
use crate::common_errors::lost;
use crate::convert::{self, Outcome};
use crate::guard::Guard;
use crate::options::invalid;
use crate::scope::Scope;
use crate::{Error, OnLoss, Result};

/// A lock that is held to read. It has the methods of a [`Guard`], and ends when it is dropped or
/// released. Its token is that of the read phase: all readers of the phase have the same.
#[must_use = "a guard that is dropped releases its lock: bind it to a name such as `_guard` \
              (`let _ =` drops it at once)"]
#[derive(Debug)]
pub struct ReadGuard {
    guard: Guard,
    origin: Arc<Origin>,
}

/// A lock that is held to write. It has the methods of a [`Guard`], and ends when it is dropped or
/// released.
#[must_use = "a guard that is dropped releases its lock: bind it to a name such as `_guard` \
              (`let _ =` drops it at once)"]
#[derive(Debug)]
pub struct WriteGuard {
    guard: Guard,
    origin: Arc<Origin>,
}

/// What [`ReadGuard::try_upgrade`] returns.
#[must_use = "a guard that is dropped releases its lock"]
#[derive(Debug)]
#[non_exhaustive]
pub enum Upgraded {
    /// The reader writes now.
    Write(WriteGuard),
    /// Another task or client reads or waits. The reader continues to read.
    Refused(ReadGuard),
}

impl ReadGuard {
    pub(crate) fn new(guard: Guard, origin: Arc<Origin>) -> Self {
        Self { guard, origin }
    }

    /// Makes this reader a writer in one step, with a new token, if no other task or client reads or
    /// waits. It never waits: two readers that waited for each other would wait forever. If it is
    /// refused, release the lock and acquire it to write.
    ///
    /// Cancellation tokens of this guard continue: they are cancelled when the new lease is lost, or
    /// if the call fails. Dropping the future releases the lock in the background.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`](crate::ErrorKind::Lost) if the lease was lost, and
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) if the backend did not answer before its end.
    /// After an error the client holds nothing: the lock is released in the background. A loss during
    /// the call is such an error, and aborts no process ([`OnLoss::Abort`]).
    pub async fn try_upgrade(self) -> Result<Upgraded> {
        let Self { guard, origin } = self;
        still_held(&guard, "upgrade")?;
        let (client, hold) = guard.into_parts();
        let outcome = convert::upgrade(client.driver(), &hold, &origin).await;
        let outcome = outcome.map_err(|error| error.during("upgrade", Some(&hold.name)))?;
        Ok(match outcome {
            Outcome::Held(hold) => {
                Upgraded::Write(WriteGuard { guard: Guard::new(client, hold), origin })
            }
            Outcome::Refused => {
                let guard = Guard::new(client, hold);
                still_held(&guard, "upgrade")?;
                Upgraded::Refused(Self { guard, origin })
            }
        })
    }

    /// Releases the lock; see [`Guard::release`].
    ///
    /// # Errors
    /// As there.
    pub async fn release(self) -> Result<()> {
        self.guard.release().await
    }
}

impl WriteGuard {
    pub(crate) fn new(guard: Guard, origin: Arc<Origin>) -> Self {
        Self { guard, origin }
    }

    /// Makes this writer a reader in one step, with a new token: no other writer gets in between, and
    /// the readers that wait enter with it. A minimum hold ends with it, and a maximum hold begins
    /// anew.
    ///
    /// Cancellation tokens of this guard continue: they are cancelled when the new lease is lost, or
    /// if the call fails. Dropping the future releases the lock in the background.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`](crate::ErrorKind::Lost) if the lease was lost,
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) if the backend did not answer before its end, and
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if other guards share the lease
    /// ([`Guard::reenter`]). After an error this guard holds nothing: its lease is released in the
    /// background, unless other guards share it.
    pub async fn downgrade(self) -> Result<ReadGuard> {
        let Self { guard, origin } = self;
        still_held(&guard, "downgrade")?;
        if !guard.hold().has_one_user() || !guard.hold().claim_conversion() {
            let message = "guard: other guards share this lease; release them before";
            return Err(invalid(message.to_owned()).during("downgrade", Some(guard.name())));
        }
        let (client, hold) = guard.into_parts();
        let read = convert::downgrade(client.driver(), &hold, &origin).await;
        let read = read.map_err(|error| error.during("downgrade", Some(&hold.name)))?;
        Ok(ReadGuard { guard: Guard::new(client, read), origin })
    }

    /// Releases the lock; see [`Guard::release`].
    ///
    /// # Errors
    /// As there.
    pub async fn release(self) -> Result<()> {
        self.guard.release().await
    }
}

/// Fails if a guard does not hold its lock any more.
fn still_held(guard: &Guard, operation: &'static str) -> Result<()> {
    if guard.is_valid() {
        return Ok(());
    }
    let reason = guard.hold().lease().loss().unwrap_or(LossReason::Expired);
    Err(lost(reason).during(operation, Some(guard.name())))
}

/// Writes what both guards share.
macro_rules! guards {
    ($($guard:ty),*) => { $(
        impl Deref for $guard {
            type Target = Guard;

            fn deref(&self) -> &Guard {
                &self.guard
            }
        }

        impl Scope for $guard {
            fn reenter(&self) -> Result<Self> {
                Ok(Self { guard: self.guard.reenter()?, origin: self.origin.clone() })
            }

            fn stops_work(&self) -> bool {
                self.guard.hold().on_loss() != OnLoss::Notify
            }

            async fn loss(&self) -> Error {
                Scope::loss(&self.guard).await
            }

            async fn release(self) -> Result<()> {
                self.guard.release().await
            }
        }
    )* };
}

guards!(ReadGuard, WriteGuard);
