//! One batch of a relay: takes rows, delivers them, and deletes them.

use leasehold_cache_redis::LOG_TARGET;

use super::Relay;
use crate::Result;
use crate::limits::BatchSettings;
use crate::merge::{Merged, merge};
use crate::refusal::{again, reasons, shortened};
use crate::rows::{Row, Verdict};

impl Relay {
    /// Delivers one batch, and returns how many rows were taken.
    pub(super) async fn batch(&self) -> Result<usize> {
        let BatchSettings { batch, claim, tries } = self.settings.batches;
        let rows = self.rows.take(batch, claim).await.map_err(crate::error::database_failed)?;
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
        let Merged { changes, places } = merge(good.iter().map(|row| &row.change));
        let delivered = self.transport.deliver(&changes).await;
        let refused = match delivered.and_then(|refused| reasons(refused, changes.len())) {
            Ok(refused) => refused,
            Err(error) => {
                let ids: Vec<i64> = good.iter().map(|row| row.id).collect();
                // Where that fails too, they come back when their claim is over.
                if let Err(error) = self.put_back(&ids).await {
                    tracing::debug!(%error, "cannot return rows to the outbox; they are due again \
                                             after `claim`");
                }
                self.refuse(&verdicts).await?;
                return Err(error);
            }
        };
        let mut delivered = Vec::new();
        for (row, place) in good.iter().zip(places) {
            match refused.get(&place) {
                None => delivered.push(row),
                Some(reason) => {
                    let again = again(row.tries, tries);
                    verdicts.push(Verdict { id: row.id, reason: reason.clone(), again });
                }
            }
        }
        if !delivered.is_empty() {
            self.rows.delete(&delivered).await.map_err(crate::error::database_failed)?;
        }
        self.counters.batch(delivered.len(), 0, 0);
        self.refuse(&verdicts).await?;
        Ok(known)
    }

    async fn put_back(&self, ids: &[i64]) -> Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        self.rows.put_back(ids).await.map_err(crate::error::database_failed)
    }

    async fn refuse(&self, verdicts: &[Verdict]) -> Result<()> {
        for verdict in verdicts {
            let verdict = Verdict { reason: shortened(&verdict.reason), ..verdict.clone() };
            self.rows.refuse(&verdict).await.map_err(crate::error::database_failed)?;
            let parked = verdict.again.is_none();
            if parked {
                let (id, reason) = (verdict.id, &verdict.reason);
                tracing::warn!(target: LOG_TARGET, id, reason, "a row of the outbox was parked");
            }
            self.counters.batch(0, 1, usize::from(parked));
        }
        Ok(())
    }
}
