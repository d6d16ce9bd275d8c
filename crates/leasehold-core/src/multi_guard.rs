//! Several held locks: valid while all are, lost when one is, released together.

use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use futures_util::future::join_all;
use leasehold_proto::{Deadline, Token};
use tokio_util::sync::CancellationToken;

use crate::any_loss::{AnyLoss, LostLock, first_loss};
use crate::guard::Guard;
use crate::scope::Scope;
use crate::{Error, ErrorKind, Name, OnLoss, Result};

/// The held locks of a [`MultiLock`](crate::MultiLock). They end together, when this guard is
/// dropped or [released](Self::release).
///
/// If one lock is lost, the guard is not valid any more, [`lost`](Self::lost) returns, and the
/// [cancellation token](Self::cancellation_token) is cancelled. The other locks stay held, and are
/// renewed, until this guard ends: the work that is being stopped still relies on them.
///
/// The documentation of [`Guard`] applies to each of the locks. Dropping this guard releases all of
/// them in the background.
#[must_use = "a guard that is dropped releases its locks: bind it to a name such as `_guard` \
              (`let _ =` drops it at once)"]
pub struct MultiGuard {
    /// In the order of their names. Empty only in a guard that is being released.
    guards: Vec<Guard>,
    on_loss: OnLoss,
    /// Made for the first caller that wants to be notified.
    any_loss: OnceLock<AnyLoss>,
}

impl MultiGuard {
    /// Joins the guards, which are in the order of their names.
    pub(crate) fn new(guards: Vec<Guard>, on_loss: OnLoss) -> Self {
        let new = Self { guards, on_loss, any_loss: OnceLock::new() };
        if on_loss == OnLoss::Abort {
            new.any_loss();
        }
        new
    }

    fn any_loss(&self) -> &AnyLoss {
        self.any_loss.get_or_init(|| AnyLoss::of(&self.guards, self.on_loss == OnLoss::Abort))
    }

    /// Returns the guards of the single locks, in the order of their names.
    pub fn guards(&self) -> &[Guard] {
        &self.guards
    }

    /// Returns the names, sorted by their bytes.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.guards.iter().map(Guard::name)
    }

    /// Returns each name with its fencing token, in the order of the names. Tokens of different
    /// names are not related: send each resource the token of its own lock.
    pub fn tokens(&self) -> impl Iterator<Item = (&Name, Token)> {
        self.guards.iter().map(|guard| (guard.name(), guard.token()))
    }

    /// Returns the fencing token of this lock; `None` if it is not one of the names.
    pub fn token_of(&self, name: impl AsRef<str>) -> Option<Token> {
        let name = name.as_ref();
        let found = self.guards.binary_search_by(|guard| guard.name().as_str().cmp(name));
        found.ok().map(|at| self.guards[at].token())
    }

    /// Returns true while this guard holds all locks, by the clock.
    #[must_use = "a check without effect: `ensure` returns an error"]
    pub fn is_valid(&self) -> bool {
        self.guards.iter().all(Guard::is_valid)
    }

    /// Returns the shortest time until the program must stop relying on one of the locks; see
    /// [`Guard::remaining`].
    pub fn remaining(&self) -> Duration {
        self.guards.iter().map(Guard::remaining).min().unwrap_or(Duration::ZERO)
    }

    /// Returns when the first lock ends unless it is renewed; `None` if all last as long as the
    /// session.
    pub fn deadline(&self) -> Option<Deadline> {
        self.guards.iter().filter_map(Guard::deadline).reduce(Deadline::min)
    }

    /// Checks that all locks are valid now and for at least `margin` more.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`] with the name of a lock that is not; the guard does not change.
    pub fn ensure(&self, margin: Duration) -> Result<()> {
        self.guards.iter().try_for_each(|guard| guard.ensure(margin))
    }

    /// Waits until the first lock is lost, and returns its name and the reason. It returns as early
    /// before its deadline as [`Guard::lost`] does. Dropping the future has no effect on the locks.
    pub async fn lost(&self) -> LostLock {
        first_loss(&self.guards).await
    }

    /// Returns a token that is cancelled when the first lock is lost, at the same time as
    /// [`lost`](Self::lost) and with any [`OnLoss`]. A release does not cancel it. It depends on
    /// the background task of the client, and on this guard: it is not cancelled after the guard
    /// has ended.
    #[must_use = "the token does nothing unless the work waits for it"]
    pub fn cancellation_token(&self) -> CancellationToken {
        self.any_loss().token().child_token()
    }

    /// Returns another guard of the same leases, with the same tokens. Each lease ends with its
    /// last guard.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`] if this guard does not hold all locks any more.
    pub fn reenter(&self) -> Result<MultiGuard> {
        let guards: Result<_> = self.guards.iter().map(Guard::reenter).collect();
        Ok(Self::new(guards?, self.on_loss))
    }

    /// Returns true if a release would wait for a minimum hold; see [`Guard::lingers`].
    pub fn lingers(&self) -> bool {
        self.guards.iter().any(Guard::lingers)
    }

    /// Releases all locks at the same time; the requests leave in the reverse order of the names.
    ///
    /// Dropping the future does not undo the release: it continues in the background.
    ///
    /// # Errors
    /// As [`Guard::release`], after all of them were released: [`ErrorKind::Lost`] if one of the
    /// locks had ended before, else the first error.
    pub async fn release(mut self) -> Result<()> {
        first_error(join_all(self.end().map(Guard::release)).await)
    }

    /// Releases all locks without waiting for the rest of their minimum hold. Use it if the work
    /// never started.
    ///
    /// Dropping the future does not undo the release, even before the first poll: the release
    /// continues in the background.
    ///
    /// # Errors
    /// As [`release`](Self::release).
    pub fn release_early(mut self) -> impl Future<Output = Result<()>> + Send {
        let releases = join_all(self.end().map(Guard::release_early));
        async move { first_error(releases.await) }
    }

    /// Takes the guards out, the last name first.
    fn end(&mut self) -> impl Iterator<Item = Guard> + use<> {
        // From now on a lock that is lost is not needed any more.
        self.any_loss.take();
        std::mem::take(&mut self.guards).into_iter().rev()
    }
}

/// Returns the first loss; otherwise the first error.
fn first_error(released: Vec<Result<()>>) -> Result<()> {
    let mut errors: Vec<Error> = released.into_iter().filter_map(Result::err).collect();
    let lost = errors.iter().position(|error| error.kind() == ErrorKind::Lost);
    match errors.is_empty() {
        true => Ok(()),
        false => Err(errors.swap_remove(lost.unwrap_or(0))),
    }
}

impl Scope for MultiGuard {
    fn reenter(&self) -> Result<Self> {
        Self::reenter(self)
    }

    fn stops_work(&self) -> bool {
        self.on_loss != OnLoss::Notify
    }

    async fn loss(&self) -> Error {
        self.lost().await.error("run", "")
    }

    async fn release(self) -> Result<()> {
        Self::release(self).await
    }
}

impl fmt::Debug for MultiGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MultiGuard").field(&self.guards).finish()
    }
}

impl Drop for MultiGuard {
    fn drop(&mut self) {
        self.end().for_each(drop);
    }
}
