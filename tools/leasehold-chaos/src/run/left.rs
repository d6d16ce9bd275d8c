//! What a run leaves behind in the store once all clients have ended.

use std::thread::sleep;
use std::time::Duration;

use leasehold::State;

use super::Run;
use crate::client::NAME;
use crate::cluster::Remains;
use crate::workload::{self, Workload};
use crate::{Result, SECOND, TTL, now};

/// Leases, sessions and rows of killed clients are gone within this time.
const LIMIT: u64 = 60 * SECOND;
/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(200);

impl Run<'_> {
    /// Takes note of what is left when the time of everything that killed clients had is over, and of what is kept on
    /// purpose.
    pub(super) fn look_for_leftovers(&mut self) -> Result<()> {
        let end = now() + LIMIT;
        // Only until they were free: an acquire has a lease of its own, which may end by itself.
        let mut are_free = self.order.workload != Workload::Permits;
        loop {
            let slots = match are_free {
                true => Vec::new(),
                false => self.asked(slots),
            };
            are_free = slots.is_empty();
            let mut remains = match are_free {
                true => self.remains(),
                false => Remains { left: slots, ..Remains::default() },
            };
            if remains.left.is_empty() || now() > end {
                self.left.append(&mut remains.left);
                self.kept = remains.kept;
                return Ok(());
            }
            sleep(PAUSE);
        }
    }

    fn remains(&self) -> Remains {
        let left = [self.asked(of_lock), self.processes().unwrap_or_else(failed)].concat();
        if !left.is_empty() {
            return Remains { left, ..Remains::default() };
        }
        let failed = |error| Remains { left: failed(error), ..Remains::default() };
        self.cluster.left().unwrap_or_else(failed)
    }

    /// Asks the store in a runtime of its own: connections end with it.
    fn asked<F: Future<Output = Result<Vec<String>>>>(
        &self,
        question: impl FnOnce(String) -> F,
    ) -> Vec<String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let answer = runtime.map_err(Into::into);
        let answer = answer.and_then(|runtime| runtime.block_on(question(self.cluster.url())));
        answer.unwrap_or_else(failed)
    }

    /// Processes of clients and commands that still run: the words of each name the store of the run.
    fn processes(&self) -> Result<Vec<String>> {
        let url = self.cluster.url();
        let own = std::process::id().to_string();
        let mut left = Vec::new();
        for entry in std::fs::read_dir("/proc")? {
            let entry = entry?;
            let pid = entry.file_name().to_string_lossy().into_owned();
            let Ok(words) = std::fs::read(entry.path().join("cmdline")) else { continue };
            let words = String::from_utf8_lossy(&words).replace('\0', " ");
            if pid != own && words.contains(&url) {
                left.push(format!("process {pid}: {words}"));
            }
        }
        Ok(left)
    }
}

/// Returns a line if not all slots are free, now that no client wants one.
async fn slots(url: String) -> Result<Vec<String>> {
    let client = leasehold::connect(&url).await?;
    let limit = workload::LIMIT;
    let permit = client.semaphore(NAME, limit).ttl(TTL).try_acquire_many(limit).await?;
    let left = match permit {
        Some(permit) => permit.release().await.map(|()| Vec::new())?,
        None => vec![format!("not all {limit} slots are free")],
    };
    client.close().await;
    if url.starts_with("zookeeper") {
        // Its nodes stay until `forget` removes them; all others end by themselves.
        leasehold::forget(&url, NAME).await?;
    }
    Ok(left)
}

/// A holder, or waiters, of the lock that no client wants any more.
async fn of_lock(url: String) -> Result<Vec<String>> {
    let client = leasehold::connect(&url).await?;
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
