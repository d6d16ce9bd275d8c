//! The relay: delivers rows until it is stopped, and pauses after a failure.

mod batch;
mod settings;
mod stats;

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use leasehold::rows::Engine;
use leasehold_cache_redis::LOG_TARGET;
use leasehold_core::clock::Clock;
use leasehold_core::proto::Deadline;
use sqlx::Pool;
use tokio::sync::Notify;

pub use self::settings::RelayBuilder;
use self::settings::Settings;
use self::stats::Counters;
pub use self::stats::RelayStats;
use crate::limits::{GRACE, PAUSES};
use crate::rows::Rows;
use crate::table::{Outbox, Parked};
use crate::transport::Transport;
use crate::{Error, Result};

/// How often the age of the oldest row is measured.
const LOOK: Duration = Duration::from_secs(1);

/// Delivers the rows of an [`Outbox`]. Any number of relays may run at the same time, in one
/// process or in several: each row is taken by one relay.
///
/// Every change is delivered at least once. While the database and Redis can be reached, a change
/// is delivered within [`poll`](RelayBuilder::poll) after its commit, plus the time for the rows
/// before it. If the relay that has taken the row dies, the delay grows by
/// [`claim`](RelayBuilder::claim). The order of deliveries is not specified.
///
/// The relay records metrics in the crate `metrics`: gauges `leasehold_cache_outbox_oldest_seconds`
/// and `leasehold_cache_outbox_parked`, counters `leasehold_cache_outbox_delivered_total`,
/// `_refused_total`, `_parked_total` and `_failures_total`.
#[derive(Clone)]
pub struct Relay {
    rows: Arc<dyn Rows>,
    transport: Arc<dyn Transport>,
    settings: Settings,
    counters: Arc<Counters>,
    clock: Clock,
}

impl Relay {
    /// Returns the settings for a relay of this table. The pool needs two connections, and one more
    /// on PostgreSQL.
    pub fn builder<E: Engine>(outbox: &Outbox, pool: &Pool<E>) -> RelayBuilder {
        RelayBuilder::new(outbox, pool)
    }

    fn new(
        rows: Arc<dyn Rows>,
        transport: Arc<dyn Transport>,
        settings: Settings,
        clock: Clock,
    ) -> Self {
        Self { rows, transport, settings, counters: Arc::default(), clock }
    }

    /// Returns what the relay has done so far.
    pub fn stats(&self) -> RelayStats {
        self.counters.stats()
    }

    /// Delivers rows until `stop` is ready. Then it finishes its current batch, for 5 seconds at
    /// most. After a failure it retries without limit, with pauses of up to 5 seconds.
    pub async fn run(&self, stop: impl Future<Output = ()>) {
        let woken = Notify::new();
        tokio::select! {
            () = self.work(stop, &woken) => {}
            () = self.rows.listen(&self.clock, &woken) => {}
        }
    }

    async fn work(&self, stop: impl Future<Output = ()>, woken: &Notify) {
        let (mut stop, mut pause) = (pin!(stop), PAUSES.0);
        let mut look = Deadline::after(self.clock.now(), Duration::ZERO);
        loop {
            let batch = async {
                if look.has_passed(self.clock.now()) {
                    self.look().await;
                    look = Deadline::after(self.clock.now(), LOOK);
                }
                self.batch().await
            };
            let mut batch = pin!(batch);
            let (done, last) = tokio::select! {
                biased;
                () = &mut stop => (self.within(GRACE, batch).await, true),
                done = self.within(self.settings.batches.claim, &mut batch) => (done, false),
            };
            let rest = match done {
                Ok(rows) => {
                    pause = PAUSES.0;
                    self.counters.well();
                    if rows == self.settings.batches.batch {
                        Duration::ZERO
                    } else {
                        self.settings.poll
                    }
                }
                Err(error) => {
                    if self.counters.failed(error.to_string()) {
                        tracing::warn!(target: LOG_TARGET, %error, "the relay cannot deliver \
                                                                    changes; retrying");
                    }
                    let rest = pause;
                    pause = (pause * 2).min(PAUSES.1);
                    rest
                }
            };
            if last {
                return;
            }
            if !rest.is_zero() {
                tokio::select! {
                    () = &mut stop => return,
                    () = woken.notified(), if pause == PAUSES.0 => {}
                    () = self.clock.sleep(rest) => {}
                }
            }
        }
    }

    /// Delivers the rows that are due now, and returns their number.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) if the transport accepts no
    /// change, [`ErrorKind::Database`](crate::ErrorKind::Database) with the error of the database.
    /// Rows that were not delivered stay in the table.
    pub async fn once(&self) -> Result<u64> {
        let mut all = 0;
        loop {
            let rows = self.within(self.settings.batches.claim, self.batch()).await;
            let rows = rows.inspect_err(|error| {
                self.counters.failed(error.to_string());
            })?;
            self.counters.well();
            all += rows as u64;
            if rows < self.settings.batches.batch {
                self.look().await;
                return Ok(all);
            }
        }
    }

    /// Returns at most `most` rows that were refused too often, oldest first.
    ///
    /// # Errors
    /// [`ErrorKind::Database`](crate::ErrorKind::Database) with the error of the database.
    pub async fn parked(&self, most: usize) -> Result<Vec<Parked>> {
        self.rows.parked(most).await.map_err(crate::error::database_failed)
    }

    /// Makes all parked rows due again, and returns their number.
    ///
    /// # Errors
    /// [`ErrorKind::Database`](crate::ErrorKind::Database) with the error of the database.
    pub async fn unpark(&self) -> Result<u64> {
        self.rows.unpark().await.map_err(crate::error::database_failed)
    }

    /// Measures the table. A failure here must not stop deliveries.
    async fn look(&self) {
        match self.rows.look().await {
            Ok((oldest, parked)) => self.counters.saw(oldest, parked),
            Err(error) => tracing::debug!(%error, "cannot measure the age of the outbox"),
        }
    }

    /// Limits a batch to this time: after it, other relays may take its rows.
    async fn within<T>(&self, limit: Duration, work: impl Future<Output = Result<T>>) -> Result<T> {
        let until = Deadline::after(self.clock.now(), limit);
        let late =
            || Error::new(crate::ErrorKind::Unavailable, format!("timed out after {limit:?}"));
        self.clock.within(Some(until), work).await.unwrap_or_else(|| Err(late()))
    }
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay").field("settings", &self.settings).finish_non_exhaustive()
    }
}
