//! Reads locks for display.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_core::proto::{drift, handoff};
use leasehold_core::{AttemptId, Deadline, Holder, Name, Result, State, Status, Token, Waiter};

use crate::connection::Value;
use crate::error::strange;
use crate::pool::Lane;
use crate::record::{self, COLUMNS, PATIENCE, Record, us};
use crate::store::Store;
use crate::stored_origin::StoredOrigin;
use crate::tables::Tables;

/// How many waiters of one lock are listed.
const NAMED: usize = 100;
/// For how many locks one packet reads the waiters.
const TOGETHER: usize = 200;

/// The queue of a lock: the first waiters, and the number of all.
type WaiterPage = (Vec<Waiter>, usize);

impl Store {
    /// Returns the holder and the waiters of a lock.
    pub(crate) async fn status(&self, name: &Name, until: Deadline) -> Result<Status> {
        let packet = self.tables.dialect.plain(&[record::ask_row(&self.tables, name)]);
        let replies = self.run(Lane::Usual, &packet, until).await?;
        let row = replies.first().and_then(|reply| reply.rows.first());
        let record = Record::of_row(row.ok_or_else(|| strange("no row"))?)?;
        let mut listed = vec![(name.clone(), record)];
        let mut statuses = self.with_lines(&mut listed, until).await?;
        statuses.pop().ok_or_else(|| strange("no status"))
    }

    /// Returns the locks whose names start with a prefix.
    pub(crate) async fn list(
        &self,
        prefix: &str,
        limit: usize,
        until: Deadline,
    ) -> Result<Vec<Status>> {
        let Tables { dialect, locks, .. } = &self.tables;
        let (clock, theirs) = (dialect.now(), begins(&self.tables, "l.name", prefix));
        let packet = dialect.plain(&[format!(
            "SELECT l.name, {clock}, {COLUMNS} FROM {locks} l WHERE {theirs} ORDER BY l.name \
             LIMIT {}",
            i64::try_from(limit).unwrap_or(i64::MAX)
        )]);
        let replies = self.run(Lane::Usual, &packet, until).await?;
        let mut listed = Vec::new();
        for row in replies.first().map(|reply| reply.rows.as_slice()).unwrap_or_default() {
            let [name, row @ ..] = row.as_slice() else { return Err(strange("a short row")) };
            listed.push((name_of(name)?, Record::of_row(row)?));
        }
        let mut statuses = Vec::new();
        for listed in listed.chunks_mut(TOGETHER) {
            statuses.extend(self.with_lines(listed, until).await?);
        }
        Ok(statuses)
    }

    async fn with_lines(
        &self,
        listed: &mut [(Name, Record)],
        until: Deadline,
    ) -> Result<Vec<Status>> {
        let asked: Vec<&Name> =
            listed.iter().filter(|(_, record)| record.has_queue).map(|(name, _)| name).collect();
        let mut lines = self.lines(&asked, until).await?;
        let status = |(name, record): &(Name, Record)| {
            status(name.clone(), record, lines.remove(name).unwrap_or_default())
        };
        Ok(listed.iter().map(status).collect())
    }

    async fn lines(&self, names: &[&Name], until: Deadline) -> Result<BTreeMap<Name, WaiterPage>> {
        let Tables { dialect, waiters, .. } = &self.tables;
        let mut lines: BTreeMap<Name, WaiterPage> = BTreeMap::new();
        if names.is_empty() {
            return Ok(lines);
        }
        let (clock, patience) = (dialect.now(), us(PATIENCE));
        let mut statements = Vec::new();
        for name in names {
            let name = dialect.bytes(name.as_str().as_bytes());
            let waiting = format!("name = {name} AND seen_us > {clock} - {patience}");
            statements.push(format!(
                "SELECT attempt, person, asked_us FROM {waiters} WHERE {waiting} \
                 ORDER BY ticket LIMIT {NAMED}"
            ));
            statements.push(format!("SELECT COUNT(*) FROM {waiters} WHERE {waiting}"));
        }
        let replies = self.run(Lane::Usual, &dialect.plain(&statements), until).await?;
        for (name, replies) in names.iter().zip(replies.chunks(2)) {
            let [waiters, count] = replies else { return Err(strange("replies are missing")) };
            let mut queue = Vec::new();
            for row in &waiters.rows {
                let [attempt, person, asked_us] = row.as_slice() else {
                    return Err(strange("a short row of a waiter"));
                };
                let holder = holder(record::attempt(attempt)?, person.bytes()?);
                queue.push(Waiter::new(holder, asked_us.unsigned()? / 1000));
            }
            let all = count.rows.first().and_then(|row| row.first()).map(Value::unsigned);
            let all = usize::try_from(all.transpose()?.unwrap_or(0)).unwrap_or(usize::MAX);
            lines.insert((*name).clone(), (queue, all));
        }
        Ok(lines)
    }
}

fn status(name: Name, record: &Record, (waiters, all): WaiterPage) -> Status {
    let parts = &record.parts;
    let remaining = Duration::from_nanos(parts.until_ns.saturating_sub(record.now.steady_ns));
    let state = match parts.state {
        handoff::State::Held if !remaining.is_zero() => State::Held,
        handoff::State::Kept if !remaining.is_zero() => State::Kept,
        _ => State::Free,
    };
    let owner = parts.owner.as_ref();
    let far = remaining > drift(Duration::from_secs(24 * 3600)) * 100;
    let note = (state != State::Free && far).then(|| {
        "the lease ends more than a day from now: the clock of the database was set back; end the \
         lease with force-release"
            .to_owned()
    });
    let mut status = Status::free(&name);
    status.state = state;
    status.holder = owner.map(|(attempt, tag)| holder(*attempt, &tag.person));
    status.token = Token::new(parts.base);
    status.since_unix_ms = owner.map(|_| record.since_us / 1000);
    status.remaining = (state != State::Free).then_some(remaining);
    status.more_waiters = all.saturating_sub(waiters.len());
    status.waiters = Some(waiters);
    status.note = note;
    status
}

fn holder(attempt: AttemptId, person: &[u8]) -> Holder {
    let StoredOrigin { host, pid, metadata } = serde_json::from_slice(person).unwrap_or_default();
    Holder::new(attempt, host, pid, metadata)
}

pub(crate) fn name_of(value: &Value) -> Result<Name> {
    Name::new(String::from_utf8_lossy(value.bytes()?)).map_err(|_| strange("a name"))
}

/// Returns the condition that a column of names starts with a prefix. The byte order of names is
/// the order of their letters, and no byte of a name is the last one.
pub(crate) fn begins(tables: &Tables, column: &str, prefix: &str) -> String {
    let dialect = tables.dialect;
    let mut end = prefix.as_bytes().to_vec();
    let Some(last) = end.last_mut() else { return "1 = 1".to_owned() };
    *last += 1;
    let (start, end) = (dialect.bytes(prefix.as_bytes()), dialect.bytes(&end));
    format!("{column} >= {start} AND {column} < {end}")
}
