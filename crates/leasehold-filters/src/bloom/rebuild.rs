//! Builds a new filter beside the one in use.

use std::sync::atomic::{AtomicU64, Ordering};

use leasehold_cache_redis::ServerRun;

use super::Redis;
use super::generation::{Generation, Header, SHARD_BITS};
use super::shape::{Hashed, Shape};
use crate::{Error, ErrorKind, Result};

/// A new filter that is being filled; see [`Redis::rebuild`].
///
/// If it is dropped before [`swap`](Self::swap), the rebuild is abandoned and the old filter stays
/// in use.
#[derive(Debug)]
pub struct Rebuild {
    filter: Redis,
    /// The header to replace.
    seen: Option<Header>,
    next: Generation,
    /// The server run in which the rebuild began. In another run it may lack items.
    run: ServerRun,
    added: AtomicU64,
    items: u64,
    over: bool,
}

impl Redis {
    /// Starts to build a new, empty filter for this number of items and this error rate. The old
    /// filter stays in use until [`Rebuild::swap`]. From now on, additions go into both.
    ///
    /// Read the items of the new filter after this call returns. If an item was added before the
    /// call and its transaction commits after you read, the new filter misses it: wait for the
    /// longest transaction first.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] as [`Builder::open`](super::Builder::open).
    /// [`ErrorKind::Unavailable`] if Redis cannot be reached, or another rebuild runs. An abandoned rebuild expires after an hour.
    pub async fn rebuild(&self, items: u64, error_rate: f64) -> Result<Rebuild> {
        let shape = Shape::split(items, error_rate, SHARD_BITS)?;
        let inner = self.inner();
        let run = inner.store.link.server_run().await?;
        let next = inner.store.make(shape, items, error_rate).await?;
        let header = inner.store.header().await?;
        match inner.store.begin(header.as_ref(), &next, run).await {
            Ok(true) => {
                *inner.known() = None;
                Ok(Rebuild {
                    filter: self.clone(),
                    seen: header,
                    next,
                    run,
                    added: AtomicU64::new(0),
                    items,
                    over: false,
                })
            }
            failed => {
                inner.store.remove(&next).await?;
                let busy = "another rebuild runs or has just ended; try again later";
                Err(failed.err().unwrap_or_else(|| Error::new(ErrorKind::Unavailable, busy)))
            }
        }
    }
}

impl Rebuild {
    /// Adds items to the new filter; many items per call are faster. Several tasks may call it.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] if Redis cannot be reached: call it again with the same items.
    /// Also if the partial rebuild was lost: start a new rebuild.
    pub async fn add_many(&self, items: &[impl AsRef<[u8]>]) -> Result<()> {
        if items.is_empty() {
            return Ok(());
        }
        let hashed: Vec<Hashed> = items.iter().map(|item| Hashed::of(item.as_ref())).collect();
        let store = &self.filter.inner().store;
        let stamps = store.add(&self.next, &hashed).await?;
        if stamps.all(&self.next).is_none() {
            store.discard(&self.next).await?;
            return Err(gone());
        }
        if stamps.1 != self.run {
            return Err(gone());
        }
        store.touch(&self.next).await?;
        self.added.fetch_add(items.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Returns how many items were added, and the number of items that the filter is made for.
    pub fn progress(&self) -> (u64, u64) {
        (self.added.load(Ordering::Relaxed), self.items)
    }

    /// Replaces the old filter by the new one, for all processes at once.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] if Redis cannot be reached; the swap may have happened. Also if
    /// the partial rebuild was lost, as after every restart of Redis; the old filter stays in use.
    pub async fn swap(mut self) -> Result<()> {
        let inner = self.filter.inner();
        if inner.store.link.server_run().await? != self.run {
            return Err(gone());
        }
        let swapped = inner.store.swap(self.seen.as_ref(), &self.next, self.run).await?;
        *inner.known() = None;
        self.over = swapped;
        if swapped { Ok(()) } else { Err(gone()) }
    }

    async fn abandon(filter: Redis, seen: Option<Header>, next: Generation) -> Result<()> {
        let store = &filter.inner().store;
        // After a swap whose answer was lost, it is what all use.
        if store.header().await?.is_some_and(|header| header.current.as_ref() == Some(&next)) {
            return Ok(());
        }
        store.remove(&next).await?;
        let current = seen.and_then(|header| header.current);
        store.forget_next(&Header { current, next: Some(next), run: String::new() }).await?;
        Ok(())
    }
}

impl Drop for Rebuild {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let abandoned = Self::abandon(self.filter.clone(), self.seen.take(), self.next.clone());
            runtime.spawn(async move {
                if let Err(error) = abandoned.await {
                    tracing::debug!(%error, "an abandoned rebuild was not deleted; it expires");
                }
            });
        }
    }
}

fn gone() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "the partial rebuild was lost (Redis was flushed); restart the rebuild",
    )
}
