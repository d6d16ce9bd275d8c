//! Ends attempts: removes their nodes, and retries until that succeeds.

use std::sync::{Arc, Weak};
use std::time::Duration;

use leasehold_core::backend::{Event, ReleaseRequest, Verdict};
use leasehold_core::clock::Clock;
use leasehold_core::{AttemptId, Deadline, Name, Result};
use tokio::sync::Notify;

use crate::attempts::Line;
use crate::error::from_zk;
use crate::store::Store;

/// A removal that has not succeeded after this time is retried.
const AGAIN: Duration = Duration::from_secs(1);

/// Ends an attempt and removes its node.
pub(crate) async fn release(store: &Store, release: &ReleaseRequest) -> Result<Verdict> {
    let (verdict, left, late) = {
        let mut book = store.book();
        let (verdict, left) = book.end(store.clock.now(), release);
        (verdict, left, book.expects_late(release.attempt))
    };
    if late {
        store.bell.notify_one();
    }
    if !left {
        return Ok(verdict);
    }
    let mut unfinished = Unfinished(Some(&store.bell));
    match clear(store, release.attempt).await {
        Ok(verdict) => {
            unfinished.0 = None;
            Ok(verdict)
        }
        // The lease is lost whether or not the node can be removed now.
        Err(_) if verdict == Verdict::Lost => Ok(verdict),
        Err(error) => Err(error),
    }
}

/// Wakes the janitor to repeat a removal that failed or whose future was dropped.
struct Unfinished<'a>(Option<&'a Notify>);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(bell) = self.0 {
            bell.notify_one();
        }
    }
}

/// Ends an attempt that was not granted.
pub(crate) async fn leave(store: &Store, name: &Name, attempt: AttemptId) {
    let request = ReleaseRequest::new(name.clone(), attempt);
    // A failed removal is retried in the background.
    release(store, &request).await.ok();
}

/// Sends the removal of an attempt's node without waiting for the answer.
pub(crate) fn abandon(store: &Store, release: &ReleaseRequest) {
    let (_, left) = store.book().end(store.clock.now(), release);
    store.bell.notify_one();
    let Ok(session) = store.session() else { return };
    let left = left.then(|| store.book().clear(release.attempt)).flatten();
    if let Some(path) = left.and_then(|(_, left)| left.path) {
        drop(session.delete(&path));
    }
}

/// Removes the nodes that an ended attempt has left at the server.
async fn clear(store: &Store, attempt: AttemptId) -> Result<Verdict> {
    let session = store.session()?;
    let Some((line, left)) = store.book().clear(attempt) else {
        return Ok(store.book().cleared(attempt, false, false));
    };
    let lock = store.parent(&line);
    let failed = |error| from_zk(error, &lock);
    let mut found = false;
    if let Some(path) = &left.path {
        found |= session.delete(path).await.map_err(failed)?;
    }
    if left.search {
        let prefix = store.format().stem(attempt);
        let nodes = session.list_now(&lock).await.map_err(failed)?;
        for node in nodes.iter().filter(|node| node.starts_with(&prefix)) {
            found |= session.delete(&format!("{lock}/{node}")).await.map_err(failed)?;
        }
    }
    Ok(store.book().cleared(attempt, found, left.tried))
}

/// Removes the nodes of creations that arrived after their attempts had created other nodes or
/// ended. One list serves all attempts of a queue.
async fn clear_late(store: &Store, line: &Line, attempts: &[AttemptId]) -> Result<()> {
    let session = store.session()?;
    let lock = store.parent(line);
    let failed = |error| from_zk(error, &lock);
    let nodes = session.list_now(&lock).await.map_err(failed)?;
    for attempt in attempts {
        let prefix = store.format().stem(*attempt);
        let of_attempt = nodes.iter().filter(|node| node.starts_with(&prefix));
        let of_attempt = of_attempt.map(|node| format!("{lock}/{node}")).collect();
        let Some(superfluous) = store.book().superfluous(*attempt, of_attempt) else { continue };
        for node in superfluous {
            tracing::debug!(%attempt, node, "removing a node whose creation arrived late");
            session.delete(&node).await.map_err(failed)?;
        }
        store.book().searched(*attempt);
    }
    Ok(())
}

/// Runs until the store is dropped: ends leases that were not renewed, and removes leftover nodes.
pub(crate) async fn run(store: Weak<Store>, clock: Clock, bell: Arc<Notify>) {
    loop {
        let Some(strong) = store.upgrade() else { return };
        // Work that becomes due meanwhile rings the bell.
        strong.note_asleep(None);
        let wake_at = tidy(&strong);
        strong.note_asleep(wake_at);
        drop(strong);
        match wake_at {
            Some(at) => drop(clock.within(Some(at), bell.notified()).await),
            None => bell.notified().await,
        }
    }
}

/// Does the work that is due; returns when to run again.
fn tidy(store: &Arc<Store>) -> Option<Deadline> {
    let now = store.clock.now();
    let mut book = store.book();
    let mut lost = book.due(now);
    lost.retain(|attempt| book.lose(now, *attempt));
    let mut left = book.left_behind(now, AGAIN);
    left.extend(&lost);
    let late = book.late(now, AGAIN);
    let again = book.has_left().then(|| Deadline::after(now, AGAIN));
    let next = book
        .next_end()
        .map(|at| Deadline::after(now, Duration::from_nanos(at.saturating_sub(now.steady_ns))));
    drop(book);
    for attempt in lost {
        store.tell(Event::Lost { attempt, base: None });
    }
    for attempt in left {
        let store = store.clone();
        tokio::spawn(async move {
            match clear(&store, attempt).await {
                Err(error) if error.kind().is_certain() => {
                    tracing::warn!(%attempt, %error, "no permission to remove a node; the server removes it when the session ends");
                    store.book().cleared(attempt, false, true);
                }
                Err(error) => {
                    tracing::debug!(%attempt, %error, "cannot remove a node; retrying")
                }
                Ok(_) => {}
            }
        });
    }
    for (line, attempts) in late {
        let store = store.clone();
        tokio::spawn(async move {
            match clear_late(&store, &line, &attempts).await {
                Err(error) if error.kind().is_certain() => {
                    tracing::warn!(name = %line.name, %error, "no permission to search for late nodes; the server removes them when the session ends");
                    let mut book = store.book();
                    attempts.iter().for_each(|attempt| book.stop_search(*attempt));
                }
                Err(error) => {
                    tracing::debug!(name = %line.name, %error, "cannot search for late nodes; retrying")
                }
                Ok(()) => {}
            }
        });
    }
    match (next, again) {
        (Some(next), Some(again)) => Some(next.min(again)),
        (one, other) => one.or(other),
    }
}
