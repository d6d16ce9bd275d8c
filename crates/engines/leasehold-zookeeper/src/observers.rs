//! Pushes the changes of names to observers: a session of its own has one watch for each observed name.
//!
//! The watch is on the node of the name and on all below it. In the session of the locks it would disturb the watches
//! of waiters: servers keep one kind of watch for each path and session (ZOOKEEPER-4466), and remove both together
//! (ZOOKEEPER-4472). The session exists while a name is observed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::FutureExt;
use leasehold_core::Name;
use leasehold_core::backend::{ChangeSource, Changes};
use leasehold_core::clock::Clock;
use tokio::runtime::Handle;
use zookeeper_client::{Error as ZkError, EventType, SessionState, WatchedEvent};

use crate::address::Address;
use crate::session::Session;
use crate::session_keeper;

/// The pause after a change: it bounds the work for a name that changes often.
const PAUSE: Duration = Duration::from_millis(10);
/// The pause after a failure.
const RETRY: Duration = Duration::from_secs(1);

/// The names that are observed now.
#[derive(Debug)]
pub(crate) struct Observers {
    address: Address,
    clock: Clock,
    table: Mutex<HashMap<Name, Arc<ChangeSource>>>,
    /// The session of all watches. It ends with the last of them.
    session: tokio::sync::Mutex<Weak<Session>>,
}

/// Keeps the watch of one name, as long as it is observed.
struct Watcher {
    observers: Arc<Observers>,
    name: Name,
    source: Arc<ChangeSource>,
}

/// How the watch of a name ended.
enum Ended {
    /// With its session, or it could not be set: it is set again.
    Again,
    /// The servers know no such watches.
    Never,
}

impl Observers {
    pub(crate) fn new(address: Address, clock: Clock) -> Arc<Self> {
        let (table, session) = (Mutex::default(), tokio::sync::Mutex::default());
        Arc::new(Self { address, clock, table, session })
    }

    /// Observes a name. Returns `None` outside a runtime, where no task can wait for a watch.
    pub(crate) fn observe(self: &Arc<Self>, name: &Name) -> Option<Changes> {
        let runtime = Handle::try_current().ok()?;
        let mut table = self.lock();
        if let Some(source) = table.get(name) {
            return Some(source.observe());
        }
        let source = Arc::new(ChangeSource::new());
        let changes = source.observe();
        table.insert(name.clone(), source.clone());
        drop(table);
        runtime.spawn(Watcher { observers: self.clone(), name: name.clone(), source }.run());
        Some(changes)
    }

    /// Returns the session of the watches, and opens it for the first one.
    async fn session(&self) -> Option<Arc<Session>> {
        let mut slot = self.session.lock().await;
        if let Some(session) = slot.upgrade().filter(|session| !session.is_over()) {
            return Some(session);
        }
        match session_keeper::try_open(&self.address, &self.clock, 0).await {
            Ok(session) => {
                let session = Arc::new(session);
                *slot = Arc::downgrade(&session);
                Some(session)
            }
            Err(error) => {
                tracing::debug!(place = %self.address.place, ?error, "cannot open a session for observers; retrying");
                None
            }
        }
    }

    /// Removes a name: if only `unobserved`, unless it is observed again. Returns true if it is not in the table any
    /// more.
    fn remove(&self, name: &Name, source: &Arc<ChangeSource>, unobserved: bool) -> bool {
        let mut table = self.lock();
        if unobserved && source.is_observed() {
            return false;
        }
        // After a removal another watcher may have the name.
        if table.get(name).is_some_and(|known| Arc::ptr_eq(known, source)) {
            table.remove(name);
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Name, Arc<ChangeSource>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watcher {
    async fn run(self) {
        loop {
            tokio::select! {
                biased;
                () = self.source.unobserved() => {
                    if self.observers.remove(&self.name, &self.source, true) {
                        return;
                    }
                }
                ended = self.watch() => match ended {
                    Ended::Again => self.observers.clock.sleep(RETRY).await,
                    Ended::Never => return,
                },
            }
        }
    }

    /// Marks changes until the session ends.
    async fn watch(&self) -> Ended {
        let Some(session) = self.observers.session().await else { return Ended::Again };
        let path = self.observers.address.lock(&self.name);
        let mut watcher = match session.observe(&path).await {
            Ok(watcher) => watcher,
            Err(ZkError::Unimplemented) => {
                tracing::debug!("the servers push no changes; observers ask at intervals");
                return Ended::Never;
            }
            Err(error) => {
                tracing::debug!(path, %error, "cannot watch a name for its observers; retrying");
                return Ended::Again;
            }
        };
        // It may have changed before the watch was set.
        self.source.mark();
        loop {
            let mut event = Some(watcher.changed().await);
            let mut is_new_connection = false;
            while let Some(one) = event {
                if is_over(&one) {
                    self.source.mark();
                    return Ended::Again;
                }
                is_new_connection |= one.event_type == EventType::Session;
                event = watcher.changed().now_or_never();
            }
            // The library sets the watch again before this request, and what happened before is not reported.
            if is_new_connection {
                session.stat(&path).await.ok();
            }
            self.source.mark();
            self.observers.clock.sleep(PAUSE).await;
        }
    }
}

fn is_over(event: &WatchedEvent) -> bool {
    use SessionState::{AuthFailed, Closed, Expired};
    event.event_type == EventType::Session
        && matches!(event.session_state, AuthFailed | Closed | Expired)
}

impl Drop for Watcher {
    /// Also runs when the runtime of the first observer ends. The observers that are left ask at intervals, and the
    /// next one starts another watcher.
    fn drop(&mut self) {
        self.observers.remove(&self.name, &self.source, false);
    }
}
