//! The settings of a client: the same ones, however it is created.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::Result;
use crate::backend::{Backend, BoxFuture};
use crate::clock::Clock;
use crate::late_releases::Reopen;

/// The settings of a client. Each setter returns the changed settings; none of them fails.
///
/// ```
/// use leasehold_core::ClientSettings;
/// use std::time::Duration;
///
/// let settings = ClientSettings::new().patience(Duration::from_secs(3));
/// # drop(settings);
/// ```
#[must_use = "settings do nothing until a client is created with them"]
#[derive(Clone)]
pub struct ClientSettings {
    pub(crate) clock: Clock,
    pub(crate) patience: Duration,
    pub(crate) try_patience: Duration,
    pub(crate) cache: Duration,
    pub(crate) reopen: Option<Arc<Reopen>>,
}

impl ClientSettings {
    /// Creates the default settings: system clock, 10 s patience (2 s for one try), no
    /// cached leases.
    pub fn new() -> Self {
        Self {
            clock: Clock::system(),
            patience: Duration::from_secs(10),
            try_patience: Duration::from_secs(2),
            cache: Duration::ZERO,
            reopen: None,
        }
    }

    /// Sets the clock that validity is computed from. Default: the system clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Sets how long an acquire retries a backend that does not answer before it fails with
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable). The time counts for each caller
    /// from its start, or from the first unanswered request if that is later. Each queued task has
    /// its own timeout. Default: 10 s.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Sets how long [`Lock::try_acquire`](crate::Lock::try_acquire) retries a backend that does
    /// not answer before it fails with [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable);
    /// at most [`patience`](Self::patience). Default: 2 s.
    pub fn try_patience(mut self, patience: Duration) -> Self {
        self.try_patience = patience;
        self
    }

    /// Sets for how long the client caches the leases of its locks and read-write locks;
    /// [`Lock::cache`](crate::Lock::cache) describes what that is, and overrides it for one lock. Zero, or 1 ms to 24 h. Default: zero,
    /// which caches none. On an engine that cannot have cached leases, creating the client fails.
    pub fn cache(mut self, cache: Duration) -> Self {
        self.cache = cache;
        self
    }

    /// Sets how to open a second connection to the same store. The client uses it for leases that
    /// its runtime did not release before it ended. One extra thread releases all of them, and the
    /// end of the runtime waits for it for at most 1 s in total. It releases no lost lease, and no
    /// lock that the client keeps for a minimum hold. Default: none; such leases end with their
    /// ttl. The functions of `leasehold` that connect by a URL set it where it is useful, unless it
    /// is already set.
    pub fn reopen(
        mut self,
        reopen: impl Fn() -> BoxFuture<'static, Result<Arc<dyn Backend>>> + Send + Sync + 'static,
    ) -> Self {
        self.reopen = Some(Arc::new(reopen));
        self
    }

    /// Returns true if [`reopen`](Self::reopen) was set.
    #[must_use]
    pub fn reopens(&self) -> bool {
        self.reopen.is_some()
    }
}

impl Default for ClientSettings {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ClientSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("ClientSettings");
        out.field("clock", &self.clock).field("patience", &self.patience);
        out.field("try_patience", &self.try_patience)
            .field("cache", &self.cache)
            .field("reopens", &self.reopens())
            .finish()
    }
}
