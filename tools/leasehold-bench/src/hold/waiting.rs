//! Many tasks wait for one lock; then it goes through all of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::round::{Figures, Round};
use crate::Result;
use crate::measure::{Window, resident_at_rest};
use crate::metric::{BYTES_PER_WAITER, CLIENT_MS_PER_S, HANDOFFS_PER_S};

/// How long tasks may take to begin to wait.
const PATIENCE: Duration = Duration::from_secs(60);

/// Lets them wait, measures growth and CPU time, then releases the lock and stops the time until
/// the last of them has had it.
pub(super) async fn measure(round: &Round) -> Result<Figures> {
    let place = round.store.place()?;
    let client = place.connect().await?;
    let lock = client.lock(place.name(1)).ttl(Duration::from_millis(round.ttl_ms));
    for _ in 0..100 {
        lock.acquire().await?.release().await?;
    }
    let guard = lock.acquire().await?;
    let before = resident_at_rest().await?;
    let arrived = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..round.waiters {
        let (lock, arrived) = (lock.clone(), arrived.clone());
        tasks.spawn(async move {
            arrived.fetch_add(1, Ordering::Relaxed);
            lock.acquire().await?.release().await
        });
    }
    let start = Instant::now();
    while arrived.load(Ordering::Relaxed) < round.waiters {
        if start.elapsed() > PATIENCE {
            return Err("the tasks did not all begin to wait within a minute".into());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let grown = resident_at_rest().await?.saturating_sub(before);
    let window = Window::open(place.server_pids())?;
    tokio::time::sleep(Duration::from_secs(round.seconds)).await;
    let spent = window.spent()?;
    if !guard.is_valid() {
        return Err("the lock was lost while others waited for it".into());
    }
    let start = Instant::now();
    guard.release().await?;
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    let took = start.elapsed();
    client.close().await;
    Ok(Figures::from([
        (BYTES_PER_WAITER.name.to_owned(), grown as f64 / round.waiters as f64),
        (CLIENT_MS_PER_S.name.to_owned(), spent.ms_per_s(spent.cpu)),
        (HANDOFFS_PER_S.name.to_owned(), round.waiters as f64 / took.as_secs_f64()),
    ]))
}
