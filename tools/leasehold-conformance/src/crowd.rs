//! Many tasks at once, each of which must get its lock: as many as a busy service has.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold_core::{Client, Error, Lock};
use tokio::task::JoinSet;

/// How long one of them waits at most: for all before it.
const PATIENCE: Duration = Duration::from_secs(100);

/// So many tasks take and release a lock of their own each, so many times.
///
/// # Errors
/// The first that a task meets.
pub async fn pairs(client: &Client, tasks: usize, times: usize) -> Result<(), Error> {
    let mut all = JoinSet::new();
    for task in 0..tasks {
        let lock = client.lock(format!("pairs/{task}"));
        all.spawn(async move {
            for _ in 0..times {
                lock.acquire_within(PATIENCE).await?.release().await?;
            }
            Ok(())
        });
    }
    first_error(all).await
}

/// So many tasks, spread over some clients, take one lock once each.
///
/// # Errors
/// The first that a task meets.
///
/// # Panics
/// When a token is not above the one before, or a guard is lost.
pub async fn turns(clients: &[Client], tasks: usize) -> Result<(), Error> {
    let last = Arc::new(AtomicU64::new(0));
    let mut all = JoinSet::new();
    for client in clients.iter().cycle().take(tasks) {
        all.spawn(turn(client.lock("turns"), last.clone()));
    }
    first_error(all).await
}

async fn turn(lock: Lock, last: Arc<AtomicU64>) -> Result<(), Error> {
    let guard = lock.acquire_within(PATIENCE).await?;
    let token = guard.token().get();
    let before = last.swap(token, Ordering::SeqCst);
    assert!(before < token, "token {token} after {before}");
    assert!(guard.is_valid(), "lost in its turn");
    guard.release().await
}

async fn first_error(mut all: JoinSet<Result<(), Error>>) -> Result<(), Error> {
    while let Some(done) = all.join_next().await {
        match done {
            Ok(done) => done?,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
    Ok(())
}
