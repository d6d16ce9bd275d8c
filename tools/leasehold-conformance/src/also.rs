//! Clients with the option `also` beside those with `wire` and without an option, for engines whose clients leave marks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold_core::backend::{AlsoBackend, Backend, Mark};
use leasehold_core::{Client, ClientSettings, Error, ErrorKind, Guard, Result};

use crate::case::{Outcome, until};
use crate::ensure;

/// Longer than any wait of a test.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns a client that holds each lock in both formats.
///
/// # Errors
/// As [`Client::with_settings`].
pub fn in_both_formats<F: Backend + Mark>(foreign: F, native: impl Backend) -> Result<Client> {
    let foreign = Arc::new(foreign);
    let mark: Arc<dyn Mark> = foreign.clone();
    let backend = AlsoBackend::new(foreign, Arc::new(native), Some(mark));
    Client::with_settings(Arc::new(backend), ClientSettings::new().patience(PATIENCE))
}

/// Returns true if a mark refuses a client without an option.
///
/// # Errors
/// If anything else fails.
pub async fn is_refused(native: &Client, name: &str) -> Result<bool> {
    match native.lock(name).try_acquire().await {
        Err(error) if error.kind() == ErrorKind::Foreign => Ok(true),
        Err(error) => Err(error),
        Ok(guard) => {
            if let Some(guard) = guard {
                guard.release().await?;
            }
            Ok(false)
        }
    }
}

/// A client with `also` and one without an option pass the lock to each other.
///
/// # Errors
/// What was not as promised.
pub async fn both_are_held_and_freed(both: &Client, native: &Client, name: &str) -> Outcome {
    let held = both.lock(name).acquire_within(PATIENCE).await?;
    ensure!(native.lock(name).try_acquire().await?.is_none(), "two hold it");
    ensure!(native.lock(name).status().await?.token == Some(held.token()), "another token");
    let theirs = passed(held, native, native, name).await?;
    ensure!(both.lock(name).try_acquire().await?.is_none(), "two hold it");
    passed(theirs, both, native, name).await?.release().await?;
    Ok(())
}

/// Releases a lock for which `next` waits in the queue of clients without an option.
async fn passed(held: Guard, next: &Client, native: &Client, name: &str) -> Outcome<Guard> {
    let lock = next.lock(name);
    let waiting = tokio::spawn(async move { lock.acquire_within(PATIENCE).await });
    let waits = || async {
        let status = native.lock(name).status().await;
        status.is_ok_and(|status| status.waiters.is_some_and(|waiters| waiters.len() == 1))
    };
    until("the next client waits", waits).await?;
    held.release().await?;
    Ok(waiting.await??)
}

/// A client with `wire` waits for one with `also`, without an error, and then has clients without an option refused.
///
/// # Errors
/// What was not as promised.
pub async fn wire_waits_for_also(
    both: &Client,
    wire: &Client,
    native: &Client,
    name: &str,
) -> Outcome {
    let held = both.lock(name).acquire_within(PATIENCE).await?;
    ensure!(wire.lock(name).try_acquire().await?.is_none(), "two hold it");
    let lock = wire.lock(name);
    let waiting = tokio::spawn(async move { lock.acquire_within(PATIENCE).await });
    held.release().await?;
    let theirs = waiting.await??;
    ensure!(is_refused(native, name).await?, "clients without an option are not refused");
    theirs.release().await?;
    both.lock(name).acquire_within(PATIENCE).await?.release().await?;
    Ok(())
}

/// Runs `work` while clients with `also` acquire and release the lock all the time.
///
/// # Errors
/// If one of them fails.
pub async fn used_meanwhile<T>(
    clients: &[Client],
    name: &str,
    work: impl Future<Output = T>,
) -> Outcome<T> {
    let is_over = Arc::new(AtomicBool::new(false));
    let tasks: Vec<_> = clients
        .iter()
        .map(|client| {
            let (lock, is_over) = (client.lock(name), is_over.clone());
            tokio::spawn(async move {
                while !is_over.load(Ordering::SeqCst) {
                    lock.acquire_within(PATIENCE).await?.release().await?;
                }
                Ok::<_, Error>(())
            })
        })
        .collect();
    let done = work.await;
    is_over.store(true, Ordering::SeqCst);
    for task in tasks {
        task.await??;
    }
    Ok(done)
}
