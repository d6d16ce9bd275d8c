//! One lock as the tables store it, and how it is read.

mod write;

use std::time::Duration;

use leasehold_core::proto::handoff::{Parts, State, Waiter};
use leasehold_core::{AttemptId, ClientId, Name, Now, Result};

use crate::connection::{Reply, Value};
use crate::dialect::{Dialect, Packet};
use crate::error::strange;
use crate::tables::Tables;

/// A waiter whose client has been silent for this long does not count any more.
pub(crate) const PATIENCE: Duration = Duration::from_secs(45);
/// How many of the first waiters a step may concern.
const HEADS: usize = 3;

/// Data that stays with an attempt, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) person: Vec<u8>,
    pub(crate) asked_us: u64,
}

/// What the tables contain about one lock, as far as a step of some attempts needs it.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) now: Now,
    /// The stamp of the last writer; `None` if there is no row.
    pub(crate) stamp: Option<i64>,
    pub(crate) parts: Parts<Tag>,
    pub(crate) since_us: u64,
    /// True if a client may wait.
    pub(crate) has_queue: bool,
    /// Until when ended attempts are remembered.
    pub(crate) ended_us: u64,
    /// The last ticket that was given.
    ticket: u64,
    /// How many clients wait, and how many dead entries are left.
    waiting: u64,
    stale: u64,
    /// The queue places of the step's own attempts, if they wait.
    places: Vec<(AttemptId, u64)>,
}

pub(crate) fn now(us: u64) -> Now {
    Now { steady_ns: us.saturating_mul(1000), wall_ns: us.saturating_mul(1000) }
}

pub(crate) fn us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Returns the number of a client in a column.
pub(crate) fn client_number(client: ClientId) -> i64 {
    let bytes = AttemptId::new(client, 0, 0).to_bytes();
    let mut first = [0; 8];
    first.copy_from_slice(&bytes[..8]);
    i64::from_be_bytes(first)
}

/// The columns of a row, after the database's time.
pub(crate) const COLUMNS: &str = "l.stamp, l.state, l.attempt, l.person, l.base, l.top, l.lost, \
                                  l.until_us, l.since_us, l.confirmed, l.line, l.ended_us, l.ticket";

/// Reads the row of a lock; there is always one answer.
pub(crate) fn ask_row(tables: &Tables, name: &Name) -> String {
    let (dialect, locks) = (tables.dialect, &tables.locks);
    let (now, name) = (dialect.now(), dialect.bytes(name.as_str().as_bytes()));
    format!(
        "SELECT {now}, {COLUMNS} FROM (SELECT 1 AS one) AS here \
         LEFT JOIN {locks} l ON l.name = {name}"
    )
}

/// Reads everything that a step of these attempts needs. It reads the row first and its stamp again
/// at the end: if the stamp is the same, all parts belong together.
///
/// With `close`, it first marks the row as having waiters, since a client is about to wait. No
/// single statement takes or frees the lock then, until a step has written whether clients wait.
pub(crate) fn ask(tables: &Tables, name: &Name, attempts: &[AttemptId], close: bool) -> Packet {
    let Tables { dialect, locks, waiters, ended, .. } = tables;
    let own = list(*dialect, attempts);
    let (clock, patience) = (dialect.now(), us(PATIENCE));
    let alive = format!("seen_us > {clock} - {patience}");
    let bytes = dialect.bytes(name.as_str().as_bytes());
    let columns = "w.attempt, w.ttl_us, w.tokens, w.person, w.asked_us, w.ticket";
    let question = [
        ask_row(tables, name),
        format!(
            "SELECT {columns} FROM {waiters} w WHERE w.name = {bytes} AND w.{alive} \
             ORDER BY w.ticket LIMIT {HEADS}"
        ),
        format!(
            "SELECT {columns}, (SELECT COUNT(*) FROM {waiters} b WHERE b.name = {bytes} \
             AND b.ticket < w.ticket AND b.{alive}) FROM {waiters} w \
             WHERE w.attempt IN ({own}) AND w.{alive} ORDER BY w.ticket"
        ),
        format!(
            "SELECT COUNT(*), COUNT(CASE WHEN {alive} THEN 1 END) FROM {waiters} \
             WHERE name = {bytes}"
        ),
        format!("SELECT attempt, until_us FROM {ended} WHERE attempt IN ({own})"),
        format!("SELECT stamp FROM {locks} WHERE name = {bytes}"),
    ];
    if !close {
        return dialect.plain(&question);
    }
    let mut statements =
        vec![format!("UPDATE {locks} SET line = 1 WHERE name = {bytes} AND line = 0")];
    statements.extend(question);
    let mut packet = dialect.plain(&statements);
    packet.skip += 1;
    packet
}

