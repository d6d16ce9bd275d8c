//! The statements that renew the leases of readers.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_core::backend::Renewal;

use super::Batch;
use crate::record::{PATIENCE, nobody, us};
use crate::store::Store;
use crate::tables::Tables;

impl Store {
    /// Renews readers, each alone, and lets the row of their lock last as long as they do. A new
    /// stamp on the row first makes steps that run meanwhile read the readers again.
    pub(super) fn renewing_readers(
        &self,
        by_ttl: BTreeMap<Duration, Vec<&Renewal>>,
    ) -> Vec<String> {
        let Tables { dialect, locks, readers, waiters, .. } = &self.tables;
        let (clock, greatest) = (dialect.now(), dialect.greatest());
        let (nobody, patience) = (dialect.bytes(&nobody().to_bytes()), us(PATIENCE));
        let mut statements: Vec<String> = Vec::new();
        for (ttl, leases) in by_ttl {
            let Batch { names, attempts, bases } = Batch::new(&self.tables, &leases);
            let (ttl, stamp) = (us(ttl), self.stamp());
            let theirs = format!("r.attempt IN ({attempts}) AND r.base IN ({bases})");
            statements.push(format!(
                "UPDATE {locks} SET stamp = {stamp} WHERE name IN ({names}) AND state = 1 \
                 AND attempt = {nobody} AND EXISTS (SELECT 1 FROM {readers} r \
                 WHERE r.name = {locks}.name AND r.base = {locks}.base AND {theirs} \
                 AND r.until_us > {clock})"
            ));
            statements.push(format!(
                "UPDATE {readers} SET confirmed = 1, \
                 until_us = {greatest}(until_us, {clock} + {ttl}) WHERE name IN ({names}) \
                 AND attempt IN ({attempts}) AND until_us > {clock} \
                 AND EXISTS (SELECT 1 FROM {locks} l WHERE l.name = {readers}.name \
                 AND l.base = {readers}.base AND l.stamp = {stamp})"
            ));
            statements.push(format!(
                "UPDATE {locks} SET until_us = {greatest}(until_us, {clock} + {ttl}) \
                 WHERE name IN ({names}) AND stamp = {stamp}"
            ));
            statements.push(format!(
                "SELECT r.attempt, r.base, (SELECT COUNT(*) FROM {waiters} w \
                 WHERE w.name = r.name AND w.seen_us > {clock} - {patience}) \
                 FROM {readers} r JOIN {locks} l ON l.name = r.name \
                 AND l.base = r.base AND l.stamp = {stamp} WHERE {theirs} \
                 AND r.until_us > {clock}"
            ));
        }
        statements
    }
}
