//! The type [`Cache`].

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use leasehold_cache_redis::invalidation::try_to_listen;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Result;
use crate::state::State;
use crate::stats::Stats;

/// A cache of values of type `V` by keys of type `K`, in the memory of this process and in Redis,
/// in front of a loader.
///
/// Clones share all state.
pub struct Cache<K: ?Sized, V> {
    pub(crate) state: Arc<State<V>>,
    types: PhantomData<fn(&K)>,
}

impl<K: ?Sized, V> Clone for Cache<K, V> {
    fn clone(&self) -> Self {
        Self { state: Arc::clone(&self.state), types: PhantomData }
    }
}

impl<K: ?Sized, V> fmt::Debug for Cache<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("name", &self.state.settings.name).finish_non_exhaustive()
    }
}

impl<K: ?Sized, V> Cache<K, V> {
    pub(crate) fn new(state: Arc<State<V>>) -> Self {
        Self { state, types: PhantomData }
    }

    /// Returns the counts of this cache since it was opened. The crate `metrics` receives the same
    /// counts, and more: [`Stats::METRICS`].
    pub fn stats(&self) -> Stats {
        self.state.counters.stats()
    }
}

impl<K: ?Sized, V: Serialize + DeserializeOwned + Clone + Send + Sync + 'static> Cache<K, V> {
    /// Checks that Redis can serve this cache: reconnects, runs the commands that a cache needs,
    /// and subscribes.
    ///
    /// Call it at the start of a program or in its health check. `open` does not connect, and while
    /// Redis cannot be used, loaders serve the readers.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) with the URL of the server
    /// (without its password) and the reason: no answer, a refused user or password, or a missing
    /// permission.
    pub async fn check(&self) -> Result<()> {
        let state = &self.state;
        state.remote.check("leasehold check").await?;
        let stem = format!("{}:{}", state.settings.prefix, state.settings.name);
        try_to_listen(state.server.clone(), &stem)
            .await
            .map_err(|error| state.consumer.error(error))
    }
}
