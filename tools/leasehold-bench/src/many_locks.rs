//! Acquires and releases many locks of one client, some of them at a time.

use std::ops::Range;
use std::time::Duration;

use leasehold::{Client, Guard};
use tokio::task::JoinSet;

use crate::Result;
use crate::store::StoreAddress;

/// So many tasks acquire at once.
pub(crate) const AT_ONCE: usize = 64;

/// Acquires the locks of these numbers. The guards are as each task has them: to put them all into one place
/// would count their room twice.
pub(crate) async fn acquire(
    client: &Client,
    place: &StoreAddress,
    locks: Range<usize>,
    ttl: Duration,
) -> Result<Vec<Vec<Guard>>> {
    let mut tasks = JoinSet::new();
    for first in 0..AT_ONCE {
        let names = locks.clone().skip(first).step_by(AT_ONCE);
        let wanted: Vec<_> = names.map(|at| client.lock(place.name(at)).ttl(ttl)).collect();
        tasks.spawn(async move {
            let mut guards = Vec::with_capacity(wanted.len());
            for lock in wanted {
                guards.push(lock.acquire().await?);
            }
            Result::Ok(guards)
        });
    }
    let mut guards = Vec::with_capacity(AT_ONCE);
    while let Some(some) = tasks.join_next().await {
        guards.push(some??);
    }
    Ok(guards)
}

/// Releases them.
pub(crate) async fn release(guards: Vec<Vec<Guard>>) -> Result<()> {
    let mut tasks = JoinSet::new();
    for guard in guards.into_iter().flatten() {
        if tasks.len() == AT_ONCE
            && let Some(released) = tasks.join_next().await
        {
            released??;
        }
        tasks.spawn(guard.release());
    }
    while let Some(released) = tasks.join_next().await {
        released??;
    }
    Ok(())
}
