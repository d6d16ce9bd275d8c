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
        loop {
            let mut remains = self.remains();
            if remains.left.is_empty() || now() > end {
                self.left.append(&mut remains.left);
                self.kept = remains.kept;
                return Ok(());
            }
            sleep(PAUSE);
        }
    }

    fn remains(&self) -> Remains {
        // Its connections end with it.
        let seen = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(Into::into)
            .and_then(|runtime| {
                runtime.block_on(of_lock(&self.cluster.url(), self.order.workload))
            });
        let left = [seen.unwrap_or_else(failed), self.processes().unwrap_or_else(failed)].concat();
        if !left.is_empty() {
            return Remains { left, ..Remains::default() };
        }
        let failed = |error| Remains { left: failed(error), ..Remains::default() };
        self.cluster.left().unwrap_or_else(failed)
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

/// A holder, or waiters, of the lock that no client wants any more.
async fn of_lock(url: &str, workload: Workload) -> Result<Vec<String>> {
    let client = leasehold::connect(url).await?;
    let status = client.lock(NAME).status().await;
    let mut left = Vec::new();
    if workload == Workload::Permits {
        // All slots are there.
        let limit = workload::LIMIT;
        match client.semaphore(NAME, limit).ttl(TTL).try_acquire_many(limit).await? {
            Some(permit) => permit.release().await?,
            None => left.push(format!("not all {limit} slots are free")),
        }
    }
    client.close().await;
    let status = status?;
    let waiters = status.waiters.map_or(0, |waiters| waiters.len()) + status.more_waiters;
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
