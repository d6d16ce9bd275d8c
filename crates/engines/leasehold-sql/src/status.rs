//! Reads locks for display.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_core::proto::drift;
use leasehold_core::proto::read_write::Phase;
use leasehold_core::{
    AttemptId, Deadline, ErrorKind, Holder, Name, Result, State, Status, Token, Waiter,
};

use crate::connection::Value;
use crate::error::strange;
use crate::pool::Lane;
use crate::record::{self, COLUMNS, PATIENCE, Record, nobody, us};
use crate::store::Store;
use crate::stored_origin::StoredOrigin;
use crate::tables::Tables;

/// How many waiters of one lock are listed.
pub(crate) const NAMED: usize = 100;
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
        statuses.pop().ok_or_else(|| strange("no status"))?
    }

    /// Returns the locks whose names start with a prefix. A name with a record that cannot be read has a note.
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
            let read = self.with_lines(listed, until).await?;
            for ((name, _), status) in listed.iter().zip(read) {
                statuses.push(match status {
                    Err(error) if error.kind() == ErrorKind::Foreign => {
                        Status::unknown(name, &error)
                    }
                    status => status?,
                });
            }
        }
        Ok(statuses)
    }

    async fn with_lines(
        &self,
        listed: &mut [(Name, Record)],
        until: Deadline,
    ) -> Result<Vec<Result<Status>>> {
        let asked: Vec<&Name> = listed
            .iter()
            .filter(|(_, record)| record.has_queue && record.other_kind().is_none())
            .map(|(name, _)| name)
            .collect();
        let mut lines = self.lines(&asked, until).await?;
        let mut readers = self.readers(listed, until).await?;
        let mut others = self.others(listed, until).await?;
        let status = |(name, record): &(Name, Record)| {
            if let Some(status) = others.remove(name) {
                return status;
            }
            let mut status = status(name.clone(), record, lines.remove(name).unwrap_or_default());
            status.readers = readers.remove(name).unwrap_or_default();
            if let Some(reader) = status.readers.first() {
                status.holder = Some(reader.clone());
            }
            Ok(status)
        };
        Ok(listed.iter().map(status).collect())
    }

    /// Returns the clients that read each of these locks.
    async fn readers(
        &self,
        listed: &[(Name, Record)],
        until: Deadline,
    ) -> Result<BTreeMap<Name, Vec<Holder>>> {
        let Tables { dialect, readers, .. } = &self.tables;
        let reads =
            |record: &Record| record.parts.phase == Phase::Read && !record.remaining().is_zero();
        let read: Vec<_> = listed.iter().filter(|(_, record)| reads(record)).collect();
        let mut found = BTreeMap::new();
        if read.is_empty() {
            return Ok(found);
        }
        let (clock, nobody) = (dialect.now(), dialect.bytes(&nobody().to_bytes()));
        let ask = |(name, record): &&(Name, Record)| {
            let (name, base) = (dialect.bytes(name.as_str().as_bytes()), record.parts.base);
            format!(
                "SELECT attempt, person FROM {readers} WHERE name = {name} AND base = {base} \
                 AND attempt <> {nobody} AND until_us > {clock} ORDER BY attempt LIMIT {NAMED}"
            )
        };
        let statements: Vec<String> = read.iter().map(ask).collect();
        let replies = self.run(Lane::Usual, &dialect.plain(&statements), until).await?;
        for ((name, _), reply) in read.into_iter().zip(&replies) {
            let mut holders = Vec::new();
            for row in &reply.rows {
                let [attempt, person] = row.as_slice() else {
                    return Err(strange("a short row of a reader"));
                };
                holders.push(holder(record::attempt(attempt)?, person.bytes()?));
            }
            found.insert(name.clone(), holders);
        }
        Ok(found)
    }

    async fn lines(&self, names: &[&Name], until: Deadline) -> Result<BTreeMap<Name, WaiterPage>> {
        let Tables { dialect, waiters, read_waiters, .. } = &self.tables;
        let mut lines: BTreeMap<Name, WaiterPage> = BTreeMap::new();
        if names.is_empty() {
            return Ok(lines);
        }
        let (clock, patience) = (dialect.now(), us(PATIENCE));
        let mut statements = Vec::new();
        for name in names {
            let name = dialect.bytes(name.as_str().as_bytes());
            let waiting = format!("name = {name} AND seen_us > {clock} - {patience}");
            let first = |table: &str| {
                format!(
                    "SELECT attempt, person, asked_us, tokens, ticket FROM {table} \
                     WHERE {waiting} ORDER BY ticket LIMIT {NAMED}"
                )
            };
            let count = |table: &str| format!("SELECT COUNT(*) FROM {table} WHERE {waiting}");
            match self.has_readers() {
                true => {
                    statements.push(format!(
                        "SELECT * FROM ({}) AS writing UNION ALL SELECT * FROM ({}) AS reading \
                         ORDER BY ticket LIMIT {NAMED}",
                        first(waiters),
                        first(read_waiters)
                    ));
                    let both = format!("({}) + ({})", count(waiters), count(read_waiters));
                    statements.push(format!("SELECT {both}"));
                }
                false => statements.extend([first(waiters), count(waiters)]),
            }
        }
        let replies = self.run(Lane::Usual, &dialect.plain(&statements), until).await?;
        for (name, replies) in names.iter().zip(replies.chunks(2)) {
            let [waiters, count] = replies else { return Err(strange("replies are missing")) };
            let mut queue = Vec::new();
            for row in &waiters.rows {
                let [attempt, person, asked_us, tokens, _] = row.as_slice() else {
                    return Err(strange("a short row of a waiter"));
                };
                let holder = holder(record::attempt(attempt)?, person.bytes()?);
                let waiter = Waiter::new(holder, asked_us.unsigned()? / 1000);
                queue.push(waiter.with_shared(tokens.number()? == 0));
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
    let remaining = record.remaining();
    let state = match parts.phase {
        _ if remaining.is_zero() => State::Free,
        Phase::Free => State::Free,
        Phase::Read => State::Shared,
        Phase::Write => State::Held,
        Phase::Kept => State::Kept,
    };
    let owner = parts.last.as_ref();
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
    status.since_unix_ms = status.token.map(|_| record.since_us / 1000);
    status.remaining = (state != State::Free).then_some(remaining);
    status.more_waiters = all.saturating_sub(waiters.len());
    status.waiters = Some(waiters);
    status.note = note;
    status
}

pub(crate) fn holder(attempt: AttemptId, person: &[u8]) -> Holder {
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
