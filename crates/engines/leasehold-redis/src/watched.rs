//! Pushes the changes of locks to observers, by `CLIENT TRACKING`: the server remembers which keys the
//! connection has read, and reports the first change of each, by whichever client.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_core::backend::{ChangeSource, Changes};
use leasehold_core::clock::Clock;
use leasehold_core::{ErrorKind, Result};
use redis::Value;
use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::call_limit::LIMITS;
use crate::command::tracking;
use crate::topology::Route;

/// The pause after a report, before the next one is asked for: it bounds the work for a lock that
/// changes often.
const PAUSE: Duration = Duration::from_millis(10);
/// The pause after a request that failed, unless the connection is established again before.
const RETRY: Duration = Duration::from_secs(1);

/// The locks that are observed now, by their keys. It is cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct WatchedLocks(Arc<Table>);

#[derive(Debug, Default)]
struct Table {
    locks: Mutex<HashMap<Vec<u8>, Arc<Watched>>>,
    /// The last request for reports was refused.
    is_refused: AtomicBool,
}

/// One lock that is observed.
#[derive(Debug, Default)]
struct Watched {
    source: ChangeSource,
    /// The server reports nothing more until it is asked again.
    reported: Notify,
}

/// Asks the server for reports, as long as the lock is observed.
struct Watcher {
    route: Route,
    clock: Clock,
    keys: Vec<String>,
    locks: WatchedLocks,
    watched: Arc<Watched>,
}

impl WatchedLocks {
    /// Observes a lock by its keys, at least one. Returns `None` outside a runtime, where nothing can ask for reports.
    pub(crate) fn observe(
        &self,
        route: &Route,
        clock: &Clock,
        keys: Vec<String>,
    ) -> Option<Changes> {
        let runtime = Handle::try_current().ok()?;
        let mut table = self.lock();
        if let Some(watched) = table.get(keys[0].as_bytes()) {
            return Some(watched.source.observe());
        }
        let watched = Arc::<Watched>::default();
        let changes = watched.source.observe();
        for key in &keys {
            table.insert(key.clone().into_bytes(), watched.clone());
        }
        let (route, clock, locks) = (route.clone(), clock.clone(), self.clone());
        runtime.spawn(Watcher { route, clock, keys, locks, watched }.run());
        Some(changes)
    }

    /// Returns true if the server has refused to report changes, as far as is known.
    pub(crate) fn is_refused(&self) -> bool {
        self.0.is_refused.load(Ordering::Relaxed)
    }

    /// Handles a report of the server: the keys that have changed, or nothing for all of them.
    pub(crate) fn handle_report(&self, report: &[Value]) {
        let [Value::Array(keys)] = report else { return self.ask_again() };
        let table = self.lock();
        for key in keys {
            if let Value::BulkString(key) = key
                && let Some(watched) = table.get(key)
            {
                watched.reported.notify_one();
            }
        }
    }

    /// Asks for all reports again: a connection was made, or was lost.
    pub(crate) fn ask_again(&self) {
        self.lock().values().for_each(|watched| watched.reported.notify_one());
    }

    /// Removes a lock: if only `unobserved`, unless it is observed again. Returns true if it is not in
    /// the table any more.
    fn remove(&self, keys: &[String], watched: &Arc<Watched>, unobserved: bool) -> bool {
        let mut table = self.lock();
        if unobserved && watched.source.is_observed() {
            return false;
        }
        for key in keys {
            // After a removal another watcher may have the lock.
            if table.get(key.as_bytes()).is_some_and(|known| Arc::ptr_eq(known, watched)) {
                table.remove(key.as_bytes());
            }
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Arc<Watched>>> {
        self.0.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watcher {
    async fn run(self) {
        loop {
            tokio::select! {
                biased;
                () = self.watched.source.unobserved() => {
                    if self.locks.remove(&self.keys, &self.watched, true) {
                        return;
                    }
                }
                is_possible = self.report() => if !is_possible {
                    return;
                },
            }
        }
    }

    /// Asks for one report, waits for it, and marks the change. Returns false if the server refuses.
    async fn report(&self) -> bool {
        let asked = self.ask().await;
        let pause = match asked {
            Ok(()) => {
                self.locks.0.is_refused.store(false, Ordering::Relaxed);
                // It may have changed before the server was asked.
                self.watched.source.mark();
                self.watched.reported.notified().await;
                self.watched.source.mark();
                PAUSE
            }
            Err(error) if matches!(error.kind(), ErrorKind::Unavailable) => {
                tokio::select! {
                    () = self.watched.reported.notified() => PAUSE,
                    () = self.clock.sleep(RETRY) => Duration::ZERO,
                }
            }
            Err(error) => {
                self.locks.0.is_refused.store(true, Ordering::Relaxed);
                tracing::debug!(%error, "the server reports no changes; observers ask at intervals");
                return false;
            }
        };
        self.clock.sleep(pause).await;
        true
    }

    /// Has the server report the next change of the lock's keys.
    async fn ask(&self) -> Result<()> {
        let key = &self.keys[0];
        self.route.run(key, &tracking(), LIMITS.1).await?;
        let mut caching = redis::cmd("CLIENT");
        caching.arg("CACHING").arg("YES");
        let mut read = redis::cmd("EXISTS");
        read.arg(&self.keys);
        self.route.run_replicated(key, &caching, &read, LIMITS.1).await?;
        Ok(())
    }
}

impl Drop for Watcher {
    /// Also runs when the runtime of the first observer ends. The observers that are left ask at
    /// intervals, and the next one starts another watcher.
    fn drop(&mut self) {
        self.locks.remove(&self.keys, &self.watched, false);
    }
}