/// Writes attempts as a list of values; no attempt is a list of nothing.
pub(crate) fn list(dialect: Dialect, attempts: &[AttemptId]) -> String {
    if attempts.is_empty() {
        return "NULL".to_owned();
    }
    let each: Vec<String> =
        attempts.iter().map(|attempt| dialect.bytes(&attempt.to_bytes())).collect();
    each.join(", ")
}

impl Record {
    /// Parses the replies to [`ask`]; `None` if another client wrote in between.
    pub(crate) fn read(replies: &[Reply]) -> Result<Option<Self>> {
        let [row, heads, own, counts, ended, last] = replies else {
            return Err(strange("replies are missing"));
        };
        let row = row.rows.first().ok_or_else(|| strange("no row"))?;
        let mut record = Self::of_row(row)?;
        let last = last.rows.first().and_then(|row| row.first());
        if last.map(Value::number).transpose()? != record.stamp {
            return Ok(None);
        }
        for row in heads.rows.iter().chain(&own.rows) {
            let waiter = waiter(row)?;
            if let Some(place) = row.get(6) {
                record.places.push((waiter.attempt, place.unsigned()?));
            }
            let known = record.parts.queue.iter().any(|known| known.attempt == waiter.attempt);
            if !known {
                record.parts.queue.push(waiter);
            }
        }
        if let Some([all, alive]) = counts.rows.first().map(Vec::as_slice) {
            record.waiting = alive.unsigned()?;
            record.stale = all.unsigned()?.saturating_sub(record.waiting);
        }
        for row in &ended.rows {
            let [attempt, until_us] = row.as_slice() else { return Err(strange("ended")) };
            let until_ns = until_us.unsigned()?.saturating_mul(1000);
            record.parts.tombstones.push((self::attempt(attempt)?, until_ns));
        }
        Ok(Some(record))
    }

    /// Parses the reply to [`ask_row`]; it contains no queue.
    pub(crate) fn of_row(row: &[Value]) -> Result<Self> {
        let [clock, stamp, fields @ ..] = row else { return Err(strange("a short row")) };
        let mut record = Self {
            now: now(clock.unsigned()?),
            stamp: None,
            parts: Parts::default(),
            since_us: 0,
            has_queue: false,
            ended_us: 0,
            ticket: 0,
            waiting: 0,
            stale: 0,
            places: Vec::new(),
        };
        if *stamp == Value::Null {
            return Ok(record);
        }
        let [state, owner, person, base, top, lost, until, since, confirmed, line, ended, ticket] =
            fields
        else {
            return Err(strange("a short row"));
        };
        record.stamp = Some(stamp.number()?);
        record.since_us = since.unsigned()?;
        record.has_queue = line.number()? != 0;
        record.ended_us = ended.unsigned()?;
        record.ticket = ticket.unsigned()?;
        let parts = &mut record.parts;
        parts.state = match state.number()? {
            0 => State::Free,
            1 => State::Held,
            2 => State::Kept,
            other => return Err(strange(&format!("state {other}"))),
        };
        if !owner.bytes()?.is_empty() {
            let person = person.bytes()?.to_vec();
            let tag = Tag { person, asked_us: record.since_us };
            parts.owner = Some((attempt(owner)?, tag));
        }
        parts.base = base.unsigned()?;
        parts.top = top.unsigned()?;
        parts.lost = lost.unsigned()?;
        parts.until_ns = until.unsigned()?.saturating_mul(1000);
        parts.confirmed = confirmed.number()? != 0;
        Ok(record)
    }

    /// Returns how many clients wait.
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting
    }

    /// Returns how many waiters precede an attempt; a new attempt is the last.
    pub(crate) fn place(&self, attempt: AttemptId) -> u64 {
        let known = self.places.iter().find(|(known, _)| *known == attempt);
        known.map_or(self.waiting.saturating_sub(1), |(_, place)| *place)
    }
}

/// Parses an attempt in a column.
pub(crate) fn attempt(value: &Value) -> Result<AttemptId> {
    let bytes = <[u8; 16]>::try_from(value.bytes()?);
    bytes.map(AttemptId::from_bytes).map_err(|_| strange("an attempt of another length"))
}

fn waiter(row: &[Value]) -> Result<Waiter<Tag>> {
    let [owner, ttl_us, tokens, person, asked_us, ..] = row else {
        return Err(strange("a short row of a waiter"));
    };
    Ok(Waiter {
        attempt: attempt(owner)?,
        ttl: Duration::from_micros(ttl_us.unsigned()?),
        tokens: u32::try_from(tokens.unsigned()?).unwrap_or(u32::MAX),
        tag: Tag { person: person.bytes()?.to_vec(), asked_us: asked_us.unsigned()? },
    })
}
