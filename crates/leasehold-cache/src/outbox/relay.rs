//! The relay: takes rows, delivers them, and deletes them after that.

use std::collections::HashMap;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use leasehold::rows::Engine;
use leasehold_core::clock::Clock;
use leasehold_core::proto::Deadline;
use sqlx::Pool;
use tokio::sync::Notify;

use super::rows::{Row, Rows, Verdict};
use super::settings::{RelayBuilder, Settings};
use super::stats::{Counters, RelayStats};
use super::table::{Outbox, Parked};
use super::transport::{Change, Refused, Transport};
use crate::{Error, Result};

/// Pauses after a batch that failed: the first and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));
/// Pauses until a row that was refused is tried again: the first and the longest.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));
/// How long a batch may go on after it was asked to stop.
const GRACE: Duration = Duration::from_secs(5);
/// How often the age of the oldest row is measured.
const LOOK: Duration = Duration::from_secs(1);
/// The longest reason that is kept, in characters.
const REASON: usize = 300;

/// Works off an [`Outbox`]. Any number of them may run at once, in one process or in several: each
/// takes rows that no other has.
///
/// Every change is delivered at least once, and within this bound after its commit while database and
/// Redis are there: [`poll`](RelayBuilder::poll) and the time that rows before it take; when the relay
/// that has it dies, [`claim`](RelayBuilder::claim) more. In what order is not said.
///
/// It tells `metrics`: gauges `leasehold_cache_outbox_oldest_seconds` and `leasehold_cache_outbox_parked`,
/// counters `leasehold_cache_outbox_delivered_total`, `_refused_total`, `_parked_total` and
/// `_failures_total`.
#[derive(Clone)]
pub struct Relay {
    rows: Arc<dyn Rows>,
    transport: Arc<dyn Transport>,
    settings: Settings,
    counters: Arc<Counters>,
    clock: Clock,
}

impl Relay {
    /// Settings for a relay of this table. The pool needs two connections, and on PostgreSQL one more.
    pub fn builder<E: Engine>(outbox: &Outbox, pool: &Pool<E>) -> RelayBuilder {
        RelayBuilder::new(outbox, pool)
    }

    pub(super) fn new(
        rows: Arc<dyn Rows>,
        transport: Arc<dyn Transport>,
        settings: Settings,
        clock: Clock,
    ) -> Self {
        Self { rows, transport, settings, counters: Arc::default(), clock }
    }

    /// What it has done so far.
    pub fn stats(&self) -> RelayStats {
        self.counters.stats()
    }

