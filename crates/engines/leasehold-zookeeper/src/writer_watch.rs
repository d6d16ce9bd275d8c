//! Tells a client that reads when a writer waits: its tasks then join its lease no more.

use std::sync::{Arc, Weak};
use std::time::Duration;

use leasehold_core::backend::Event;
use leasehold_core::{AttemptId, Name};

use crate::queue::Queue;
use crate::store::Store;

/// A reader that leaves before this time has passed does not look for writers, and one that stays looks
/// again after it, at the earliest: each node that comes or goes wakes all readers that watch the queue.
const PAUSE: Duration = Duration::from_millis(100);

/// Starts to look for writers behind a lease that was granted, until the lease ends.
pub(crate) fn start(store: &Arc<Store>, name: &Name, attempt: AttemptId) {
    let (weak, lock, name) = (Arc::downgrade(store), store.lock_path(name), name.clone());
    let clock = store.clock.clone();
    store.book().look_for_writers(attempt, || {
        let task = tokio::spawn(async move {
            loop {
                clock.sleep(PAUSE).await;
                match look(&weak, &lock).await {
                    Look::Writer => break,
                    Look::Again => {}
                    Look::Over => return,
                }
            }
            if let Some(store) = weak.upgrade() {
                store.tell(Event::Wanted { name, attempt });
            }
        });
        task.abort_handle()
    });
}

enum Look {
    /// A writer waits.
    Writer,
    /// The queue has changed, or was not read.
    Again,
    /// The lock has no queue any more.
    Over,
}

/// Reads the queue once, and waits for its next change if no writer is in it.
async fn look(store: &Weak<Store>, lock: &str) -> Look {
    let Some(session) = store.upgrade().map(|store| store.session()) else { return Look::Over };
    let Ok(session) = session else { return Look::Again };
    let watcher = match session.watch_queue(lock).await {
        Ok(Some((nodes, watcher))) => match Queue::has_writer_among(nodes) {
            true => return Look::Writer,
            false => watcher,
        },
        Ok(None) => return Look::Over,
        Err(error) => {
            tracing::debug!(lock, %error, "cannot look for waiting writers; retrying");
            return Look::Again;
        }
    };
    drop(session);
    watcher.changed().await;
    Look::Again
}
