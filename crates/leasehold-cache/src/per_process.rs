//! A filter in the memory of each process, which learns of new keys from the messages to its cache.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard, Weak};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use leasehold_core::clock::Clock;
use leasehold_filters::bloom::{Answer, Local};
use tokio::sync::Mutex;

use crate::load_error::loader_panicked;
use crate::{BoxError, Result};

/// The first and the longest pause before a failed load is retried.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));

/// Adds all keys that exist.
type Load = dyn Fn(Arc<Local>) -> BoxFuture<'static, Result<(), BoxError>> + Send + Sync;

/// The filter of one cache. It adds every key whose invalidation the cache receives. After a gap in
/// the subscription the cache loads it again.
pub(crate) struct PerProcess {
    items: u64,
    error_rate: f64,
    load: Arc<Load>,
    state: RwLock<State>,
    /// Allows one load at a time.
    loading: Mutex<()>,
}

#[derive(Default)]
struct State {
    /// Increases when the subscription starts or stops.
    epoch: u64,
    /// The filter that has all keys.
    ready: Option<Arc<Local>>,
    /// The filter that is being loaded; it has the keys of the messages since its load began.
    filling: Option<Arc<Local>>,
}

impl PerProcess {
    pub(crate) fn new(items: u64, error_rate: f64, load: Arc<Load>) -> Result<Self> {
        // What it cannot be is said at once.
        Local::new(items, error_rate)?;
        let (state, loading) = (RwLock::default(), Mutex::default());
        Ok(Self { items, error_rate, load, state, loading })
    }

    /// Returns the same filter for another cache.
    pub(crate) fn again(&self) -> Self {
        let (state, loading) = (RwLock::default(), Mutex::default());
        let load = Arc::clone(&self.load);
        Self { items: self.items, error_rate: self.error_rate, load, state, loading }
    }

    pub(crate) fn check(&self, key: &str) -> Answer {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.ready.as_ref().map_or(Answer::Unavailable, |filter| filter.check(key))
    }

    /// Adds a key whose value has changed: it may exist now.
    pub(crate) fn add(&self, key: &str) {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        [&state.ready, &state.filling].into_iter().flatten().for_each(|filter| {
            filter.add(key);
        });
    }

    /// Records whether changes are received from now on. A write that began before may commit until
    /// `hold` is over.
    pub(crate) fn set_subscribed(
        self: &Arc<Self>,
        is_subscribed: bool,
        hold: Duration,
        clock: &Clock,
    ) {
        let epoch = {
            let mut state = self.write();
            *state = State { epoch: state.epoch + 1, ..State::default() };
            state.epoch
        };
        if is_subscribed {
            tokio::spawn(keep(Arc::downgrade(self), epoch, hold, clock.clone()));
        }
    }

    /// Loads the filter. Returns false if the load is obsolete.
    async fn fill(&self, epoch: u64) -> Result<bool, BoxError> {
        let _one = self.loading.lock().await;
        let filling = Arc::new(Local::new(self.items, self.error_rate)?);
        {
            let mut state = self.write();
            if state.epoch != epoch {
                return Ok(false);
            }
            state.filling = Some(Arc::clone(&filling));
        }
        let loading = AssertUnwindSafe(async { (self.load)(filling).await }).catch_unwind().await;
        loading.unwrap_or_else(|panic| Err(loader_panicked(panic.as_ref()).into()))?;
        let mut state = self.write();
        if state.epoch == epoch {
            state.ready = state.filling.take();
        }
        Ok(state.epoch == epoch)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Loads the filter, and loads it once more when no write is in progress that the process has not
/// seen.
async fn keep(filter: Weak<PerProcess>, epoch: u64, hold: Duration, clock: Clock) {
    for wait in [Duration::ZERO, hold] {
        clock.sleep(wait).await;
        let mut pause = PAUSES.0;
        loop {
            let Some(filter) = filter.upgrade() else { return };
            match filter.fill(epoch).await {
                Ok(true) => break,
                Ok(false) => return,
                Err(error) => tracing::warn!(
                    %error,
                    again_in = ?pause,
                    "cannot load the filter of this process; it answers Unavailable until a retry \
                     succeeds"
                ),
            }
            drop(filter);
            clock.sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
        }
    }
}

impl fmt::Debug for PerProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerProcess").field("items", &self.items).finish_non_exhaustive()
    }
}
