//! Saves rows once per key, some hundred thousand per second.

mod marks;
mod settings;
mod stats;
mod worker;

use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use foldhash::fast::FixedState;
use leasehold_cache_redis::check_key;
use tokio::sync::{mpsc, oneshot};

use self::marks::Marks;
pub use self::settings::SaveOnceBuilder;
use self::stats::Counters;
pub use self::stats::SaveStats;
use self::worker::{Call, work};
use crate::{BoxError, Error, ErrorKind, Result};

/// A table with a unique key: it saves rows, and the key decides which rows are new.
pub trait Store: Send + Sync + 'static {
    /// The value that is saved with a key.
    type Row: Send + Sync + 'static;

    /// Returns how many bytes a row adds to a statement, without its key. A statement has at most 1
    /// MiB, or one row. Default 0: only the number of rows counts
    /// ([`SaveOnceBuilder::batch`](crate::SaveOnceBuilder::batch)).
    fn size(_row: &Self::Row) -> usize {
        0
    }

    /// Saves all of these rows or none; a row whose key exists does not change. The keys are
    /// distinct and sorted. It may be called again with rows that it has saved.
    fn insert(
        &self,
        rows: &[(&str, &Self::Row)],
    ) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// The reason why rows were not saved.
#[derive(Debug)]
#[non_exhaustive]
pub enum StoreError {
    /// No row was saved, because the database refuses one of the rows: the batch is split and tried
    /// again. Do not return it if every row would be refused, such as for a missing table.
    Row(BoxError),
    /// The rows may have been saved. The callers get this error.
    Unavailable(BoxError),
}

/// Saves rows once per key, from any number of processes and repetitions.
///
/// The unique key of the database decides, and the checks before it reduce the load on the
/// database. A row is skipped if this process has saved its key, or if a process has set a mark in
/// Redis after a commit. The other rows go into the database, many per statement. Both checks are
/// exact: a false positive, as from a Bloom filter, would lose a row. While Redis is down, rows go
/// straight to the database, in the same batches and with the same number of concurrent batches.
///
/// ```no_run
/// # #[cfg(feature = "sqlite")]
/// # async fn example(pool: sqlx::SqlitePool) -> Result<(), Box<dyn std::error::Error>> {
/// use leasehold_once::{SaveOnceBuilder, Table};
///
/// let table = Table::new("events", pool)?;
/// table.create().await?; // once; does nothing when it is there
/// let events = SaveOnceBuilder::new("events").open("redis://127.0.0.1:6379", table)?;
///
/// // The rows came from a queue; acknowledge them there after this call.
/// events.save_many(vec![("event 1".into(), b"...".to_vec())]).await?;
/// # Ok(()) }
/// ```
///
/// Clones share all state. If all clones are dropped, accepted rows are still saved.
pub struct SaveOnce<S: Store> {
    workers: Arc<[mpsc::Sender<Call<S::Row>>]>,
    shared: Arc<Shared>,
}

struct Shared {
    /// Keys whose rows are saved.
    local: quick_cache::sync::Cache<Box<str>, ()>,
    marks: Marks,
    batch: usize,
    counters: Counters,
}

impl<S: Store> SaveOnce<S> {
    fn new(shared: Shared, store: S, workers: usize) -> Self {
        let (shared, store) = (Arc::new(shared), Arc::new(store));
        let workers = (0..workers).map(|_| {
            // Who finds it full waits: no more is held than the callers hold anyway.
            let (sender, calls) = mpsc::channel(64);
            tokio::spawn(work(Arc::clone(&shared), Arc::clone(&store), calls));
            sender
        });
        Self { workers: workers.collect(), shared }
    }

    /// Saves one row, as [`save_many`](Self::save_many) does.
    ///
    /// # Errors
    /// As [`save_many`](Self::save_many).
    pub async fn save(&self, key: String, row: S::Row) -> Result<()> {
        self.save_many(vec![(key, row)]).await
    }

    /// Saves rows, and returns when each key (1 to 512 bytes without control characters) has a
    /// saved row: this row, or an earlier row of the key. You may call it again after any error, in
    /// any process.
    ///
    /// Many rows per call are faster: a caller with one row waits for its commit. If the future is
    /// dropped, accepted rows are still saved.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a key that is not allowed; no row was saved. Also if the database
    /// refuses some of the rows; the others are saved. [`ErrorKind::Unavailable`] if some rows may
    /// not be saved, also if the database refuses so many rows that the rest was not tried.
    pub async fn save_many(&self, rows: Vec<(String, S::Row)>) -> Result<()> {
        for (key, _) in &rows {
            check_key(key)?;
        }
        let Shared { local, counters, .. } = &*self.shared;
        counters.asked.fetch_add(rows.len() as u64, Ordering::Relaxed);
        let asked = rows.len();
        let mut parts: Vec<Vec<(String, S::Row)>> = Vec::new();
        parts.resize_with(self.workers.len(), Vec::new);
        let mut left = 0;
        for (key, row) in rows {
            if local.get(key.as_str()).is_none() {
                left += 1;
                // One key, one worker: it is in one batch at a time.
                parts[self.worker(&key)].push((key, row));
            }
        }
        counters.local.fetch_add((asked - left) as u64, Ordering::Relaxed);
        if left == 0 {
            // A caller in a loop yields to other tasks.
            tokio::task::consume_budget().await;
            return Ok(());
        }
        let mut answers = Vec::new();
        for (worker, rows) in self.workers.iter().zip(parts).filter(|(_, rows)| !rows.is_empty()) {
            let (answer, answered) = oneshot::channel();
            worker.send(Call { rows, answer }).await.map_err(|_| stopped())?;
            answers.push(answered);
        }
        let mut outcome = Ok(());
        for answered in answers {
            let answer = answered.await.unwrap_or_else(|_| Err(stopped()));
            // That the others are saved is said only where it is so.
            let away = |of: &Result<()>| {
                of.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unavailable)
            };
            outcome = if away(&answer) && !away(&outcome) { answer } else { outcome.and(answer) };
        }
        outcome
    }

    /// Returns the counts since this was opened.
    pub fn stats(&self) -> SaveStats {
        self.shared.counters.stats()
    }

    fn worker(&self, key: &str) -> usize {
        // Always the same, so that a key is never in two.
        (FixedState::with_seed(0).hash_one(key) % self.workers.len() as u64) as usize
    }
}

fn stopped() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "the runtime of SaveOnce ended, or the Store panicked; open a new SaveOnce",
    )
}

impl<S: Store> Clone for SaveOnce<S> {
    fn clone(&self) -> Self {
        Self { workers: Arc::clone(&self.workers), shared: Arc::clone(&self.shared) }
    }
}

impl<S: Store> fmt::Debug for SaveOnce<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SaveOnce").field("stats", &self.stats()).finish_non_exhaustive()
    }
}
