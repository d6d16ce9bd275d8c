//! Reads records for display: one lock, or all locks under a prefix.

use std::time::Duration;

use futures_util::future::join_all;
use leasehold_core::{Name, Result, State, Status, Token, Waiter};
use redis::Value;

use crate::backend::{LIMITS, RedisBackend};
use crate::error::{foreign, strange};
use crate::reply::{self, FIXED};
use crate::scan::Scan;

/// How many records one script reads: the server does nothing else meanwhile.
const READ: usize = 250;

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
        let each = names.iter().zip(&keys).zip(answers.chunks(4));
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
            for statuses in join_all(groups.iter().map(|group| self.statuses(group))).await {
                // Keys of other programs under this prefix are not locks.
                listed.extend(statuses?.into_iter().filter_map(Result::ok));
            }
        }
        listed.sort_by(|one, next| one.name.cmp(&next.name));
        Ok(listed)
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

/// Builds the status of one lock from the four answers of the script: the record, the server time,
/// the first entries of the queue, and the length of the queue.
fn status(name: Name, key: &str, answers: &[Value]) -> Result<Status> {
    let [record, now, queue, all] = answers else { return Err(strange(answers)) };
    let now = match now {
        Value::BulkString(now) => reply::number(&String::from_utf8_lossy(now))?,
        other => return Err(strange(other)),
    };
    let waiters = waiters(queue)?;
    let more_waiters = match all {
        Value::Int(all) => usize::try_from(*all).unwrap_or_default().saturating_sub(waiters.len()),
        other => return Err(strange(other)),
    };
    let mut status = Status::free(&name);
    (status.waiters, status.more_waiters) = (Some(waiters), more_waiters);
    let record = match record {
        Value::Nil => return Ok(status),
        Value::BulkString(record) => String::from_utf8_lossy(record),
        other => return Err(strange(other)),
    };
    if !record.starts_with("L1") || record.len() < FIXED || !record.is_char_boundary(FIXED) {
        let newer = record.starts_with('L')
            && record.as_bytes().get(1).is_some_and(|version| (b'2'..=b'9').contains(version));
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
        ("K", true) => State::Kept,
        _ => State::Free,
    };
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

/// Parses members and tickets, in turn. A ticket is the time in microseconds at which the waiter
/// joined.
fn waiters(queue: &Value) -> Result<Vec<Waiter>> {
    let Value::Array(queue) = queue else { return Err(strange(queue)) };
    let mut waiters = Vec::new();
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
    for pair in texts.chunks_exact(2) {
        let (member, ticket) = (&pair[0], &pair[1]);
        let attempt = reply::attempt(member.get(..32).unwrap_or_default())?;
        let holder = reply::holder(attempt, member.get(52..).unwrap_or_default());
        let since = ticket.parse::<f64>().unwrap_or_default() as u64;
        waiters.push(Waiter::new(holder, since / 1000));
    }
    Ok(waiters)
}