    /// Works until `stop` is ready; then it ends the batch that it has, for 5 seconds at most. What
    /// fails is tried again for ever, ever more slowly, after 5 seconds at last.
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
                done = self.within(self.settings.claim, &mut batch) => (done, false),
            };
            let rest = match done {
                Ok(rows) => {
                    pause = PAUSES.0;
                    self.counters.well();
                    if rows == self.settings.batch { Duration::ZERO } else { self.settings.poll }
                }
                Err(error) => {
                    if self.counters.failed(error.to_string()) {
                        tracing::warn!(%error, "the relay cannot deliver, and goes on trying");
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

    /// Works off what is due now, and returns how many rows that were.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) when the other side takes nothing,
    /// [`ErrorKind::Database`](crate::ErrorKind::Database) for the table's. What was not delivered is
    /// still there.
    pub async fn once(&self) -> Result<u64> {
        let mut all = 0;
        loop {
            let rows = self.within(self.settings.claim, self.batch()).await;
            let rows = rows.inspect_err(|error| {
                self.counters.failed(error.to_string());
            })?;
            self.counters.well();
            all += rows as u64;
            if rows < self.settings.batch {
                self.look().await;
                return Ok(all);
            }
        }
    }

    /// Rows that were refused too often, oldest first; `most` of them.
    ///
    /// # Errors
    /// [`ErrorKind::Database`](crate::ErrorKind::Database).
    pub async fn parked(&self, most: usize) -> Result<Vec<Parked>> {
        self.rows.parked(most).await.map_err(Error::database)
    }

    /// Has all parked rows tried anew; how many there were.
    ///
    /// # Errors
    /// [`ErrorKind::Database`](crate::ErrorKind::Database).
    pub async fn unpark(&self) -> Result<u64> {
        self.rows.unpark().await.map_err(Error::database)
    }

    /// How many rows were taken.
    async fn batch(&self) -> Result<usize> {
        let Settings { batch, claim, tries, .. } = self.settings;
        let rows = self.rows.take(batch, claim).await.map_err(Error::database)?;
        if rows.is_empty() {
            return Ok(0);
        }
        let (mut verdicts, known) = (Vec::new(), rows.len());
        let (good, bad): (Vec<Row>, Vec<Row>) =
            rows.into_iter().partition(|row| row.problem().is_none());
        verdicts.extend(bad.iter().map(|row| {
            let reason = row.problem().unwrap_or_default();
            // No cache has written this: it will not be better later.
            Verdict { id: row.id, reason, again: None }
        }));
        let changes = distinct(&good);
        let delivered = self.transport.deliver(&changes).await;
        let refused = match delivered.and_then(|refused| in_list(refused, changes.len())) {
            Ok(refused) => refused,
            Err(error) => {
                let ids: Vec<i64> = good.iter().map(|row| row.id).collect();
                // Where that fails too, they come back when their claim is over.
                if let Err(error) = self.put_back(&ids).await {
                    tracing::debug!(%error, "rows were not put back");
                }
                self.refuse(&verdicts).await?;
                return Err(error);
            }
        };
        let refused: HashMap<_, &Refused> = refused
            .iter()
            .filter_map(|refused| Some((key(changes.get(refused.at)?), refused)))
            .collect();
        let mut delivered = Vec::new();
        for row in &good {
            match refused.get(&key(&row.change)) {
                None => delivered.push(row),
                Some(refused) => {
                    let again = again(row.tries, tries);
                    verdicts.push(Verdict { id: row.id, reason: refused.reason.clone(), again });
                }
            }
        }
        if !delivered.is_empty() {
            self.rows.delete(&delivered).await.map_err(Error::database)?;
        }
        self.counters.batch(delivered.len(), 0, 0);
        self.refuse(&verdicts).await?;
        Ok(known)
    }

    async fn put_back(&self, ids: &[i64]) -> Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        self.rows.put_back(ids).await.map_err(Error::database)
    }

    async fn refuse(&self, verdicts: &[Verdict]) -> Result<()> {
        for verdict in verdicts {
            let reason = verdict.reason.chars().take(REASON).collect();
            let verdict = Verdict { reason, ..verdict.clone() };
            self.rows.refuse(&verdict).await.map_err(Error::database)?;
            let parked = verdict.again.is_none();
            if parked {
                let (id, reason) = (verdict.id, &verdict.reason);
                tracing::warn!(id, reason, "a row of the outbox is parked");
            }
            self.counters.batch(0, 1, usize::from(parked));
        }
        Ok(())
    }

    /// What cannot be measured shall not keep anything from being delivered.
    async fn look(&self) {
        match self.rows.look().await {
            Ok((oldest, parked)) => self.counters.saw(oldest, parked),
            Err(error) => tracing::debug!(%error, "the age of the outbox was not measured"),
        }
    }

    /// A batch that takes longer is let go of: by then others may have its rows.
    async fn within<T>(&self, limit: Duration, work: impl Future<Output = Result<T>>) -> Result<T> {
        let until = Deadline::after(self.clock.now(), limit);
        let late = || Error::new(crate::ErrorKind::Unavailable, format!("no end within {limit:?}"));
        self.clock.within(Some(until), work).await.unwrap_or_else(|| Err(late()))
    }
}

/// Who refuses what was not given may mean any of them: then nothing is known to have arrived.
fn in_list(refused: Vec<Refused>, most: usize) -> Result<Vec<Refused>> {
    match refused.iter().find(|refused| refused.at >= most) {
        None => Ok(refused),
        Some(Refused { at, reason }) => Err(Error::invalid(format!(
            "the transport refused at {at}, and up to {} is allowed: {reason}",
            most.saturating_sub(1)
        ))),
    }
}

/// Each key once, with its longest hold.
fn distinct(rows: &[Row]) -> Vec<Change> {
    let mut seen: HashMap<_, usize> = HashMap::with_capacity(rows.len());
    let mut changes: Vec<Change> = Vec::with_capacity(rows.len());
    for Row { change, .. } in rows {
        let at = *seen.entry(key(change)).or_insert(changes.len());
        match changes.get_mut(at) {
            Some(known) => known.hold = known.hold.max(change.hold),
            None => changes.push(change.clone()),
        }
    }
    changes
}

fn key(change: &Change) -> (&str, &str) {
    (&change.cache, &change.key)
}

/// When a row that was refused `before` times is tried again; `None` parks it.
fn again(before: i64, most: u32) -> Option<Duration> {
    let before = u32::try_from(before).unwrap_or(0);
    let pause = AGAIN.0.saturating_mul(2_u32.saturating_pow(before));
    (before.saturating_add(1) < most).then(|| pause.min(AGAIN.1))
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay").field("settings", &self.settings).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_row_is_tried_ever_later_and_parked_in_the_end() {
        let pauses: Vec<_> = (0..4).map(|before| again(before, 4)).collect();
        let secs = |secs| Some(Duration::from_secs(secs));
        assert_eq!(pauses, [secs(1), secs(2), secs(4), None]);
        assert_eq!(again(40, 1_000), secs(300));
        assert_eq!(again(0, 1), None);
    }

    #[test]
    fn a_key_that_changed_often_is_delivered_once_with_its_longest_hold() {
        let row = |id, key: &str, hold| Row {
            id,
            queued_us: 0,
            tries: 0,
            unreadable: None,
            change: Change {
                cache: "p:n".into(),
                key: key.into(),
                hold: Duration::from_millis(hold),
            },
        };
        let changes = distinct(&[row(1, "a", 5), row(2, "b", 0), row(3, "a", 9), row(4, "a", 1)]);
        assert_eq!(changes, [row(0, "a", 9).change, row(0, "b", 0).change]);
    }
}
