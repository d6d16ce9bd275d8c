//! Removes the rows of free locks on demand, in batches.

use leasehold_core::Result;

use crate::connection::Value;
use crate::dialect::Packet;
use crate::kind::Kind;
use crate::maintenance::{MAKING, READER, SWEPT};
use crate::pool::Lane;
use crate::status::begins;
use crate::store::Store;
use crate::tables::Tables;

impl Store {
    /// Removes the rows of free locks whose names start with `names`, and returns how many. A row
    /// stays if the clock has not passed its last token, as in [`sweep`](Self::sweep).
    ///
    /// Each batch covers 1,000 rows and is a transaction with its own time limit. Other clients
    /// wait for at most one batch, and a failure keeps what the earlier batches removed.
    pub(crate) async fn forget(&self, names: &str) -> Result<u64> {
        let mut removed = 0;
        let mut after = None;
        loop {
            let last = self.last_of_batch(names, after.as_deref()).await?;
            let batch = self.batch(names, after.as_deref(), last.as_deref());
            let replies = self.run(Lane::Usual, &batch, self.within(MAKING)).await?;
            removed += replies.first().map_or(0, |reply| reply.affected);
            match last {
                Some(last) => after = Some(last),
                None => break,
            }
        }
        // The tables of an older program have no readers, and no records.
        let readers = self.has_readers().then(|| self.leftover_readers(names));
        let Tables { records, permits, .. } = &self.tables;
        let of_records = [(records, "name"), (permits, READER)].into_iter();
        let records = of_records.filter(|_| self.has_records());
        let records = records.map(|(table, key)| self.leftover_records(table, key, names));
        let leftover = [Some(self.ended(names)), readers].into_iter().flatten().chain(records);
        for packet in leftover {
            loop {
                let replies = self.run(Lane::Usual, &packet, self.within(MAKING)).await?;
                if replies.first().is_none_or(|reply| reply.affected < SWEPT) {
                    break;
                }
            }
        }
        Ok(removed)
    }

    /// Returns the statement that removes the rows of readers of these locks that are left over.
    fn leftover_readers(&self, names: &str) -> Packet {
        let Tables { dialect, readers, .. } = &self.tables;
        let left = self.no_reader(&begins(&self.tables, &format!("{readers}.name"), names));
        dialect.plain(&[dialect.delete_some(readers, READER, &left, READER, SWEPT)])
    }

    /// Returns the statement that removes the rows about these names that are left over from
    /// semaphores and latches.
    fn leftover_records(&self, table: &str, key: &str, names: &str) -> Packet {
        let dialect = self.tables.dialect;
        let theirs = begins(&self.tables, &format!("{table}.name"), names);
        let over = format!("{theirs} AND until_us < {}", dialect.now());
        let left = self.no_record(table, &over);
        dialect.plain(&[dialect.delete_some(table, key, &left, key, SWEPT)])
    }

    /// Returns the name of the last lock of the batch that begins after `after`; `None` if the
    /// batch is the last.
    async fn last_of_batch(&self, names: &str, after: Option<&[u8]>) -> Result<Option<Vec<u8>>> {
        let Tables { dialect, locks, .. } = &self.tables;
        let range = self.range(names, after, None);
        let packet = dialect.plain(&[format!(
            "SELECT name FROM {locks} WHERE {range} ORDER BY name LIMIT 1 OFFSET {}",
            SWEPT - 1
        )]);
        let replies = self.run(Lane::Usual, &packet, self.within(MAKING)).await?;
        let row = replies.first().and_then(|reply| reply.rows.first());
        let name = row.and_then(|row| row.first()).map(Value::bytes).transpose()?;
        Ok(name.map(<[u8]>::to_vec))
    }

    /// Returns the statement of one batch of locks, from after `after` up to `last`.
    fn batch(&self, names: &str, after: Option<&[u8]>, last: Option<&[u8]>) -> Packet {
        let Tables { dialect, locks, .. } = &self.tables;
        let (clock, range) = (dialect.now(), self.range(names, after, last));
        // The name of a semaphore stays its own for a while after its last permit.
        let unused = format!("state = {} AND since_us <= {clock}", Kind::Semaphore.state());
        let free = format!(
            "{range} AND line = 0 AND ended_us < {clock} AND top < {clock} \
             AND (state = 0 OR until_us <= {clock} OR {unused})"
        );
        // Rows inserted meanwhile may enlarge the batch: the limit applies to them too.
        dialect.plain(&[dialect.delete_some(locks, "name", &free, "name", SWEPT)])
    }

    /// Returns the statement that removes ended attempts of these locks that no request can follow
    /// any more.
    fn ended(&self, names: &str) -> Packet {
        let Tables { dialect, ended, .. } = &self.tables;
        let over =
            format!("{} AND until_us < {}", begins(&self.tables, "name", names), dialect.now());
        dialect.plain(&[dialect.delete_some(ended, "attempt", &over, "name, until_us", SWEPT)])
    }

    fn range(&self, names: &str, after: Option<&[u8]>, last: Option<&[u8]>) -> String {
        let dialect = self.tables.dialect;
        let mut range = begins(&self.tables, "name", names);
        for (bound, name) in [(">", after), ("<=", last)] {
            if let Some(name) = name {
                range += &format!(" AND name {bound} {}", dialect.bytes(name));
            }
        }
        range
    }
}

#[cfg(all(test, feature = "mysql", feature = "postgres", feature = "sqlite"))]
#[path = "forget_tests.rs"]
#[allow(clippy::unwrap_used, reason = "a set-up that fails is a failed test")]
mod tests;
