//! The value of a latch: one row of bytes, and a row in the table of locks that gives the name to the
//! latch until it expires.

use leasehold_core::backend::ValueSwap;
use leasehold_core::{Deadline, Name, Result};

use crate::acquire::time_fits;
use crate::connection::{Reply, Value};
use crate::dialect::Packet;
use crate::error::strange;
use crate::hold::Hold;
use crate::kind::Kind;
use crate::record::{KindRow, Record, ask_row, us};
use crate::rounds::{Decision, Step, Stepped};
use crate::store::Store;
use crate::tables::Tables;

impl Store {
    /// Returns the value of a latch.
    ///
    /// # Errors
    /// `Invalid` if the name is that of another kind.
    pub(crate) async fn value(&self, name: &Name, until: Deadline) -> Result<Option<Vec<u8>>> {
        Ok(self.run_step(Look(name), until, false).await?.answer)
    }

    /// Replaces the value of a latch if it is still the one that the client has read; returns
    /// whether it did.
    ///
    /// # Errors
    /// `Invalid` if the name is that of another kind.
    pub(crate) async fn swap_value(&self, swap: &ValueSwap, until: Deadline) -> Result<bool> {
        time_fits("ttl", swap.ttl)?;
        let Stepped { answer, .. } = self.run_step(Swap(swap), until, false).await?;
        Ok(answer)
    }
}

/// Reads a value.
struct Look<'a>(&'a Name);

impl Step for Look<'_> {
    type Answer = Option<Vec<u8>>;

    fn ask(&mut self, store: &Store, hold: Hold) -> Packet {
        ask(&store.tables, self.0, hold)
    }

    fn decide(&mut self, _: &Store, replies: &[Reply]) -> Result<Decision<Self::Answer>> {
        Ok(read(replies)?.map_or(Decision::Torn, |(_, value)| Decision::Done(value)))
    }
}

/// Replaces a value.
struct Swap<'a>(&'a ValueSwap);

impl Step for Swap<'_> {
    type Answer = bool;

    fn ask(&mut self, store: &Store, hold: Hold) -> Packet {
        ask(&store.tables, &self.0.name, hold)
    }

    fn decide(&mut self, store: &Store, replies: &[Reply]) -> Result<Decision<bool>> {
        let ValueSwap { name, seen, next, ttl, .. } = self.0;
        let Some((record, value)) = read(replies)? else { return Ok(Decision::Torn) };
        if value != *seen {
            return Ok(Decision::Done(false));
        }
        let (tables, stamp) = (&store.tables, store.stamp());
        let telling = store.tell_observers(name, stamp);
        let name = tables.dialect.bytes(name.as_str().as_bytes());
        let until_us = record.now.unix_us().saturating_add(us(*ttl));
        let row = KindRow::new(Kind::Latch, until_us);
        let mut statements = vec![record.statement_of_kind(tables, &name, stamp, row)];
        statements.extend(tables.write_data(&name, stamp, until_us, next));
        statements.extend(telling);
        Ok(Decision::Write(statements, true))
    }
}

fn ask(tables: &Tables, name: &Name, hold: Hold) -> Packet {
    let bytes = tables.dialect.bytes(name.as_str().as_bytes());
    let statements = [ask_row(tables, name), tables.ask_data(&bytes), tables.ask_stamp(&bytes)];
    match hold {
        Hold::Everything => tables.dialect.begin(&statements),
        _ => tables.dialect.reading(&statements),
    }
}

/// Parses the replies: the row of the name, and the value. `None` if another client wrote in between.
pub(crate) fn read(replies: &[Reply]) -> Result<Option<(Record, Option<Vec<u8>>)>> {
    let [row, data, last, ..] = replies else { return Err(strange("replies are missing")) };
    let record = Record::of_row(row.rows.first().ok_or_else(|| strange("no row"))?)?;
    if !record.is_whole(last)? {
        return Ok(None);
    }
    let value = match record.kind() {
        Some(Kind::Latch) => {
            let value = data.rows.first().and_then(|row| row.first()).map(Value::bytes);
            value.transpose()?.map(<[u8]>::to_vec)
        }
        Some(kind) => return Err(kind.refuses_latch()),
        None => None,
    };
    Ok(Some((record, value)))
}
