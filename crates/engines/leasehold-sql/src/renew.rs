//! Renews a batch of leases: one statement, and one for each lease that it could not renew.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use leasehold_core::backend::{Renewal, Renewed};
use leasehold_core::{AttemptId, Deadline, Result};

use crate::acquire::time_fits;
use crate::dialect::LOCK;
use crate::error::{Fault, What};
use crate::pool::Lane;
use crate::record::{attempt, list, us};
use crate::store::Store;
use crate::tables::Tables;

impl Store {
    /// Renews leases within a time limit; the answers are in their order.
    pub(crate) async fn renew(&self, leases: &[Renewal], limit: Duration) -> Vec<Result<Renewed>> {
        // A row that another transaction keeps locked leaves time for the others.
        let (lock, until) = (LOCK.min(limit / 4), self.within(limit));
        let together = self.renew_together(leases, lock, until).await;
        match together {
            Ok(answers) => answers,
            // One row that another transaction keeps locked must not end the other leases.
            Err(fault) if fault.what == What::Locked && leases.len() > 1 => {
                let each = leases.iter().map(|lease| async {
                    let lease = std::slice::from_ref(lease);
                    let alone = self.renew_together(lease, lock, until).await;
                    let answers = alone.map_err(|fault| fault.error)?;
                    answers.into_iter().next().unwrap_or(Ok(Renewed::Lost))
                });
                join_all(each).await
            }
            Err(fault) => leases.iter().map(|_| Err(fault.error.clone())).collect(),
        }
    }

    async fn renew_together(
        &self,
        leases: &[Renewal],
        lock: Duration,
        until: Deadline,
    ) -> Result<Vec<Result<Renewed>>, Fault> {
        let mut by_ttl: BTreeMap<Duration, Vec<&Renewal>> = BTreeMap::new();
        for lease in leases {
            time_fits("ttl", lease.ttl).map_err(|error| Fault { what: What::Refused, error })?;
            by_ttl.entry(lease.ttl).or_default().push(lease);
        }
        let Tables { dialect, locks, .. } = &self.tables;
        let (clock, greatest, stamp) = (dialect.now(), dialect.greatest(), self.stamp());
        let names = |leases: &[&Renewal]| -> String {
            let names: Vec<String> = (leases.iter())
                .map(|lease| dialect.bytes(lease.name.as_str().as_bytes()))
                .collect();
            names.join(", ")
        };
        let mut statements: Vec<String> = Vec::new();
        for (ttl, leases) in by_ttl {
            let attempts: Vec<AttemptId> = leases.iter().map(|lease| lease.attempt).collect();
            let bases: Vec<String> =
                leases.iter().map(|lease| lease.base.get().to_string()).collect();
            let (names, attempts) = (names(&leases), list(*dialect, &attempts));
            let (bases, ttl) = (bases.join(", "), us(ttl));
            statements.push(format!(
                "UPDATE {locks} SET stamp = {stamp}, confirmed = 1, \
                 until_us = {greatest}(until_us, {clock} + {ttl}) WHERE name IN ({names}) \
                 AND attempt IN ({attempts}) AND base IN ({bases}) AND state = 1 \
                 AND until_us > {clock}"
            ));
        }
        let names = names(&leases.iter().collect::<Vec<_>>());
        statements.push(format!(
            "SELECT attempt, base FROM {locks} WHERE name IN ({names}) AND stamp = {stamp}"
        ));
        let packet = dialect.atomic_within(&statements, lock);
        let replies = self.run(Lane::Renewal, &packet, until).await?;
        // Only the SELECT returns rows.
        let mut renewed = Vec::new();
        for row in replies.iter().flat_map(|reply| &reply.rows) {
            let [owner, base] = row.as_slice() else { continue };
            let lease = attempt(owner).and_then(|owner| Ok((owner, base.unsigned()?)));
            renewed.push(lease.map_err(|error| Fault { what: What::Refused, error })?);
        }
        let verdict = |lease: &Renewal| match renewed.contains(&(lease.attempt, lease.base.get())) {
            true => Ok(Renewed::Renewed),
            false => Ok(Renewed::Lost),
        };
        Ok(leases.iter().map(verdict).collect())
    }
}
