//! Reads records for display: one lock, or all locks under a prefix.

mod permits;

use std::time::Duration;

use futures_util::future::join_all;
use leasehold_core::{Error, Holder, Name, Result, State, Status, Token, Waiter};
use redis::Value;

use crate::backend::RedisBackend;
use crate::call_limit::LIMITS;
use crate::error::{foreign, strange};
use crate::reply::{self, FIXED, permit};
use crate::scan::Scan;

/// How many records one script reads: the server does nothing else meanwhile.
const READ: usize = 250;
/// How many answers the script gives for each record.
const ANSWERS: usize = 7;
/// How many waiters are shown.
const SHOWN: usize = 100;

impl RedisBackend {
    /// Reads records that fit into one call.
    pub(crate) async fn statuses(&self, names: &[Name]) -> Result<Vec<Result<Status>>> {
        let keys: Vec<String> = names.iter().map(|name| self.keys.of(name)).collect();
        let Some(first) = keys.first() else { return Ok(Vec::new()) };
        let mut command = redis::cmd("EVALSHA");
        command.arg(self.route.scripts().status.hash()).arg(keys.len()).arg(&keys);
        let Value::Array(answers) = self.route.run(first, &command, LIMITS.1).await? else {
            return Err(strange("status is not an array"));
        };
        let each = names.iter().zip(&keys).zip(answers.chunks(ANSWERS));
        Ok(each.map(|((name, key), answers)| status(name.clone(), key, answers)).collect())
    }

    /// Reads the records of at most `limit` locks whose names start with `prefix`.
    pub(crate) async fn list_locks(&self, prefix: &str, limit: usize) -> Result<Vec<Status>> {
        let mut names = self.scan(prefix).await?;
        names.truncate(limit);
        let mut listed = Vec::new();
        for page in names.chunks(READ) {
            let groups = self.route.together(&self.keys, page.iter());
            let names = |group: &Vec<usize>| -> Vec<Name> {
                group.iter().map(|&number| page[number].clone()).collect()
            };
            let groups: Vec<Vec<Name>> = groups.iter().map(names).collect();
            let statuses = join_all(groups.iter().map(|group| self.statuses(group))).await;
            for (group, statuses) in groups.iter().zip(statuses) {
                let each = group.iter().zip(statuses?);
                listed.extend(each.filter_map(|(name, status)| match status {
                    Ok(status) => Some(status),
                    Err(error) => self.noted(name, &error),
                }));
            }
        }
        listed.sort_by(|one, next| one.name.cmp(&next.name));
        Ok(listed)
    }

    /// Shows a name whose record has a newer version as unknown, with a note. Keys of other programs under the prefix
    /// are not locks.
    fn noted(&self, name: &Name, error: &Error) -> Option<Status> {
        if error.message() != foreign(b'V', &self.keys.of(name)).message() {
            return None;
        }
        Some(Status::unknown(name, error))
    }

    async fn scan(&self, prefix: &str) -> Result<Vec<Name>> {
        let mut scan = Scan::new(&self.keys, prefix);
        for link in self.route.all()? {
            scan.begin();
            while let Some(command) = scan.next() {
                scan.take(link.command(&command, LIMITS.1).await?)?;
            }
        }
        Ok(scan.names())
    }
}

