//! A filter that is built anew beside the one that is used.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Redis;
use super::generation::{Generation, Header};
use super::shape::Hashed;
use crate::{Error, ErrorKind, Result};

/// A filter in the making; see [`Redis::rebuild`]. Dropped before [`swap`](Self::swap), it is given
/// up, and the old one goes on.
#[derive(Debug)]
pub struct Rebuild {
    filter: Redis,
    /// What it shall replace.
    seen: Option<Header>,
    next: Generation,
    added: AtomicU64,
    items: u64,
    over: bool,
}

impl Rebuild {
    pub(super) fn new(filter: Redis, seen: Option<Header>, next: Generation, items: u64) -> Self {
        Self { filter, seen, next, added: AtomicU64::new(0), items, over: false }
    }

    /// Adds items that it shall have; many at once are quicker. May be called by several tasks.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`]: Redis is not reached, and they may be added again; or what was
    /// built is gone.
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
        store.touch(&self.next).await?;
        self.added.fetch_add(items.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// How many items were added, and how many it is made for.
    pub fn progress(&self) -> (u64, u64) {
        (self.added.load(Ordering::Relaxed), self.items)
    }

    /// Puts it in the old one's place, for all processes at once.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`]: Redis is not reached, and perhaps it was done; or what was built
    /// is gone, and the old one goes on.
    pub async fn swap(mut self) -> Result<()> {
        let inner = self.filter.inner();
        let swapped = inner.store.swap(self.seen.as_ref(), &self.next).await?;
        *inner.known() = None;
        self.over = swapped;
        if swapped { Ok(()) } else { Err(gone()) }
    }

    async fn give_up(filter: Redis, seen: Option<Header>, next: Generation) -> Result<()> {
        let store = &filter.inner().store;
        // After a swap whose answer was lost, it is what all use.
        if store.header().await?.is_some_and(|header| header.current.as_ref() == Some(&next)) {
            return Ok(());
        }
        store.remove(&next).await?;
        let current = seen.and_then(|header| header.current);
        store.give_up(&Header { current, next: Some(next) }).await?;
        Ok(())
    }
}

impl Drop for Rebuild {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let given_up = Self::give_up(self.filter.clone(), self.seen.take(), self.next.clone());
            runtime.spawn(async move {
                if let Err(error) = given_up.await {
                    tracing::debug!(%error, "a filter in the making is left to pass away");
                }
            });
        }
    }
}

fn gone() -> Error {
    Error::new(ErrorKind::Unavailable, "what was built of the filter is gone: begin again")
}
