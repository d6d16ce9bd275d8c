//! Reads the other kinds of names for display: semaphores with their permits, and latches.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_core::{Deadline, Name, Permits, Permitted, Result, State, Status, Token, Waiter};

use super::{bytes, slots_of};
use crate::connection::{Reply, Value};
use crate::error::strange;
use crate::kind::Kind;
use crate::pool::Lane;
use crate::record::{self, Record};
use crate::status::{NAMED, holder};
use crate::store::Store;
use crate::tables::Tables;

/// How many statements read one name.
const EACH: usize = 3;

impl Store {
    /// Returns the status of each name that belongs to another kind than a lock, or why it cannot be read.
    pub(crate) async fn others(
        &self,
        listed: &[(Name, Record)],
        until: Deadline,
    ) -> Result<BTreeMap<Name, Result<Status>>> {
        let named: Vec<_> =
            listed.iter().filter(|(_, record)| record.other_kind().is_some()).collect();
        let mut found = BTreeMap::new();
        if named.is_empty() {
            return Ok(found);
        }
        let statements: Vec<String> =
            named.iter().flat_map(|(name, _)| ask(&self.tables, name)).collect();
        let replies = self.run(Lane::Usual, &self.tables.dialect.plain(&statements), until).await?;
        for ((name, record), replies) in named.into_iter().zip(replies.chunks(EACH)) {
            let status = match record.kind() {
                Some(Kind::Semaphore) => semaphore(name, record, replies),
                _ => latch(name, record, replies),
            };
            found.insert(name.clone(), status);
        }
        Ok(found)
    }
}

fn ask(tables: &Tables, name: &Name) -> [String; EACH] {
    let Tables { dialect, permits, .. } = tables;
    let name = dialect.bytes(name.as_str().as_bytes());
    let alive = format!("FROM {permits} WHERE name = {name} AND until_us > {}", dialect.now());
    [
        tables.ask_data(&name),
        format!(
            "SELECT attempt, base, slots, until_us, person {alive} ORDER BY slots LIMIT {NAMED}"
        ),
        format!("SELECT slots {alive}"),
    ]
}

fn data(replies: &[Reply]) -> Option<&Value> {
    replies.first()?.rows.first()?.first()
}

pub(crate) fn latch(name: &Name, record: &Record, replies: &[Reply]) -> Result<Status> {
    let Some(data) = data(replies) else { return Ok(Status::free(name)) };
    let left_ns = record.until_ns.saturating_sub(record.now.steady_ns);
    Ok(Status::of_latch(name, data.bytes()?, Some(Duration::from_nanos(left_ns))))
}

pub(crate) fn semaphore(name: &Name, record: &Record, replies: &[Reply]) -> Result<Status> {
    let mut status = Status::free(name);
    let (Some(data), [_, shown, all]) = (data(replies), replies) else { return Ok(status) };
    let parts = bytes::decode(data.bytes()?)?;
    let (limit, version) = parts.limit.map_or((0, 0), |(limit, version)| (limit.get(), version));
    let mut permits = Permits::new(limit, version);
    for row in &all.rows {
        let slots = row.first().ok_or_else(|| strange("a short row of a permit"))?;
        permits.held += slots_of(slots)?.len() as u32;
    }
    for row in &shown.rows {
        let [attempt, base, slots, until_us, person] = row.as_slice() else {
            return Err(strange("a short row of a permit"));
        };
        let token = Token::new(base.unsigned()?).ok_or_else(|| strange("no token"))?;
        let left_us = until_us.unsigned()?.saturating_sub(record.now.unix_us());
        let holder = holder(record::attempt(attempt)?, person.bytes()?);
        let remaining = Some(Duration::from_micros(left_us));
        permits.holders.push(Permitted::new(holder, slots_of(slots)?, token, remaining));
    }
    let waiting = parts.queue.iter().take(NAMED).map(|waiter| {
        let holder = holder(waiter.attempt, &waiter.tag.person);
        Waiter::new(holder, waiter.tag.asked_us / 1000).with_slots(waiter.slots)
    });
    status.state = if permits.held > 0 { State::Permits } else { State::Free };
    status.holder = permits.holders.first().map(|one| one.holder.clone());
    status.more_waiters = parts.queue.len().saturating_sub(NAMED);
    status.waiters = Some(waiting.collect());
    status.permits = Some(permits);
    Ok(status)
}
