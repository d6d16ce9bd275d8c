//! The hold over the keys of a write. It is released when it is dropped.

use std::sync::Arc;
use std::time::Duration;

use leasehold_cache_redis::draw_token;
use leasehold_cache_redis::invalidation::Step;
use leasehold_core::proto::Deadline;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::state::State;

/// How long a commit may take to arrive at the database after the program dropped its write. No key
/// is filled in this time.
const LATE_COMMIT: Duration = Duration::from_secs(1);

/// Keys that readers may not fill, with the token of the hold.
pub(crate) struct Hold {
    pub(crate) keys: Vec<String>,
    pub(crate) token: String,
    /// When the hold expires.
    pub(crate) until: Deadline,
    pub(crate) commit: Commit,
    to: Arc<dyn Release>,
}

/// What may have happened to the transaction.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Commit {
    /// No commit was sent.
    Uncommitted,
    /// A commit may have been sent.
    Open,
    /// The hold was ended.
    Ended,
}

/// Ends holds in the background.
pub(crate) trait Release: Send + Sync {
    /// Removes the values of these keys, and keeps the hold of `token` for this time.
    fn release(self: Arc<Self>, keys: Vec<String>, token: String, hold: Duration);
}

impl Hold {
    pub(crate) fn new(keys: Vec<String>, until: Deadline, to: Arc<dyn Release>) -> Self {
        Self { keys, token: draw_token(), until, commit: Commit::Uncommitted, to }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let hold = match self.commit {
            Commit::Ended => return,
            Commit::Uncommitted => Duration::ZERO,
            Commit::Open => LATE_COMMIT,
        };
        let (keys, token) = (std::mem::take(&mut self.keys), std::mem::take(&mut self.token));
        Arc::clone(&self.to).release(keys, token, hold);
    }
}

impl<V: Serialize + DeserializeOwned + Clone + Send + Sync + 'static> Release for State<V> {
    fn release(self: Arc<Self>, keys: Vec<String>, token: String, hold: Duration) {
        // Without a runtime the process is ending: the hold ends by itself.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            let lag = if hold.is_zero() { hold } else { hold + self.settings.replica_lag };
            // What fails is tried again.
            if let Err(error) = self.step(&keys, &token, |_| Step::Committed(lag)).await {
                tracing::debug!(%error, "cannot release the hold of a dropped write; it expires \
                                         after write_hold");
            }
        });
    }
}
