//! Rows that are saved once for each key, some hundred thousand a second.

use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use foldhash::fast::FixedState;
use leasehold_core::clock::Clock;
use tokio::sync::{mpsc, oneshot};

use super::marks::Marks;
use super::worker::{Call, work};
use crate::builder::word;
use crate::cache::text;
use crate::link::Link;
use crate::{BoxError, Error, ErrorKind, Result};

/// Where rows are saved, and the judge of which were: something with a unique key.
pub trait Store: Send + Sync + 'static {
    /// What is saved under a key.
    type Row: Send + Sync + 'static;

    /// How many bytes a row adds to a statement beside its key; a statement has 1 MiB, or one row.
    /// Default 0: only their number counts ([`SaveOnceBuilder::batch`]).
    fn size(_row: &Self::Row) -> usize {
        0
    }

    /// Saves all of these rows or none; one whose key is there stays as it is. The keys are
    /// different and sorted. May be asked again for rows that it has saved.
    fn insert(
        &self,
        rows: &[(&str, &Self::Row)],
    ) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// Why rows were not saved.
#[derive(Debug)]
pub enum StoreError {
    /// Nothing was saved, for something is wrong with one of the rows: they are tried in halves. Not
    /// when no row would be taken, such as by a table that is missing.
    Row(BoxError),
    /// Perhaps they were saved: the callers are told.
    Unavailable(BoxError),
}

/// Saves rows once for each key, however often and from however many processes they come: the
/// database's unique key decides, and is asked as seldom as can be.
///
/// A row goes by the keys that this process has saved, by the marks that processes leave in Redis
/// after a commit, and the rest into the database, many in one statement. Both are only ever exact: what
/// a Bloom filter takes for known would be a row lost. While Redis is down, rows go straight to the
/// database, in the same batches and no more of them at a time.
///
/// ```no_run
/// # #[cfg(feature = "sqlite")]
/// # async fn example(pool: sqlx::SqlitePool) -> Result<(), Box<dyn std::error::Error>> {
/// use leasehold_cache::once::{SaveOnceBuilder, Table};
///
/// let table = Table::new("events", pool)?;
/// table.create().await?; // once; does nothing when it is there
/// let events = SaveOnceBuilder::new("events").open("redis://127.0.0.1:6379", table)?;
///
/// // As they came from a queue, which is told of them after this.
/// events.save_many(vec![("event 1".into(), b"...".to_vec())]).await?;
/// # Ok(()) }
/// ```
///
/// Clones share everything. When all are dropped, what was handed over is still saved.
pub struct SaveOnce<S: Store> {
    workers: Arc<[mpsc::Sender<Call<S::Row>>]>,
    shared: Arc<Shared>,
}

pub(super) struct Shared {
    /// Keys that are saved.
    pub(super) local: quick_cache::sync::Cache<Box<str>, ()>,
    pub(super) marks: Marks,
    pub(super) batch: usize,
    pub(super) counters: Counters,
}

