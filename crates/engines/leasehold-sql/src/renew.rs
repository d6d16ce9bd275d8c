//! Renews a batch of leases: one packet for those that write, one for those that read and one for
//! permits, and one for each lease if a row is locked.

mod permits;
mod readers;

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use futures_util::future::join_all;
use leasehold_core::backend::{Mode, Renewal, Renewed};
use leasehold_core::{AttemptId, Deadline, Result};

use crate::acquire::time_fits;
use crate::connection::Value;
use crate::dialect::LOCK;
use crate::error::{Fault, What};
use crate::pool::Lane;
use crate::record::{attempt, list, us};
use crate::store::Store;
use crate::tables::Tables;

/// The time limits of a renewal.
#[derive(Clone, Copy)]
struct Limits {
    /// For a row that another transaction keeps locked.
    lock: Duration,
    until: Deadline,
}

/// The answers to some leases, in their order.
type Answers = Vec<Result<Renewed>>;

impl Store {
    /// Renews leases within a time limit; the answers are in their order. `reads` contains the
    /// attempts that have acquired to read.
    pub(crate) async fn renew(
        &self,
        leases: &[Renewal],
        reads: &HashSet<AttemptId>,
        limit: Duration,
    ) -> Answers {
        // A row that another transaction keeps locked leaves time for the others.
        let limits = Limits { lock: LOCK.min(limit / 4), until: self.within(limit) };
        let mut answers: Vec<Option<Result<Renewed>>> = leases.iter().map(|_| None).collect();
        let mode = |lease: &Renewal| match lease.mode {
            Mode::Permit => Mode::Permit,
            _ if reads.contains(&lease.attempt) => Mode::Shared,
            _ => Mode::Exclusive,
        };
        let places = |of: Mode| -> Vec<usize> {
            (0..leases.len()).filter(|place| mode(&leases[*place]) == of).collect()
        };
        let modes = [Mode::Exclusive, Mode::Shared, Mode::Permit].map(|mode| (mode, places(mode)));
        let each = modes.iter().map(|(mode, places)| async {
            let chosen: Vec<Renewal> = places.iter().map(|place| leases[*place].clone()).collect();
            self.renew_some(*mode, &chosen, limits).await
        });
        for ((_, places), of_mode) in modes.iter().zip(join_all(each).await) {
            for (place, answer) in places.iter().zip(of_mode) {
                answers[*place] = Some(answer);
            }
        }
        answers.into_iter().map(|answer| answer.unwrap_or(Ok(Renewed::Lost))).collect()
    }

    /// Renews leases of one mode.
    async fn renew_some(&self, mode: Mode, leases: &[Renewal], limits: Limits) -> Answers {
        if leases.is_empty() {
            return Vec::new();
        }
        match self.renew_together(mode, leases, limits).await {
            Ok(answers) => answers,
            // One row that another transaction keeps locked must not end the other leases.
            Err(fault) if fault.what == What::Locked && leases.len() > 1 => {
                let each = leases.iter().map(|lease| async move {
                    let lease = std::slice::from_ref(lease);
                    let alone = self.renew_together(mode, lease, limits).await;
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
        mode: Mode,
        leases: &[Renewal],
        limits: Limits,
    ) -> Result<Answers, Fault> {
        let mut by_ttl: BTreeMap<Duration, Vec<&Renewal>> = BTreeMap::new();
        for lease in leases {
            time_fits("ttl", lease.ttl).map_err(|error| Fault { what: What::Refused, error })?;
            by_ttl.entry(lease.ttl).or_default().push(lease);
        }
        let statements = match mode {
            Mode::Shared => self.renewing_readers(by_ttl),
            Mode::Permit => self.renewing_permits(by_ttl),
            _ => self.renewing_writers(by_ttl),
        };
        let packet = self.tables.dialect.atomic_within(&statements, limits.lock);
        let replies = self.run(Lane::Renewal, &packet, limits.until).await?;
        // Only a SELECT returns rows.
        let mut renewed = Vec::new();
        for row in replies.iter().flat_map(|reply| &reply.rows) {
            let [owner, base, writers @ ..] = row.as_slice() else { continue };
            let writers = writers.first().map_or(Ok(0), Value::number);
            let lease =
                attempt(owner).and_then(|owner| Ok((owner, base.unsigned()?, writers? > 0)));
            renewed.push(lease.map_err(|error| Fault { what: What::Refused, error })?);
        }
        let verdict = |lease: &Renewal| {
            let lease = (lease.attempt, lease.base.get());
            let found = renewed.iter().find(|(attempt, base, _)| (*attempt, *base) == lease);
            Ok(match found {
                Some((_, _, true)) => Renewed::Wanted,
                Some((_, _, false)) => Renewed::Renewed,
                None => Renewed::Lost,
            })
        };
        Ok(leases.iter().map(verdict).collect())
    }

    fn renewing_writers(&self, by_ttl: BTreeMap<Duration, Vec<&Renewal>>) -> Vec<String> {
        let Tables { dialect, locks, .. } = &self.tables;
        let (clock, greatest, stamp) = (dialect.now(), dialect.greatest(), self.stamp());
        let all = Batch::new(&self.tables, &by_ttl.values().flatten().copied().collect::<Vec<_>>());
        let mut statements: Vec<String> = Vec::new();
        for (ttl, leases) in by_ttl {
            let Batch { names, attempts, bases } = Batch::new(&self.tables, &leases);
            let ttl = us(ttl);
            statements.push(format!(
                "UPDATE {locks} SET stamp = {stamp}, confirmed = 1, \
                 until_us = {greatest}(until_us, {clock} + {ttl}) WHERE name IN ({names}) \
                 AND attempt IN ({attempts}) AND base IN ({bases}) AND state = 1 \
                 AND until_us > {clock}"
            ));
        }
        let names = all.names;
        statements.push(format!(
            "SELECT attempt, base FROM {locks} WHERE name IN ({names}) AND stamp = {stamp}"
        ));
        statements
    }
}

/// Some leases as lists in a statement.
struct Batch {
    names: String,
    attempts: String,
    bases: String,
}

impl Batch {
    fn new(tables: &Tables, leases: &[&Renewal]) -> Self {
        let dialect = tables.dialect;
        let names = leases.iter().map(|lease| dialect.bytes(lease.name.as_str().as_bytes()));
        let attempts: Vec<AttemptId> = leases.iter().map(|lease| lease.attempt).collect();
        let bases = leases.iter().map(|lease| lease.base.get().to_string());
        Self {
            names: names.collect::<Vec<_>>().join(", "),
            attempts: list(dialect, &attempts),
            bases: bases.collect::<Vec<_>>().join(", "),
        }
    }
}
