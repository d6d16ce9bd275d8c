//! Whether a waiter may try to enter, or which waiter goes before it.
//!
//! The order is phase-fair: after a writer, all readers that wait enter; after them, the first writer.
//! No process keeps the state of the queue: each waiter reads the lock, the last record and the queue.

use std::path::PathBuf;
use std::time::Duration;

use leasehold_core::Result;
use leasehold_core::backend::{AcquireRequest, Mode};

use super::directory::Files;
use super::enter::{Entry, look_at};
use super::lock_file::Seen;
use super::record::{Due, Record};
use super::store::{Store, WaitingAttempt};
use super::waiter_queue::{Ahead, QueuePlace, WaiterQueue};

/// How long, for each waiter before it, the lock must be free before a waiter passes them.
///
/// The first waiter may be stopped. The next one then acquires the lock after at most the pause
/// between two tries of the first waiter, in which it finds the lock free, plus this time.
pub(crate) const PASS_AFTER: Duration = Duration::from_millis(300);

/// What a waiter does next.
pub(crate) enum Turn {
    /// It tries to enter.
    Try(Entry),
    /// It waits for this waiter, or until the lock has been free for this time.
    Behind { watched: PathBuf, left: Duration },
}

impl Store {
    /// Returns what a waiter does next, and how many go before it. Its place is kept in `waiting`;
    /// `None` if the place was removed.
    pub(crate) fn turn(
        &self,
        request: &AcquireRequest,
        files: &Files,
        waiting: &mut WaitingAttempt,
        queue: &WaiterQueue<'_>,
        place: QueuePlace,
    ) -> Result<Option<(Turn, u64)>> {
        let due = || Ok(Due::after(Record::read(&files.record, &request.name)?.as_ref()));
        let (entry, passing, ahead) = match request.mode {
            Mode::Shared => {
                // The lock before the record: a phase that begins in between makes only the look old.
                let seen = look_at(&files.lock)?;
                let due = due()?;
                let mut ahead = queue.ahead(&place, || Ok(due))?;
                if let (Seen::Held(_), Some(ahead)) = (seen, &mut ahead) {
                    // All readers enter when the writer has left.
                    ahead.watched = None;
                }
                (entry_to_read(seen, due, &place), Entry::Begin { passes: true }, ahead)
            }
            _ => (Entry::Write, Entry::Write, queue.ahead(&place, due)?),
        };
        let Some(Ahead { count, watched }) = ahead else { return Ok(None) };
        waiting.place = Some(place);
        let Some(watched) = watched.filter(|_| request.fair) else {
            return Ok(Some((Turn::Try(entry), count)));
        };
        let left = self.left_to_pass(request, files, waiting, count)?;
        let turn = if left.is_zero() { Turn::Try(passing) } else { Turn::Behind { watched, left } };
        Ok(Some((turn, count)))
    }

    /// Returns how long the lock must stay free until this waiter may pass those before it.
    fn left_to_pass(
        &self,
        request: &AcquireRequest,
        files: &Files,
        waiting: &mut WaitingAttempt,
        before: u64,
    ) -> Result<Duration> {
        if look_at(&files.lock)?.is_held() {
            waiting.free_since = None;
            return Ok(Duration::MAX);
        }
        let now = self.clock.now().steady_ns;
        // The token reveals a hold between two checks.
        let token = Record::read(&files.record, &request.name)?.and_then(|record| record.token());
        let since = match waiting.free_since {
            Some((since, after)) if after == token => since,
            _ => now,
        };
        waiting.free_since = Some((since, token));
        let wait = PASS_AFTER.saturating_mul(u32::try_from(before).unwrap_or(u32::MAX));
        Ok(wait.saturating_sub(Duration::from_nanos(now.saturating_sub(since))))
    }
}

/// Returns how a waiting reader enters when no writer goes before it.
fn entry_to_read(seen: Seen, due: Due, place: &QueuePlace) -> Entry {
    match (seen, due) {
        (Seen::Read(_), _) => Entry::Join,
        // The others of its phase have left already, and no writer came.
        (Seen::Free | Seen::Absent, Due::Until(until)) if place.arrived() <= until => Entry::Join,
        _ => Entry::Begin { passes: false },
    }
}