/// Settings of a [`SaveOnce`].
#[derive(Clone, Debug)]
pub struct SaveOnceBuilder {
    name: String,
    prefix: String,
    workers: usize,
    batch: usize,
    local_size: usize,
    mark_ttl: Duration,
    redis_limit: Duration,
}

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What a [`SaveOnce`] has done since it was opened, in rows.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct SaveStats { $($(#[$doc])* pub $name: u64,)* }

        #[derive(Debug, Default)]
        pub(super) struct Counters { $(pub(super) $name: AtomicU64,)* }

        impl Counters {
            fn stats(&self) -> SaveStats {
                SaveStats { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counts! {
    /// Handed over.
    asked,
    /// Of them known in this process.
    local,
    /// Known by a mark in Redis.
    marked,
    /// Sent to the database.
    attempts,
    /// Statements that they were sent by.
    batches,
    /// That the database did not take.
    failed,
}

impl<S: Store> SaveOnce<S> {
    /// Saves one row; as [`save_many`](Self::save_many).
    ///
    /// # Errors
    /// As [`save_many`](Self::save_many).
    pub async fn save(&self, key: String, row: S::Row) -> Result<()> {
        self.save_many(vec![(key, row)]).await
    }

    /// Returns when a row of each key (1 to 512 bytes without control characters) is saved: this one,
    /// or one that came before. May be called again after any error, in any process.
    ///
    /// Many at a time are quicker: who hands over one and waits for its commit is as slow as the
    /// commit. Dropped, what was handed over is still saved.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a key that is not allowed: nothing was saved; or when the database
    /// does not take some of the rows: the others are saved. [`ErrorKind::Unavailable`]: perhaps some
    /// are saved; also when so many of them are not taken that the rest was not tried.
    pub async fn save_many(&self, rows: Vec<(String, S::Row)>) -> Result<()> {
        for (key, _) in &rows {
            text(key)?;
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
            // Who asks in a loop lets others run.
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

    /// What it has done so far.
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
        "the runtime that rows were saved on has ended, or a store panicked",
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

impl SaveOnceBuilder {
    /// Settings for rows of this name (as a cache's).
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            prefix: "leasehold-saved".to_owned(),
            workers: 2,
            batch: 2_000,
            local_size: 1_000_000,
            mark_ttl: Duration::from_secs(86_400),
            redis_limit: Duration::from_millis(500),
        }
    }

    /// What keys in Redis begin with; letters, digits, `_`, `.`, `-`. Default `leasehold-saved`.
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.prefix = prefix.to_owned();
        self
    }

    /// Batches under way at a time, each with its own share of the keys: as many connections of the
    /// database are used. 1 to 64, default 2.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// Rows in one statement at most, within 1 MiB ([`Store::size`]); 1 to 10,000, default 2,000.
    pub fn batch(mut self, batch: usize) -> Self {
        self.batch = batch;
        self
    }

    /// Keys that are remembered in the process; zero for none. Default 1,000,000.
    ///
    /// They are remembered until it ends: where the database has lost what it had acknowledged, restart
    /// the process after the marks are deleted.
    pub fn local_size(mut self, local_size: usize) -> Self {
        self.local_size = local_size;
        self
    }

    /// How long a mark in Redis says that a key is saved: as long as rows are usual to come again. Up to
    /// 30 days, zero for no marks. Default a day.
    ///
    /// A mark is as good as the commit before it: where a failover of the database can lose what it has
    /// acknowledged, its rows are lost while marks say they are there; delete the marks then, and restart
    /// the processes, which remember them ([`local_size`](Self::local_size)).
    pub fn mark_ttl(mut self, mark_ttl: Duration) -> Self {
        self.mark_ttl = mark_ttl;
        self
    }

    /// How long Redis may take to answer. Default 500 ms.
    pub fn redis_limit(mut self, redis_limit: Duration) -> Self {
        self.redis_limit = redis_limit;
        self
    }

    /// Opens it on the Redis server of `url`, which need not be up.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a setting or URL that is not allowed, or outside a tokio runtime.
    pub fn open<S: Store>(self, url: &str, store: S) -> Result<SaveOnce<S>> {
        word("name", &self.name)?;
        word("prefix", &self.prefix)?;
        for (field, value, least, most) in
            [("workers", self.workers, 1, 64), ("batch", self.batch, 1, 10_000)]
        {
            if value < least || value > most {
                let what = format!("{field} is {value}; allowed is {least} to {most}");
                return Err(Error::invalid(what));
            }
        }
        let (day, mark_ttl) = (Duration::from_secs(86_400), self.mark_ttl);
        if mark_ttl > 30 * day {
            return Err(Error::invalid(format!(
                "mark_ttl is {mark_ttl:?}; allowed is up to 30 days"
            )));
        }
        let link = Link::new(url, self.redis_limit, Clock::system())?;
        let shared = Arc::new(Shared {
            local: quick_cache::sync::Cache::new(self.local_size),
            marks: Marks::new(link, format!("{}:{}", self.prefix, self.name), mark_ttl),
            batch: self.batch,
            counters: Counters::default(),
        });
        let store = Arc::new(store);
        let workers = (0..self.workers).map(|_| {
            // Who finds it full waits: no more is held than the callers hold anyway.
            let (sender, calls) = mpsc::channel(64);
            tokio::spawn(work(Arc::clone(&shared), Arc::clone(&store), calls));
            sender
        });
        Ok(SaveOnce { workers: workers.collect(), shared })
    }
}
