//! What a run leaves behind in the store once all clients have ended.

use std::thread::sleep;
use std::time::Duration;

use leasehold::State;

use super::Run;
use crate::client::NAME;
use crate::{Result, SECOND, now};

/// Leases, sessions and rows of killed clients are gone within this time.
const LIMIT: u64 = 60 * SECOND;
/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(200);

impl Run<'_> {
    /// Takes note of what is left when the time of everything that killed clients had is over.
    pub(super) fn look_for_leftovers(&mut self) -> Result<()> {
        let end = now() + LIMIT;
        loop {
            // Its connections end with it.
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let seen = runtime.block_on(of_lock(&self.cluster.url()));
            drop(runtime);
            let left = match seen {
                Ok(left) if left.is_empty() => self.cluster.left().unwrap_or_else(failed),
                Ok(left) => left,
                Err(error) => failed(error),
            };
            if left.is_empty() {
                return Ok(());
            }
            if now() > end {
                self.wrong.extend(left.into_iter().map(|what| format!("left behind: {what}")));
                return Ok(());
            }
            sleep(PAUSE);
        }
    }
}

/// A holder, or waiters, of the lock that no client wants any more.
async fn of_lock(url: &str) -> Result<Vec<String>> {
    let client = leasehold::connect(url).await?;
    let status = client.lock(NAME).status().await;
    client.close().await;
    let status = status?;
    let waiters = status.waiters.map_or(0, |waiters| waiters.len()) + status.more_waiters;
    let mut left = Vec::new();
    if status.state != State::Free {
        left.push(format!("the lock is {:?}", status.state));
    }
    if waiters > 0 {
        left.push(format!("{waiters} waiters"));
    }
    Ok(left)
}

fn failed(error: impl std::fmt::Display) -> Vec<String> {
    vec![format!("unknown: {error}")]
}
