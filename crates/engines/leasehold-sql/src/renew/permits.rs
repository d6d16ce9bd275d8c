//! The statements that renew permits of semaphores.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_core::backend::Renewal;

use super::Batch;
use crate::kind::{Kind, RETENTION};
use crate::record::us;
use crate::store::Store;
use crate::tables::Tables;

impl Store {
    /// Renews permits, each alone, and lets the name belong to their semaphore for as long as they
    /// last. A new stamp on the row of the name first makes steps that run meanwhile read the permits
    /// again. So a renewal needs no second try, however many clients use the semaphore.
    pub(super) fn renewing_permits(
        &self,
        by_ttl: BTreeMap<Duration, Vec<&Renewal>>,
    ) -> Vec<String> {
        let Tables { dialect, locks, permits, .. } = &self.tables;
        let (clock, greatest) = (dialect.now(), dialect.greatest());
        let (state, retention) = (Kind::Semaphore.state(), us(RETENTION));
        let mut statements: Vec<String> = Vec::new();
        for (ttl, leases) in by_ttl {
            let Batch { names, attempts, bases } = Batch::new(&self.tables, &leases);
            let (ttl, stamp) = (us(ttl), self.stamp());
            let theirs = format!("p.attempt IN ({attempts}) AND p.base IN ({bases})");
            statements.push(format!(
                "UPDATE {locks} SET stamp = {stamp} WHERE name IN ({names}) AND state = {state} \
                 AND EXISTS (SELECT 1 FROM {permits} p WHERE p.name = {locks}.name AND {theirs} \
                 AND p.until_us > {clock})"
            ));
            statements.push(format!(
                "UPDATE {permits} SET confirmed = 1, \
                 until_us = {greatest}(until_us, {clock} + {ttl}) WHERE name IN ({names}) \
                 AND attempt IN ({attempts}) AND base IN ({bases}) AND until_us > {clock} \
                 AND EXISTS (SELECT 1 FROM {locks} l WHERE l.name = {permits}.name \
                 AND l.stamp = {stamp})"
            ));
            statements.push(format!(
                "UPDATE {locks} SET until_us = {greatest}(until_us, {clock} + {ttl} + {retention}), \
                 since_us = {greatest}(since_us, {clock} + {ttl}) \
                 WHERE name IN ({names}) AND stamp = {stamp}"
            ));
            statements.push(format!(
                "SELECT p.attempt, p.base, l.line FROM {permits} p JOIN {locks} l \
                 ON l.name = p.name AND l.stamp = {stamp} WHERE p.name IN ({names}) \
                 AND {theirs} AND p.until_us > {clock}"
            ));
        }
        statements
    }
}