/// Builds the status of one lock from the answers of the script: the record, the server time, the
/// first entries of each queue and its length, and the readers. For a latch, the length of the second queue is the rest
/// of its ttl in milliseconds.
pub(crate) fn status(name: Name, key: &str, answers: &[Value]) -> Result<Status> {
    let [record, now, queue, all, read_queue, all_read, members] = answers else {
        return Err(strange(answers));
    };
    let now = match now {
        Value::BulkString(now) => reply::number(&String::from_utf8_lossy(now))?,
        other => return Err(strange(other)),
    };
    if let Value::BulkString(bytes) = record
        && let Ok(record) = std::str::from_utf8(bytes)
        && permit::is_record(record)
    {
        return permits::status(&name, record, now, answers);
    }
    let mut waiters = waiters(queue, false)?;
    waiters.extend(self::waiters(read_queue, true)?);
    waiters.sort_by_key(|(ticket, _)| *ticket);
    waiters.truncate(SHOWN);
    let (Value::Int(all), Value::Int(all_read)) = (all, all_read) else {
        return Err(strange(answers));
    };
    let all = usize::try_from(all.saturating_add(*all_read)).unwrap_or_default();
    let mut status = Status::free(&name);
    status.more_waiters = all.saturating_sub(waiters.len());
    status.waiters = Some(waiters.into_iter().map(|(_, waiter)| waiter).collect());
    let record = match record {
        Value::Nil => return Ok(status),
        Value::BulkString(record) => String::from_utf8_lossy(record),
        other => return Err(strange(other)),
    };
    if record.starts_with("leasehold latch ") {
        let remaining =
            u64::try_from(*all_read).ok().filter(|ms| *ms > 0).map(Duration::from_millis);
        return Ok(Status::of_latch(&name, record.as_bytes(), remaining));
    }
    let ours = record.starts_with("L1") || record.starts_with("L2");
    if !ours || record.len() < FIXED || !record.is_char_boundary(FIXED) {
        let newer = matches!(record.as_bytes(), [b'L', b'3'..=b'9', ..] | [b'S', b'2'..=b'9', ..]);
        return Err(foreign(if newer { b'V' } else { b'F' }, key));
    }
    let field = |from: usize, to: usize| record.get(from..to).ok_or_else(|| strange(&record));
    let ends = reply::number(field(100, 116)?)?;
    let tail_length = reply::number(field(132, 136)?)? as usize;
    let tail = record.get(FIXED..FIXED + tail_length).unwrap_or_default();
    let base = reply::number(field(68, 84)?)?;
    status.token = Token::new(base);
    if status.token.is_some() {
        status.holder = Some(reply::holder(reply::attempt(field(36, 68)?)?, tail));
        status.since_unix_ms = Some(reply::number(field(116, 132)?)? / 1000);
    }
    status.state = match (field(34, 35)?, ends > now) {
        ("H" | "O", true) => State::Held,
        ("R", true) => State::Shared,
        ("K", true) => State::Kept,
        _ => State::Free,
    };
    if status.state == State::Shared {
        status.readers = readers(members)?;
        status.holder = status.readers.first().cloned().or(status.holder);
    }
    if status.state != State::Free {
        let remaining = Duration::from_micros(ends - now);
        status.remaining = Some(remaining);
        if remaining > leasehold_core::proto::drift(Duration::from_secs(24 * 3600)) * 100 {
            status.note = Some(
                "the lease ends more than a day from now: the clock of the server was set back; \
                 end the lease with force-release"
                    .to_owned(),
            );
        }
    }
    Ok(status)
}

/// Parses the readers: attempt and tail, in turn.
fn readers(members: &Value) -> Result<Vec<Holder>> {
    let texts = texts(members)?;
    let reader = |pair: &[String]| {
        Ok(reply::holder(reply::attempt(&pair[0])?, pair[1].get(4..).unwrap_or_default()))
    };
    texts.chunks_exact(2).map(reader).collect()
}

/// Parses members and tickets, in turn. A ticket is the time in microseconds at which the waiter
/// joined.
fn waiters(queue: &Value, shared: bool) -> Result<Vec<(u64, Waiter)>> {
    let texts = texts(queue)?;
    let waiter = |pair: &[String]| {
        let (member, ticket) = (&pair[0], &pair[1]);
        let attempt = reply::attempt(member.get(..32).unwrap_or_default())?;
        let holder = reply::holder(attempt, member.get(52..).unwrap_or_default());
        let ticket = ticket.parse::<f64>().unwrap_or_default() as u64;
        let mut waiter = Waiter::new(holder, ticket / 1000);
        waiter.shared = shared;
        Ok((ticket, waiter))
    };
    texts.chunks_exact(2).map(waiter).collect()
}

/// Reads an array of texts and scores.
fn texts(queue: &Value) -> Result<Vec<String>> {
    let Value::Array(queue) = queue else { return Err(strange(queue)) };
    let mut texts = Vec::new();
    for value in queue {
        match value {
            Value::BulkString(bytes) => texts.push(String::from_utf8_lossy(bytes).into_owned()),
            Value::Double(ticket) => texts.push(format!("{ticket:.0}")),
            // RESP3 may return pairs.
            Value::Array(pair) => {
                for value in pair {
                    match value {
                        Value::BulkString(bytes) => {
                            texts.push(String::from_utf8_lossy(bytes).into_owned());
                        }
                        Value::Double(ticket) => texts.push(format!("{ticket:.0}")),
                        other => return Err(strange(other)),
                    }
                }
            }
            other => return Err(strange(other)),
        }
    }
    Ok(texts)
}
