//! What the store says of the line, beside the client's own waiting.

use std::sync::Arc;
use std::time::Duration;

use leasehold::Lock;

use crate::journal::{Journal, JournalEntry};
use crate::now;

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(400);

/// Writes down which attempts wait, if they are `least` or more, again and again, for as long as the engine has a line.
pub(super) async fn look_at_queue(lock: Lock, least: usize, journal: Arc<Journal>) {
    loop {
        tokio::time::sleep(PAUSE).await;
        let asked = now();
        let Ok(status) = lock.status().await else { continue };
        let Some(waiters) = status.waiters else { return };
        let queue: Vec<_> = waiters.iter().map(|one| one.holder.attempt.to_string()).collect();
        if queue.len() >= least {
            journal.write(&JournalEntry::Waiting { asked, at: now(), queue });
        }
    }
}
