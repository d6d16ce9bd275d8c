//! Runs work while a guard holds its lock.

use crate::{Error, ErrorKind, Result};

/// A guard that work can run under.
pub(crate) trait Scope: Sized {
    /// Returns another guard of the same lease.
    fn reenter(&self) -> Result<Self>;
    /// Returns true if the work ends when the lock is lost.
    fn stops_work(&self) -> bool;
    /// Waits until the lock is lost; returns the error of the run.
    fn loss(&self) -> impl Future<Output = Error> + Send;
    /// Releases the lock.
    fn release(self) -> impl Future<Output = Result<()>> + Send;
}

/// Runs `work` under a guard, and releases the lock at the end.
pub(crate) async fn run<G, F, W, T>(guard: G, work: F) -> Result<T>
where
    G: Scope,
    F: FnOnce(G) -> W,
    W: Future<Output = T>,
{
    let inner = guard.reenter()?;
    let stops = guard.stops_work();
    let stopped = async {
        match stops {
            true => guard.loss().await,
            false => std::future::pending().await,
        }
    };
    let done = tokio::select! {
        biased;
        lost = stopped => Err(lost),
        done = work(inner) => Ok(done),
    };
    // After a loss the guard is dropped: clean-up must not delay the error.
    let done = done?;
    match guard.release().await {
        Err(error) if stops && error.kind() == ErrorKind::Lost => Err(error),
        _ => Ok(done), // The background task finishes the release.
    }
}
